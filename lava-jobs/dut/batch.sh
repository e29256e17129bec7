#!/bin/sh
# batch.sh JOB BATCH OUT: runs JOB/BATCH.fio under trace-cmd; leaves trace.dat and fio.json in OUT.
# Only the events that the latency sections need are recorded (JOB/BATCH.events): each one costs as
# much as a hundred lines of driver code.
set -u
here=$(dirname "$0")
. "$here/lib.sh"
job=$1 batch=$2 out=$3
. "$job/job.env"

mkdir -p "$out"
set_probes "$job/$batch.kprobes"
set --
for event in $(present_events "$job/$batch.events"); do
    set -- "$@" -e "$event"
done
[ $# -gt 0 ] || fail workload "$batch: none of its trace events exists: CONFIG_FTRACE"
set_disks "$job" "$batch" "$(dirname "$out")/boot/devices"
head -c 4096 /dev/zero >/tmp/iotoll-mark
find_disks "$batch"
spread_pages "$job/$batch.fio" || exit 1
# An event that begins a page of the trace buffer costs 321 instructions more: larger pages have fewer of
# them (Linux 6.8 on). They are for boards that count instructions: not every reader of traces knows them.
[ -z "${PAGE_KB:-}" ] || echo "$PAGE_KB" >"$TRACEFS/buffer_subbuf_size_kb" 2>/dev/null
# trace-cmd reads the kernel's symbols twice for each trace, and unpacking their names takes about as long as a cell.
[ -z "${PAGE_KB:-}" ] || [ -s /tmp/iotoll-symbols ] || {
    cat /proc/kallsyms >/tmp/iotoll-symbols && mount -o bind /tmp/iotoll-symbols /proc/kallsyms
} || fail workload "$batch: the kernel's symbols cannot be kept"
# The recorder must sleep until the end: woken while fio runs, it would be part of the measure.
echo 100 >"$TRACEFS/buffer_percent" 2>/dev/null
# fio saves its prerun commands' output in the working directory.
cd "$out" || fail workload "cannot enter $out"
trace-cmd record -q --compression none -C "$TRACE_CLOCK" -b "$BUFFER_KB" "$@" -o trace.dat \
    fio --output-format=json+ --output=fio.json --eta=never "$job/$batch.fio" >record.log 2>&1
status=$?
count_hpb end
reset_disks
rm -f ./*.prerun.txt
# trace-cmd does not pass on the exit status of the command that it ran: ask fio's own result too.
# (Lines of fixed text first: fio.json has thousands of others.)
if [ $status -ne 0 ] || [ ! -s fio.json ] || grep -F '"error" : ' fio.json | grep -q ' : [1-9-]'; then
    tail -n 5 record.log
    grep -h '^fio:' fio.json | head -n 3
    fail workload "$batch: fio or trace-cmd failed (trace-cmd status $status)"
fi
grep -q "missed events" record.log && say "note: $batch: trace-cmd saw missed events"
exit 0
