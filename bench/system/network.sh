# What a byte between two guests costs: runs in both guests of guests/debian-pair.toml, as their given command.
#
# `beta` serves, `alpha` measures; see disk.sh for the markers. The counts are of the board: they have the work of both
# guests and of the switch in them.
mark() { if command -v "$1" >/dev/null; then "$1"; fi; }
beta=10.0.0.2
if [ "$(hostname)" = beta ]; then
    # Ends when alpha says so.
    iperf3 --server --daemon --pidfile /run/iperf3.pid
    while [ ! -e /run/done ]; do sleep 2; done
    exit 0
fi
until iperf3 --client $beta --bytes 64K >/run/iperf 2>&1; do sleep 2; done
for bytes in 1M 17M; do
    # The difference of both is 16 MiB without what a connection takes to open and to close.
    echo "job network-tcp-$bytes"
    mark before
    iperf3 --client $beta --bytes $bytes --json >/run/iperf || echo "job network-tcp-$bytes failed"
    mark behind
done
for size in 64 1024; do
    echo "job network-ping-$size messages 100"
    mark before
    ping -q -c 100 -i 0.002 -s $size $beta >/run/ping || echo "job network-ping-$size failed"
    mark behind
done
ssh -n $beta touch /run/done
