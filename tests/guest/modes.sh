# What a translator must not get wrong when it keeps registers elsewhere for a while: faults, signals, thread registers,
# many small processes; and code that the kernel makes. Runs in the guest's busybox.

check() { # check NAME COMMAND...
    echo "=== $1"
    shift
    "$@"
    echo "--- $?"
}

shell_script() {
    sum=0
    i=0
    while [ $i -lt 2000 ]; do
        sum=$(((sum * 31 + i) & 0xffffff))
        i=$((i + 1))
    done
    for i in 1 2 3 4 5 6 7 8; do ls -l / | grep -c . >/dev/null || return 1; done
    echo "sum $sum"
}

# An optimised kprobe: the kernel copies a template from its text, and has the probed function branch to the copy.
kprobe() (
    mount -t debugfs none /sys/kernel/debug && cd /sys/kernel/debug/tracing || return 1
    echo 'p:opened path_openat' >kprobe_events
    echo 1 >events/kprobes/opened/enable
    n=0
    until grep -q OPTIMIZED ../kprobes/list; do
        n=$((n + 1))
        [ $n -lt 50 ] || { cat ../kprobes/list; return 1; }
        sleep 0.1
    done
    echo >trace
    for n in 1 2 3 4 5 6 7 8 9 10; do : </proc/version; done
    echo 0 >events/kprobes/opened/enable
    n=$(grep -c 'opened: (path_openat' trace)
    echo >kprobe_events
    [ "$n" -ge 10 ] || { echo "$n hits"; return 1; }
)

check shell-script shell_script
check kprobe kprobe
for test in thread-register fault-loop mprotect copy-on-write efault fork-exit pipe alarm float kuser mode-change; do
    check "probe-$test" probe "$test"
done
