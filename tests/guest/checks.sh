# All checks of one boot: each is a function, and prints its section for the tests on the development machine to judge.
# Runs in the guest's busybox. If `$1` is `brief`, only those in which a board may differ from another.

check() { # check NAME COMMAND...
    echo "=== $1"
    name=$1
    shift
    # A check that hangs must not keep the others from running.
    (
        "$@" &
        job=$!
        (sleep 300 && echo "check $name hangs" && kill -9 $job) >/dev/null 2>&1 &
        guard=$!
        wait $job
        status=$?
        kill $guard 2>/dev/null
        exit $status
    )
    echo "--- $?"
}

fail() {
    echo "$*"
    exit 1
}

brief=$1
# Neither the processor nor a device of the board makes a difference to these, and they take long.
long() { [ "$brief" = brief ] || check "$@"; }

# --- The shell and its processes -----------------------------------------------------------------------------------

shell_script() {
    fib() { if [ $1 -lt 2 ]; then echo $1; else echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); fi; }
    [ "$(fib 9)" = 34 ] || fail "fib 9 is $(fib 9)"
    sum=0
    i=0
    while [ $i -lt 20000 ]; do
        sum=$(((sum * 31 + i) & 0xffffff))
        i=$((i + 1))
    done
    echo "sum $sum"
    text=$(cat <<END
one two
three
END
    )
    set -- $text
    [ $# = 3 ] || fail "$# words"
    case "$3" in th*e) ;; *) fail "pattern" ;; esac
    echo "$text" | sed 's/o/0/g' | awk '{ n += NF } END { print "words", n }'
}

fork_exec() {
    i=0
    while [ $i -lt 100 ]; do
        /bin/busybox true || fail "true failed in round $i"
        i=$((i + 1))
    done
    /bin/busybox false && fail "false succeeded"
    sh -c 'exit 77'
    [ $? = 77 ] || fail "exit status"
}

pipes() {
    seq 1 5000 | tr 0-9 a-j | sort -r | uniq | wc -l
    seq 1 5000 | awk '{ print $1 * 7 % 1009 }' | sort -n | md5sum
    yes | head -n 25000 | md5sum
}

signals() {
    sh -c 'trap "echo usr1" USR1; kill -USR1 $$; echo after'
    sleep 100 &
    kill -TERM $!
    wait $! 2>/dev/null             # which says "Terminated", unless the shell saw that before
    echo "status $?"
    sh -c 'kill -SEGV $$'
    echo "status $?"
}

# --- Files ---------------------------------------------------------------------------------------------------------

files() {
    mkdir /tmp/files
    cd /tmp/files
    dd if=/dev/urandom of=a bs=64k count=64 2>/dev/null
    cp a b
    cat a | dd of=c bs=1000 2>/dev/null
    sum=$(sha256sum <a)
    [ "$(sha256sum <b)" = "$sum" ] && [ "$(sha256sum <c)" = "$sum" ] || fail "checksums differ"
    cmp a b || fail "files differ"
    rm a b c
    i=0
    while [ $i -lt 400 ]; do
        echo $i >f$i
        i=$((i + 1))
    done
    cat f* | awk '{ s += $1 } END { print "sum", s }'
    find . -name 'f*' | wc -l
    cd /
    rm -r /tmp/files
}

compression() {
    cp /bin/busybox /tmp/x
    gzip /tmp/x
    gunzip -c /tmp/x.gz | cmp - /bin/busybox || fail "gzip changes data"
    rm /tmp/x.gz
    bzip2 -c /bin/busybox | bunzip2 -c | cmp - /bin/busybox || fail "bzip2 changes data"
    seq 1 10000 | gzip -9 | gunzip | md5sum
}

# --- Modules of the kernel -----------------------------------------------------------------------------------------

modules() {
    for round in 1 2; do
        for module in dummy tun loop zram chacha-neon sha1-arm-neon aes-arm-bs xor test_static_keys evdev virtio_mmio; do
            modprobe $module || fail "modprobe $module in round $round"
        done
        lsmod | grep -q ^zsmalloc || fail "a dependency is not loaded"
        for module in test_static_keys test_static_key_base dummy tun loop zram chacha-neon sha1-arm-neon; do
            rmmod $module || fail "rmmod $module in round $round"
        done
    done
    dmesg | grep -E 'BUG|WARNING|Oops' && fail "the kernel complains"
    true
}

neon_in_kernel() {
    # It measures all its algorithms, and checks them by what they compute.
    modprobe raid6_pq || fail "raid6_pq"
    dmesg | grep -q 'raid6: using algorithm' || fail "no algorithm"
    dmesg | grep -c 'raid6: neon'
}

