#!/bin/sh
# start.sh ROUND_US LATE_US STAGGER_US CELL THREADS TURN [double EVENT | off EVENT]: each of a paced cell's threads
# runs it before its first I/O; TURN counts them from 0. It ends when the kernel's clock is at a multiple of
# ROUND_US, and LATE_US more, and STAGGER_US for each thread before this one: base and candidate begin their
# I/Os at the same distance from the kernel's ticks, and from each other. fio's main thread cannot see to
# that: it looks for ended jobs every 100 ms, beginning when fio itself began. DISKS are the disks' folders
# in sysfs.
set -u
. "$(dirname "$0")/lib.sh"
round_us=$1 late_us=$2 stagger_us=$3 cell=$4 threads=$5 turn=$6
shift 6
clock=$TRACEFS/instances/iotoll_clock
# The first wait is as wrong as all threads' shells take together, when they look for the file at once: some
# 3 ms each on a virtual board.
TURN_US=30000

# now: $micro is the time of the kernel's clock, by which it ticks, in microseconds. An unused trace buffer
# tells it finer than /proc/uptime. The shell's own `read` asks for one byte at a time, and the kernel
# writes the whole text anew for each.
now() {
    time=$(sed -n 's/^now ts: *//p' "$clock/per_cpu/cpu0/stats")
    micro=$((${time%.*} * 1000000 + 1${time#*.} - 1000000))
}

# broken MESSAGE: the cell cannot be measured; fio keeps a prerun command's output to itself.
broken() {
    fail workload "cell $cell: $*" >/dev/console
}

# wait_until MICRO: $left is how long that is from now, as sleep wants it.
wait_until() {
    now
    left=$(($1 - micro))
    if [ "$left" -lt 0 ]; then
        # On a board that is not exact the host's load decides; on an exact one, too short a pace.
        say "note: cell $cell: a thread begins $((-left)) us late" >/dev/console
        left=0
    fi
    digits=$((1000000 + left % 1000000))
    left=$((left / 1000000)).${digits#1}
}

if [ "$turn" -eq 0 ]; then
    count_hpb "$cell"
    clean_slate "$@"
    # What each CPU has counted but not yet added up, and adds up when it is much.
    echo 1 >/proc/sys/vm/stat_refresh
    count_cpus
    for disk in $DISKS; do first_tags "$disk"; done
    [ -d "$clock" ] || { mkdir "$clock" && echo mono >"$clock/trace_clock"; } ||
        broken "no second trace buffer with the clock mono"
    echo "iotoll: cell $cell" >/dev/console
    now
    # So much later at least, for what the threads still do; and between two ticks.
    micro=$((micro + 200000 + threads * TURN_US))
    echo $(((micro / round_us + 1) * round_us + 1000 + late_us)) >"/tmp/iotoll-$cell.part"
    mv "/tmp/iotoll-$cell.part" "/tmp/iotoll-$cell.begin"
fi
until read -r begin <"/tmp/iotoll-$cell.begin"; do sleep 0.1; done 2>/dev/null
# One after the other, and not while another one begins: what another thread's shell does between `now` and
# `sleep` makes this one late.
wait_until $((begin - 10000 - (threads - turn) * TURN_US))
sleep "$left"
[ "$turn" -lt $((threads - 1)) ] || echo "iotoll cell $cell" >"$TRACEFS/trace_marker"
wait_until $((begin + turn * stagger_us))
exec sleep "$left"
