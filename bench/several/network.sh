# What a byte between two guests costs: both run this. `alpha` measures, `beta` serves until it is told that it is over.
export PATH=/bin:/bench/bin:/bench/usr/bin
ifconfig lo 127.0.0.1 up
beta=10.0.0.2
if [ "$(hostname)" = beta ]; then
    ifconfig eth0 $beta up
    iperf3 --server --daemon
    exec iperf3 --server --port 5202 --one-off >/dev/null
fi
ifconfig eth0 10.0.0.1 up
tries=0
until iperf3 --client $beta --bytes 64K >/tmp/out 2>&1; do
    tries=$((tries + 1))
    if [ $tries = 100 ]; then echo "@bench network missing $(tail -n 1 /tmp/out)"; break; fi
    usleep 200000
done
# The difference of both is without what a connection takes to open and to close.
for bytes in 1M 9M; do
    echo "@bench network-$bytes ns $(stopwatch run -o /tmp/out /bench/usr/bin/iperf3 --client $beta --bytes $bytes)"
done
iperf3 --client $beta --port 5202 --bytes 1K >/tmp/out
echo "@bench done"
