# Runs the workloads of /bench/order in the guest, one after the other, and prints what came of each: lines that begin
# with "@bench", see crates/runner/src/bench/workloads/reading.rs. Started by the guest's init, in busybox's shell.
#
# /bench/parameters has the fixed parameters, /bench/expected what is known of outputs beforehand.

. /bench/parameters
export ENOUGH LOOP_O TIMING_O

say() {
    echo "@bench $name $*"
}

# mark PLACE: where the board is stopped, if something is counted.
mark() {
    if [ -x "/spica/$1" ]; then "/spica/$1"; fi
}

# --- Kernel operations ---------------------------------------------------------------------------------------------

lmbench=/var/tmp/lmbench
again=
verb=operation
file=/tmp/bench-file

# kernel PROGRAM ARGUMENT...: a program of lmbench, or in its absence the operation of this name in the stopwatch. If
# something is counted, it is done twice more, for one time and for two: what happens once only, the first time has
# seen.
kernel() {
    program=$lmbench/$1
    shift
    operation "$@"
    if [ -x /spica/middle ]; then
        again=again-
        mark before
        operation "$@"
        mark middle
        ENOUGH=$((2 * ENOUGH))
        operation "$@"
        mark behind
        again=
        ENOUGH=$((ENOUGH / 2))
    fi
}

operation() {
    if [ -x "$program" ]; then
        # shellcheck disable=SC2086,SC2046 # The options are words; the lines of the output become one.
        say ${again}lmbench $("$program" $LMBENCH_OPTIONS "$@" 2>&1)
    else
        time=$(stopwatch $verb "$name" "$ENOUGH" 2>/tmp/error)
        if [ -n "$time" ]; then say ${again}ns "$time"; else say missing "$(cat /tmp/error)"; fi
    fi
}

# An operation that others than lmbench found slow. Where something is counted, the emulator is many times slower, and
# it is not repeated for longer than others.
cliff() {
    enough=$ENOUGH
    if ! [ -x /spica/middle ]; then ENOUGH=$CLIFF_ENOUGH; fi
    kernel none
    ENOUGH=$enough
}

# --- Applications --------------------------------------------------------------------------------------------------

# application INPUT OUTPUT PROGRAM ARGUMENT...: one run from start to end, timed. The output is checked: what `check`
# makes of it (as it is, if that is empty) against what is expected, and its digest is printed for others to compare.
# With `check=status`, nothing but the exit status counts.
application() {
    input=$1
    output=$2
    shift 2
    mark before
    # shellcheck disable=SC2046 # Two words: nanoseconds and exit status.
    set -- $(stopwatch run -i "$input" -o "$output" "$@" 2>/tmp/error)
    mark behind
    if [ $# != 2 ]; then
        say missing "the stopwatch failed: $(tail -n 1 /tmp/error)"
        return
    fi
    if [ "$2" != 0 ]; then
        say missing "exit status $2: $(tail -n 1 /tmp/error)"
        return
    fi
    checked=$output
    if [ "$check" = status ]; then
        say ns "$1"
        return
    elif [ -n "$check" ]; then
        checked=/tmp/checked
        $check "$output" >$checked 2>/tmp/error
    fi
    digest=$(sha256sum <$checked)
    digest=${digest%% *}
    expected=$(sed -n "s/^$name //p" /bench/expected)
    case $expected in
    "" | "sha256 $digest" | "bytes $(wc -c <$checked)") ;;
    *)
        say missing "wrong output: $(wc -c <$checked) bytes, sha256 $digest; expected $expected"
        return
        ;;
    esac
    say sha256 "$digest"
    say ns "$1"
}

bin=/bench/usr/bin
null=/dev/null

# What an application works on that another one makes: made without being timed if that one did not run.
made() { # made FILE INPUT PROGRAM ARGUMENT...
    target=$1
    input=$2
    shift 2
    [ -s "$target" ] || "$@" <"$input" >"$target" 2>/tmp/error
}

dictionary() {
    echo "$bin/buildhash -s /bench/american.mwl /bench/english.aff /tmp/american.hash"
}

dictionary_file() {
    cat /tmp/american.hash
}

sorted() {
    sort -u "$1"
}

