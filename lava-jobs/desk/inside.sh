#!/bin/sh
# inside.sh ROOT KEY: the workload, with ROOT as its root (start.sh). What the kernel says meanwhile follows it.
set -u
root=$1 key=$2 box=$1/usr/bin/busybox
echo $$ >"$root/pid"
for folder in proc sys dev; do
    "$box" mount -o rbind "/$folder" "$root/$folder" || { echo "iotoll: FAIL prepare: cannot mount /$folder"; exit 1; }
done
[ -d "$root/sys/kernel/tracing/events" ] || "$box" mount -t tracefs trace "$root/sys/kernel/tracing"
echo "iotoll begins $key" >/dev/kmsg
IOTOLL_KEY=$key PATH=/usr/bin:/usr/sbin HOME=/root "$box" chroot "$root" /usr/bin/dash /iotoll/dut/run.sh /iotoll/job
status=$?
"$box" sync
"$box" dmesg | "$box" sed -n "/iotoll begins $key/,\$p"
echo $status >"$root/status"
