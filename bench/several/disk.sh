# What a byte on a virtio disk costs, in requests of some sizes, past the page cache.
export PATH=/bin:/bench/bin:/bench/usr/bin
file=/dev/vda
# The blocks are there before they are measured: no first copies.
dd if=/dev/zero of=$file bs=1M count=16 conv=fsync 2>/dev/null
job() { # job NAME SIZE DIRECTION BLOCK
    echo "@bench disk-$1 ns $(stopwatch run -o /tmp/out /bench/usr/bin/fio --name=disk --filename=$file --size=$2 --rw=$3 --bs=$4 \
        --ioengine=libaio --iodepth=4 --direct=1 --output-format=terse 2>/tmp/error)"
}
# What fio takes to start and to end: to be subtracted.
job none 4k read 4k
for block in 4k 64k; do
    job read-$block 16m read $block
    job write-$block 16m write $block
done
echo "@bench done"
