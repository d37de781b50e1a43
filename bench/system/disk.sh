# What a byte on a disk costs: runs in one guest with a whole Debian, as its given command.
#
# `before` and `behind` are the markers of `spica bench`, if it has put them there: it takes the difference of the
# boards' counts of instructions. Each job moves the same bytes past the page cache, once in small requests and once in
# large ones, so a difference of two jobs tells what a request costs and what a byte does.
mark() { if command -v "$1" >/dev/null; then "$1"; fi; }
file=/var/tmp/disk size=16M
# The blocks are there before they are measured: no allocation, and on a copy-on-write disk, no first copy.
dd if=/dev/zero of=$file bs=1M count=16 conv=fsync status=none
for job in read write randread randwrite; do
    for block in 4k 64k; do
        echo "job disk-$job-$block bytes $((16 << 20))"
        mark before
        fio --name=disk --filename=$file --size=$size --rw=$job --bs=$block --ioengine=libaio --iodepth=4 --direct=1 \
            --randseed=1 --output-format=terse >/run/fio || echo "job disk-$job-$block failed"
        mark behind
    done
done
echo "job none bytes 0"
mark before
# What fio takes to start and to end: to be subtracted.
fio --name=disk --filename=$file --size=4k --rw=read --bs=4k --ioengine=libaio --direct=1 --output-format=terse >/run/fio
mark behind
