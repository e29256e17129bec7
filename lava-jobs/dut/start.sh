#!/bin/sh
# start.sh ROUND_US REST_US LATE_US EXTRA_PAGES CELL [double EVENT | off EVENT]: on an exact board the first of a cell's threads runs
# it before its first I/O. It brings caches and free memory into a known state, decides when the cell begins, and
# ends then. That is when the kernel's clock is at a multiple of ROUND_US, and LATE_US more: base and candidate
# begin their I/Os at the same distance from the kernel's ticks. The cell's other threads wait for the same
# moment, and so much longer as the job says (iotoll-start at). fio's main thread cannot see to that: it looks
# for ended jobs every 100 ms, beginning when fio itself began. DISKS are the disks' folders in sysfs. EXTRA_PAGES
# decide at which of a CPU's next pages it has to fetch others (settle_memory). Before all that, the cell before
# has REST_US in which what it has put off can run (end_cell).
set -u
. "${0%/*}/lib.sh"
end_cell "$2" "$1"
round_us=$1 late_us=$3 extra_pages=$4 cell=$5
shift 5

count_hpb "$cell"
clean_slate "$@"
# Compaction may have brought scattered pages together.
[ ! -e "/tmp/iotoll-pages.$cell" ] || iotoll-start scatter "/tmp/iotoll-pages.$cell" ||
    fail workload "cell $cell: iotoll-start scatter: status $?" >/dev/console
# What each CPU has counted but not yet added up, and adds up when it is much.
echo 1 >/proc/sys/vm/stat_refresh
count_cpus
for disk in $DISKS; do first_tags "$disk"; done
echo "iotoll: cell $cell" >/dev/console
settle_memory "$extra_pages"
# The other threads wait for what the file tells. The cell's marker comes between two ticks.
begin=/tmp/iotoll-$cell.begin
echo "$begin" >"$OPEN_CELL"
iotoll-start plan "$begin" 200000 "$round_us" $((1000 + late_us)) 10000 || {
    # fio keeps a prerun command's output to itself.
    fail workload "cell $cell: iotoll-start cannot write $begin" >/dev/console
}
echo "iotoll cell $cell" >"$TRACEFS/trace_marker"
exec iotoll-start at "$begin" 0 "$cell"
