#!/bin/sh
# send.sh JOB DIR: in the boots of `iotoll explain --profile` this hands DIR over, as SENDER of job.env does
# (handover or serial); over the serial line also what was profiled.
set -u
dut=${0%/*}/../dut
. "$dut/lib.sh"
. "$1/job.env"

[ -e "$TRACEFS/function_profile_enabled" ] ||
    fail workload "the kernel has no function profiler: CONFIG_FUNCTION_PROFILER"
sh "$dut/$SENDER.sh" "$@" || exit 1
[ "$SENDER" = serial ] && [ -s "$2/functions" ] || exit 0
program=$(find_dut "$1") || { echo "$program"; exit 1; }
"$program" send --repeat "${SEND_REPEAT:-1}" --in "$2/functions" ||
    fail handover "${2##*/}: iotoll-dut send failed"
