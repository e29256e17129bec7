#!/bin/sh
# mark.sh [CELL ...]: in the boots of `iotoll explain --profile` fio runs it before every cell, in place of dut/mark.sh,
# and without CELL after the last one. What function_graph's profiler has counted since the last CELL goes to the
# file functions in the working directory: a line of JSON for each cell, and in it for each function and CPU name
# (30 letters at most), calls, and microseconds without what it calls and without sleep.
set -u
dut=${0%/*}/../dut
. "$dut/lib.sh"
open=/tmp/iotoll-profiled

echo 0 >"$TRACEFS/function_profile_enabled" || fail workload "no function profiler: CONFIG_FUNCTION_PROFILER"
if [ -s "$open" ]; then
    [ -f functions ] || : >functions
    {
        printf '{"cell":"functions.%s","of":"%s","functions":[' "$(grep -c . functions)" "$(cat "$open")"
        cat "$TRACEFS"/trace_stat/function[0-9]* |
            sed -n 's/^ *\([^ ][^ ]*\)  *\([0-9][0-9]*\)  *\([0-9.]*\) us .*/["\1",\2,\3],/p' |
            tr -d '\n' | sed 's/,$//'
        printf ']}'
    } | tr -d '\n' >>functions
    echo >>functions
    rm "$open"
fi
[ $# -gt 0 ] || exit 0
sh "$dut/mark.sh" "$@"
echo 0 >"$TRACEFS/options/graph-time"
echo 0 >"$TRACEFS/options/sleep-time"
echo "$1" >"$open"
# This also sets all counts to zero.
echo 1 >"$TRACEFS/function_profile_enabled"
