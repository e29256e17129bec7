#!/bin/sh
# mark.sh CELL [double EVENT | off EVENT]: fio runs it before every cell that has no pace. It brings caches
# and free memory into a known state, and writes the cell's name into the trace.
set -u
. "$(dirname "$0")/lib.sh"
cell=$1
shift

count_hpb "$cell"
clean_slate "$@"
# Only the image of virtual boards has it.
! command -v iotoll-start >/dev/null || { count_cpus; settle_memory 0; }
echo "iotoll cell $cell" >"$TRACEFS/trace_marker"
echo "iotoll: cell $cell" >/dev/console
