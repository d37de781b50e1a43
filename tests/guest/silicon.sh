# Work that changes code, tables and address spaces, for the checker of what an emulator forgives (`silicon.rs`). It is
# short, because everything takes twenty times as long there. Runs in the guest's busybox.

check() { # check NAME COMMAND...
    echo "=== $1"
    shift
    ("$@")
    echo "--- $?"
}

fail() {
    echo "$*"
    exit 1
}

modules() {
    for round in 1 2; do
        for module in dummy loop test_static_keys; do
            modprobe $module || fail "modprobe $module in round $round"
        done
        for module in test_static_keys test_static_key_base dummy loop; do
            rmmod $module || fail "rmmod $module in round $round"
        done
    done
}

# More processes at once than there are ASIDs would take too long; these are some, each with programs of its own.
fork_storm() {
    for round in 1 2 3; do
        for one in 1 2 3 4 5 6 7 8; do
            (
                /bin/busybox true
                seq 1 20 | sort -n | tail -n 1 >/dev/null
            ) &
        done
        wait
    done
}

files() {
    dd if=/dev/zero of=/tmp/x bs=64k count=8 2>/dev/null || fail "dd"
    cmp /tmp/x /tmp/x || fail "cmp"
    rm /tmp/x
}

check modules modules
check fork-storm fork_storm
check files files
for probe in self-modifying copy-on-write mprotect fork-exit pipe alarm float kuser thread-register; do
    check probe-$probe probe $probe
done
