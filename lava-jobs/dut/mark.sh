#!/bin/sh
# mark.sh CELL [double EVENT | off EVENT]: fio runs it before every cell. It brings caches and free
# memory into a known state, and writes the cell's name into the trace.
# double: record EVENT in a second ring buffer too, which costs what the event itself costs.
# off: do not record EVENT at all (a kprobe's trap is not doubled by a second buffer).
set -u
. "$(dirname "$0")/lib.sh"
twin=$TRACEFS/instances/iotoll_twin

if [ -d "$twin" ]; then
    echo 0 >"$twin/events/enable"
    rmdir "$twin"
fi
if [ -s /tmp/iotoll-off ]; then
    echo 1 >"$TRACEFS/events/$(cat /tmp/iotoll-off)/enable"
    rm /tmp/iotoll-off
fi
case ${2:-} in
double)
    mkdir "$twin"
    echo 1 >"$twin/events/$3/enable"
    ;;
off)
    echo 0 >"$TRACEFS/events/$3/enable"
    echo "$3" >/tmp/iotoll-off
    ;;
esac
# until_round: sleeps until the trace clock is at a multiple of ROUND_US, and LATE_US more. Base and
# candidate then begin a cell at the same distance from the kernel's ticks.
until_round() {
    while read -r word1 word2 now; do
        [ "$word1 $word2" != "now ts:" ] || break
    done <"$TRACEFS/per_cpu/cpu0/stats"
    micro=${now#*.}
    past=$((${now%.*} % 1000 * 1000000 + 1$micro - 1000000))
    left=$((ROUND_US - past % ROUND_US + LATE_US))
    sleep "$((left / 1000000)).$(printf %06d $((left % 1000000)))"
}

count_hpb "$1"
sync
echo 3 >/proc/sys/vm/drop_caches
echo 1 >/proc/sys/vm/compact_memory
[ -z "${ROUND_US:-}" ] || until_round
echo "iotoll cell $1" >"$TRACEFS/trace_marker"
echo "iotoll: cell $1" >/dev/console
