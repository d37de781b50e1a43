# The Linux that a system for real time has beside it: idle, or at work for as long as the board runs.
export PATH=/bin:/bench/bin:/bench/usr/bin
if [ -e /bench/work ]; then
    # Processes, pipes and switches; files, memory and arithmetic.
    (while true; do hackbench --pipe --groups 1 --fds 10 --loops 20 >/dev/null 2>&1; echo "@bench round"; done) &
    (while true; do tar -c -f - /bin /lib 2>/dev/null | gzip | wc -c >/dev/null; done) &
fi
echo "@bench up"
while true; do sleep 1000; done
