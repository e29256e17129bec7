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
sync
echo 3 >/proc/sys/vm/drop_caches
echo 1 >/proc/sys/vm/compact_memory
echo "iotoll cell $1" >"$TRACEFS/trace_marker"
echo "iotoll: cell $1" >/dev/console