# Answers of the server, once it has been talked to.
redis_state() {
    for question in "get counter:__rand_int__" "llen mylist" "strlen key:__rand_int__"; do
        # shellcheck disable=SC2086 # Words.
        $bin/redis-cli -s /tmp/redis.sock $question
    done
}

redis() {
    $bin/redis-server --port 0 --unixsocket /tmp/redis.sock --save "" --appendonly no --dir /tmp >/tmp/redis.log 2>&1 &
    server=$!
    tries=0
    while [ ! -S /tmp/redis.sock ] && [ $tries -lt 200 ]; do
        usleep 50000
        tries=$((tries + 1))
    done
    check=redis_state
    application $null /tmp/redis.out $bin/redis-benchmark -s /tmp/redis.sock -q -c 5 -n "$REDIS_REQUESTS" \
        -t set,get,incr,lpush
    kill $server
    wait $server
}

# Many small files.
tree() {
    [ -d /tmp/tree ] || (mkdir /tmp/tree && cd /tmp/tree &&
        awk '{ file = sprintf("x%03d", int((NR - 1) / 16)) }
             file != last { if (last) close(last); last = file }
             { print >file }' /bench/text)
}

unpacked() {
    tar -x -O -f "$1"
}

# stress STRESSOR OPERATIONS [OPTION]...: one stressor of stress-ng that ends by itself after that many operations.
stress() {
    stressor=$1
    operations=$2
    shift 2
    check=status # It checks its own work.
    application $null /tmp/stress.out $bin/stress-ng --temp-path /tmp --seed 1 --verify --quiet \
        "--$stressor" 1 "--$stressor-ops" "$operations" "$@"
}

# Bytes from one process to another; both are within the time.
iperf3() {
    $bin/iperf3 --server --daemon
    tries=0
    until $bin/iperf3 --client 127.0.0.1 --bytes 64K >/tmp/iperf3.out 2>&1 || [ $tries = 100 ]; do
        usleep 50000
        tries=$((tries + 1))
    done
    check=status # Its output is how long it took.
    application $null /tmp/iperf3.out $bin/iperf3 --client 127.0.0.1 --bytes 8M
    killall iperf3
}

hackbench() {
    check=status # Its output is how long it took.
    application $null /tmp/hackbench.out $bin/hackbench -g 1 -f 10 -l 100 "$@"
}

# --- All of them ---------------------------------------------------------------------------------------------------

workload() {
    check=
    case $name in
    null) kernel lat_syscall null ;;
    read) kernel lat_syscall read ;;
    write) kernel lat_syscall write ;;
    stat) kernel lat_syscall stat $file ;;
    fstat) kernel lat_syscall fstat $file ;;
    open-close) kernel lat_syscall open $file ;;
    signal-install) kernel lat_sig install ;;
    signal-catch) kernel lat_sig catch ;;
    protection-fault) kernel lat_sig prot $file ;;
    pipe) kernel lat_pipe ;;
    unix) kernel lat_unix ;;
    context-2) kernel lat_ctx -s 0 2 ;;
    context-8) kernel lat_ctx -s 0 8 ;;
    context-16) kernel lat_ctx -s 0 16 ;;
    select-10) kernel lat_select -n 10 file ;;
    select-100) kernel lat_select -n 100 file ;;
    select-tcp-100) kernel lat_select -n 100 tcp ;;
    fork-exit) kernel lat_proc fork ;;
    fork-exec) kernel lat_proc exec ;;
    fork-shell) kernel lat_proc shell ;;
    page-fault) kernel lat_pagefault $file ;;
    mmap) kernel lat_mmap 4m $file ;;
    cacheflush) cliff ;;
    jit) cliff ;;
    ftrace) cliff ;;
    interval-timer) cliff ;;
    sleep) cliff ;;
    misaligned) cliff ;;
    processes) cliff ;;
    # Each of its reads misses the emulator's TLB, too, and nothing else comes to it.
    spread) kernel none ;;
    probe-*)
        # Nothing but probes runs in this boot. What is enough for them is a number of times.
        verb=probe
        ENOUGH=1
        kernel none
        ;;
    lame) application /bench/tone.wav /tmp/tone.mp3 $bin/lame --quiet -m m -b 96 - - ;;
    madplay)
        made /tmp/tone.mp3 /bench/tone.wav $bin/lame --quiet -m m -b 96 - -
        application $null /tmp/tone.raw $bin/madplay -Q -o raw:- /tmp/tone.mp3
        ;;
    toast) application /bench/speech.raw /tmp/speech.gsm $bin/toast -l ;;
    untoast)
        made /tmp/speech.gsm /bench/speech.raw $bin/toast -l
        application /tmp/speech.gsm /tmp/speech.raw $bin/toast -d -l
        ;;
    cjpeg) application /bench/picture.ppm /tmp/picture.jpg $bin/cjpeg -quality 75 ;;
    djpeg)
        made /tmp/picture.jpg /bench/picture.ppm $bin/cjpeg -quality 75
        application /tmp/picture.jpg /tmp/picture.ppm $bin/djpeg -pnm
        ;;
    ispell-build)
        check=dictionary_file
        # shellcheck disable=SC2046 # Words.
        application $null /tmp/buildhash.out $(dictionary)
        ;;
    ispell)
        [ -s /tmp/american.hash ] || $(dictionary) >/tmp/error 2>&1
        check=sorted
        application /bench/text /tmp/misspelt $bin/ispell -l -d /tmp/american.hash
        ;;
    gzip)
        check="gunzip -c"
        application /bench/data /tmp/data.gz /bench/bin/gzip -n -c
        ;;
    gunzip)
        made /tmp/data.gz /bench/data /bench/bin/gzip -n -c
        application /tmp/data.gz /tmp/data /bench/bin/gzip -d -c
        ;;
    bzip2)
        check="bunzip2 -c"
        application /bench/data /tmp/data.bz2 /bench/bin/bzip2 -c
        ;;
    bunzip2)
        made /tmp/data.bz2 /bench/data /bench/bin/bzip2 -c
        application /tmp/data.bz2 /tmp/data /bench/bin/bzip2 -d -c
        ;;
    xz)
        check="unxz -c"
        application /bench/data /tmp/data.xz $bin/xz -1 -c
        ;;
    unxz)
        made /tmp/data.xz /bench/data $bin/xz -1 -c
        application /tmp/data.xz /tmp/data $bin/xz -d -c
        ;;
    sqlite) application /bench/queries.sql /tmp/answers $bin/sqlite3 -batch /tmp/data.sqlite ;;
    redis) redis ;;
    hackbench-pipe) hackbench --pipe ;;
    hackbench-socket) hackbench ;;
    tar-files)
        tree
        check=unpacked
        application $null /tmp/tree.tar /bin/tar -c -f - tree
        ;;
    grep-files)
        tree
        check=sorted
        application $null /tmp/found /bin/grep -r -i 'school .* large' tree
        ;;
    shell-script)
        tree
        application $null /tmp/script.out /bin/sh /bench/script.sh tree/*
        ;;
    stress-matrix) stress matrix 100 --matrix-method prod --matrix-size 64 ;;
    stress-sort) stress qsort 10 --qsort-size 16384 ;;
    stress-memory) stress vm 2000 --vm-bytes 1m --vm-method incdec ;;
    stress-fork) stress fork 100 ;;
    stress-switch) stress switch 1000 ;;
    stress-signal) stress sigsegv 1000 ;;
    iperf3-loopback) iperf3 ;;
    *) say missing "the guest's script does not know it" ;;
    esac
}

PATH=$PATH:/bench/bin
cd /tmp || exit 1
ifconfig lo 127.0.0.1 up
dd if=/dev/zero of=$file bs=1M count=4 2>/dev/null
# The kernel makes its random numbers ready when they are first asked for, which takes a second. No workload shall pay
# it.
head -c 1 /dev/random >/dev/null
# Nor what a boot leaves behind: a guest of Spica's that comes to rest has its code made anew, without what only the
# boot needed (crates/dbt/src/preemptive_flush.rs). For systems that run for years, that is over.
stopwatch operation stat 600000 >/dev/null

while read -r name; do
    say begin
    mark next
    # What it reads must not be the list.
    workload </dev/null
done </bench/order
mark end
echo "@bench done"
