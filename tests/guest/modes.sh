# What a translator must not get wrong when it keeps registers elsewhere for a while: faults, signals, thread registers,
# many small processes. Runs in the guest's busybox.

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

check shell-script shell_script
for test in thread-register fault-loop mprotect copy-on-write efault fork-exit pipe alarm float kuser mode-change; do
    check "probe-$test" probe "$test"
done