block_devices() {
    modprobe zram && modprobe loop || fail "modules"
    echo 16M >/sys/block/zram0/disksize
    dd if=/dev/urandom of=/tmp/image bs=1M count=8 2>/dev/null
    dd if=/tmp/image of=/dev/zram0 bs=64k 2>/dev/null
    echo 3 >/proc/sys/vm/drop_caches
    dd if=/dev/zram0 bs=64k count=128 2>/dev/null | cmp - /tmp/image || fail "zram changes data"
    losetup /dev/loop0 /tmp/image
    cmp -n 8388608 /dev/loop0 /tmp/image || fail "loop changes data"
    losetup -d /dev/loop0
    rm /tmp/image
    echo 1 >/sys/block/zram0/reset
    # Swapping unmaps pages that are in use, and faults them in again.
    echo 32M >/sys/block/zram0/disksize
    mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 || fail "swap"
    probe mmap || fail "memory under swap"
    swapoff /dev/zram0 || fail "swapoff"
    rmmod zram
}

network() {
    ifconfig lo 127.0.0.1 up || fail "lo"
    ping -c 3 -i 0.1 127.0.0.1 >/dev/null || fail "ping"
    seq 1 100000 >/tmp/sent
    # The receiver's standard input must stay open: at its end, nc closes the connection.
    mkfifo /tmp/open
    nc -l -p 1234 <>/tmp/open >/tmp/received &
    sleep 1
    nc 127.0.0.1 1234 </tmp/sent
    wait $!
    cmp /tmp/sent /tmp/received || fail "TCP changes data"
    rm /tmp/sent /tmp/received /tmp/open
    modprobe dummy && ifconfig dummy0 10.1.1.1 up && ping -c 1 10.1.1.1 >/dev/null || fail "dummy"
}

# --- Time and interrupts -------------------------------------------------------------------------------------------

# Interrupts of all kinds so far: numbers in the second column.
interrupts() { awk '$1 ~ /^[0-9]+:$/ { n += $2 } END { print n }' /proc/interrupts; }

# The date, between two looks at the time since the start: starting `date` may take its time.
instants() {
    for _ in 1 2 3 4 5; do
        read -r before _ </proc/uptime
        date=$(date +%s)
        read -r after _ </proc/uptime
        echo "instant $before $date $after"
    done
}

clock() {
    instants
    interrupts
    for _ in 1 2 3; do
        read -r before _ </proc/uptime
        sleep 2
        read -r after _ </proc/uptime
        echo "sleep $before $after"
    done
    interrupts
    instants
}

sleeps() {
    # A hundred short sleeps: timers in one-shot mode.
    i=0
    start=$(cut -d ' ' -f 1 /proc/uptime)
    while [ $i -lt 100 ]; do
        usleep 10000
        i=$((i + 1))
    done
    end=$(cut -d ' ' -f 1 /proc/uptime)
    echo "$start $end" | awk '{ d = $2 - $1; print "took", d; exit !(d >= 1) }'
}

interrupt_lists() {
    cat /proc/interrupts
    grep -c . /proc/stat
}

# --- Costs: what Spica counts between two of its reports --------------------------------------------------------------

report() {
    echo "@@report"
    sleep 1
}

loop_costs() {
    report
    probe kuser
    report
    probe loop
    report
}

# --- All -----------------------------------------------------------------------------------------------------------

information() {
    uname -srm
    grep -E '^(model name|Features|CPU (part|architecture|variant))' /proc/cpuinfo
    grep MemTotal /proc/meminfo
}

# First: it is of the boot alone.
check log dmesg -r
check information information
long shell-script shell_script
long fork-exec fork_exec
long pipes pipes
check signals signals
# Socket filters are compiled (`probe bpf`).
echo 1 >/proc/sys/net/core/bpf_jit_enable
for test in $(probe | sed 1d); do
    case $test in mmap) long "probe-$test" probe "$test" ;; *) check "probe-$test" probe "$test" ;; esac
done
long files files
long compression compression
long modules modules
check neon-in-kernel neon_in_kernel
long block-devices block_devices
long network network
check clock clock
check sleeps sleeps
check interrupt-lists interrupt_lists
check loop-costs loop_costs
# The kernel may read user memory only where it says so (CONFIG_CPU_SW_DOMAIN_PAN): a module's start routine that just
# does is killed with a domain fault. Last of all, since the kernel complains about that.
access_protection() {
    zcat /proc/config.gz 2>/dev/null | grep SW_DOMAIN_PAN
    insmod /lib/reads-user-memory.ko
    echo "insmod: $?"
    dmesg | sed -n 's/.*\(Unhandled fault: .*\)/\1/p'
}

check complaints sh -c '! dmesg | grep -E "BUG|Oops|WARNING|Unable to handle|stack guard"'
check access-protection access_protection
true
