# Work without end: rounds of the same work, until the time is up, each with its time and a checksum of what came of it.
# `$1` is how many seconds of guest time, `$2` by how much a round has less of everything, `$3` how many rounds there
# are at least; `crates/runner/src/endurance.rs` reads what is printed, and judges it. Runs in the guest's busybox, with
# programs of Debian's packages beside it.
#
#   @round N               a round begins
#   @part NAME CS RESULT   a part of it has taken so many hundredths of a second, and this came of it
#   @levels                now is the time to look at Spica's pools; a key ends the wait
#   @done                  the time is up

seconds=$1
less=$2
least=$3
work=/tmp/endurance
mkdir -p $work
# The same addresses in each round, or none is like another.
echo 0 >/proc/sys/kernel/randomize_va_space

centiseconds() { cut -d ' ' -f 1 /proc/uptime | tr -d .; }

# part NAME COMMAND...: what the command prints is the result; if it fails, so does the part.
part() {
    name=$1
    shift
    from=$(centiseconds)
    if result=$("$@" 2>$work/errors); then
        result=$(echo "$result" | md5sum | cut -c 1-12)
    else
        result="failed:$(tail -n 3 $work/errors | tr '\n ' ';_' | tail -c 300)"
    fi
    echo "@part $name $(($(centiseconds) - from)) $result"
}

stress() {
    stressor=$1
    operations=$((($2 + less - 1) / less))
    shift 2
    echo "# $stressor $(centiseconds)" >/dev/console
    /bench/usr/bin/stress-ng --temp-path $work --seed 1 --verify --quiet "--$stressor" 1 "--$stressor-ops" "$operations" "$@" >&2
}

# Computing, memory, processes, their switches, signals of faults, and code that is rewritten. A round that has less has
# none of what others are nearly the same as: to start a stressor takes as long as its work then.
stress_all() {
    stress cpu 12 && stress vm 600 --vm-bytes 2m && stress fork 60 && stress switch 1500 && stress sigsegv 400 &&
        stress mmap 1 --mmap-bytes 1m && stress icache 2 && stress futex 100 || return 1
    [ "$less" = 1 ] || return 0
    stress pipe 3000 && stress mremap 5 --mremap-bytes 1m && stress vfork 60 && stress hdd 20 --hdd-bytes 1m
}

hackbench() {
    loops=$((120 / less))
    /bench/usr/bin/hackbench -g 1 -f 10 -l $loops --pipe >/dev/null && /bench/usr/bin/hackbench -g 1 -f 10 -l $loops >/dev/null
}

# A program of many functions is written, compiled to a file, and compiled into memory and run from there.
compile() {
    awk -v functions=$((400 / less)) 'BEGIN {
        print "int printf(const char *, ...); static unsigned g[64];"
        for (i = 0; i < functions; i++)
            printf "static unsigned f%d(unsigned a, unsigned b) { unsigned i; for (i = 0; i < %d; i++) { a = a * %du + (b >> %d); g[i & 63] ^= a; b += g[(a >> 3) & 63]; } return a ^ b; }\n", i, i % 37 + 3, 2 * i + 69069, i % 29 + 1
        print "int main(void) { unsigned a = 1, b = 2, n; for (n = 0; n < 20; n++) {"
        for (i = 0; i < functions; i++) printf "a = f%d(a, b); b += a >> 7;\n", i
        print "} printf(\"%08x %08x\\n\", a, b); return 0; }"
    }' >$work/program.c
    for flags in "" -g -b; do
        # shellcheck disable=SC2086
        /bench/usr/bin/tcc $flags -c -o $work/program.o $work/program.c && md5sum <$work/program.o || return 1
        [ "$flags" != -b ] || break
    done
    # The library by the name that a development package would give it.
    ln -sf /lib/arm-linux-gnueabihf/libc.so.6 $work/libc.so
    /bench/usr/bin/tcc -L$work -run $work/program.c
}

# What builds do beside compiling: many small files, sorted, packed, compressed and compared.
pipeline() {
    mkdir -p $work/tree && cd $work/tree || return 1
    i=0
    while [ $i -lt $((40 / less)) ]; do
        seq $i 7 $((i + 900)) >file$i
        i=$((i + 1))
    done
    cat file* | sort -n | uniq -c | md5sum
    tar -c -f - file* | /bench/usr/bin/xz -1 >$work/tree.xz || return 1
    /bench/usr/bin/xz -d <$work/tree.xz | tar -t -f - | md5sum
    tar -c -f - file* | gzip | gunzip | tar -x -O -f - | sha256sum
    seq 1 $((10000 / less)) | awk '{ print ($1 * 7919) % 10007, $1 }' | sort | head -n $((5000 / less)) | md5sum
    cd / && rm -r $work/tree $work/tree.xz
}

modules() {
    load="dummy test_static_keys"
    unload="test_static_keys test_static_key_base dummy"
    if [ $less = 1 ]; then
        load="$load tun loop zram chacha-neon sha1-arm-neon aes-arm-bs"
        unload="$unload tun loop zram zsmalloc chacha-neon sha1-arm-neon aes-arm-bs"
    fi
    for module in $load; do
        modprobe $module || return 1
    done
    for module in $unload; do
        rmmod $module || return 1
    done
    # Drivers of devices depend on the machine.
    cut -d ' ' -f 1 /proc/modules | sed /virtio/d | sort
}

complaints() { ! dmesg -c | grep -E 'BUG|Oops|WARNING|Unable to handle|stack guard|rcu_sched self-detected'; }

levels() {
    rm -f $work/*
    sync
    echo 3 >/proc/sys/vm/drop_caches
    # Where instructions are counted, a guest that waits has its timers at once: the wait is not work.
    from=$(centiseconds)
    echo "@levels $(awk '/^MemFree/ { print $2 }' /proc/meminfo)"
    read -r _ </dev/console
    end=$((end + $(centiseconds) - from))
}

dmesg -c >/dev/null
round=0
end=$(($(centiseconds) + seconds * 100))
while :; do
    round=$((round + 1))
    echo "@round $round"
    part stress stress_all
    part hackbench hackbench
    part compile compile
    part pipeline pipeline
    part modules modules
    part complaints complaints
    # The first round has brought everything into caches; what comes behind the second must be as it was.
    [ $round != 2 ] || levels
    [ $round -lt "$least" ] || [ "$(centiseconds)" -lt $end ] || break
done
levels
echo "@done"
