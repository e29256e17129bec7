#!/bin/sh
# live.sh JOB BATCH OUT: as batch.sh, but the board measures itself while fio runs (iotoll-dut live)
# and prints the records on its console, for the host's `iotoll receive`. No trace is kept.
# Besides job.env's words: UNIT of the trace clock (ns), LOOK_MS between two looks at the buffers.
set -u
here=$(dirname "$0")
. "$here/lib.sh"
job=$1 batch=$2 out=$3
. "$job/job.env"

dut=$(find_dut "$job") || { echo "$dut"; exit 1; }
mkdir -p "$out"
set_probes "$job/$batch.kprobes"
echo 0 >"$TRACEFS/tracing_on"
echo "$TRACE_CLOCK" >"$TRACEFS/trace_clock"
echo "$BUFFER_KB" >"$TRACEFS/buffer_size_kb"
: >"$TRACEFS/set_event"
for event in $(present_events "$job/$batch.events"); do
    echo "$event" >>"$TRACEFS/set_event"
done
[ -n "$(cat "$TRACEFS/set_event")" ] ||
    fail workload "$batch: none of its trace events exists: CONFIG_FTRACE"
set_disks "$job" "$batch" "$(dirname "$out")/boot/devices"
head -c 4096 /dev/zero >/tmp/iotoll-mark
find_disks "$batch"
spread_pages "$job/$batch.fio" || exit 1
device=${batch#calibration-}
device=${device%%-*}
number=$(sed -n "s/^$device [^ ]* //p" "$(dirname "$out")/boot/devices")
# fio saves its prerun commands' output in the working directory.
cd "$out" || fail workload "cannot enter $out"
echo 1 >"$TRACEFS/tracing_on"
"$dut" live --cells --comm fio --device "$number" --unit "${UNIT:-ns}" \
    --interval "${LOOK_MS:-100}" >records 2>live.log &
fio --output-format=json+ --output=fio.json --eta=never "$job/$batch.fio" >record.log 2>&1
status=$?
reset_disks
echo 0 >"$TRACEFS/tracing_on"
wait $! || { cat live.log; fail workload "$batch: iotoll-dut live failed"; }
rm -f ./*.prerun.txt
if [ $status -ne 0 ] || grep -q '"error" : [1-9-]' fio.json || [ ! -s fio.json ]; then
    tail -n 5 record.log
    fail workload "$batch: fio failed (status $status)"
fi
"$dut" send --in records || fail handover "$batch: iotoll-dut send failed"
