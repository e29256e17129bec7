#!/bin/sh
# place.sh CPU: what no CPU is named for runs on that one from now on: kernel threads, workers of unbound
# work queues, and fio's main thread. Left to the scheduler, the journal's thread had one CPU in one boot and
# another in the next, or changed in the middle of a cell: an O_SYNC write then completes on another CPU and
# takes another way. Job of boards with several CPUs whose boots are to be alike.
set -u
mask=$(printf %x $((1 << $1)))
for folder in /sys/devices/virtual/workqueue/ /sys/devices/virtual/workqueue/*/; do
    [ ! -w "${folder}cpumask" ] || echo "$mask" >"${folder}cpumask"
done
for thread in /proc/[0-9]*; do
    # Only kernel threads have no command line. Those that belong to a CPU refuse.
    if [ -z "$(cat "$thread/cmdline" 2>/dev/null)" ]; then
        taskset -p "$mask" "${thread#/proc/}"
    fi
done >/dev/null 2>&1
read -r _ _ _ fio _ <"/proc/$PPID/stat"
exec taskset -p "$mask" "$fio" >/dev/null
