#!/bin/sh
# place.sh CPU: what may run on several CPUs has that one from now on: kernel threads, workers of unbound work
# queues, trace-cmd, and fio's threads that do no I/O. Left to the scheduler, the journal's thread had one CPU in
# one boot and another in the next, or changed in the middle of a cell: an O_SYNC write then completes on another
# CPU and takes another way. And the timer of fio's helper was among those of another CPU, where each I/O looked
# at one more. For boards with several CPUs whose boots are to be alike; cells have CPUs of their own.
set -u
mask=$(printf %x $((1 << $1)))
for folder in /sys/devices/virtual/workqueue/ /sys/devices/virtual/workqueue/*/; do
    [ ! -w "${folder}cpumask" ] || echo "$mask" >"${folder}cpumask"
done
grep -l '^Cpus_allowed_list:.*[-,]' /proc/[0-9]*/task/[0-9]*/status 2>/dev/null | while read -r status; do
    thread=${status%/status}
    # Some have ended since, and a kernel's worker refuses.
    taskset -p "$mask" "${thread##*/}" >/dev/null 2>&1
done
exit 0
