#!/bin/sh
# prepare.sh: file system and data file on every device of the job, always with the same layout.
# Reads job.env: DEVICES, FILE_MB, FS_UUID, MKFS_OPTIONS, MOUNT_OPTIONS, SCHEDULER, HUGE_PAGES.
set -u
here=$(dirname "$0")
. "$here/lib.sh"
. "$1/job.env"

echo "$HUGE_PAGES" >/proc/sys/vm/nr_hugepages || fail prepare "no huge pages: CONFIG_HUGETLBFS"
got=$(cat /proc/sys/vm/nr_hugepages)
[ "$got" -ge "$HUGE_PAGES" ] || fail prepare "only $got of $HUGE_PAGES huge pages: too little memory"

for device in $DEVICES; do
    dev=$(block_device "$(drivers_of "$device")") || fail prepare "no $device disk: its driver found none"
    queue=/sys/block/${dev##*/}/queue
    echo "$SCHEDULER" >"$queue/scheduler" || fail prepare "$device: no scheduler $SCHEDULER"
    # While a virtual board idles its clock jumps from timer to timer, far ahead of the device: a
    # command that took a millisecond would seem lost after 30 s and be aborted.
    [ -z "${IO_TIMEOUT_MS:-}" ] || echo "$IO_TIMEOUT_MS" >"$queue/io_timeout"
    # shellcheck disable=SC2086 # options are words
    mkfs.ext4 -q -F -U "$FS_UUID" $MKFS_OPTIONS "$dev" || fail prepare "$device: mkfs.ext4 failed"
    mkdir -p "/mnt/$device"
    mount -t ext4 -o "$MOUNT_OPTIONS" "$dev" "/mnt/$device" || fail prepare "$device: mount failed"
    dd if=/dev/zero of="/mnt/$device/data" bs=1M count="$FILE_MB" conv=fsync 2>/dev/null ||
        fail prepare "$device: writing the data file failed"
    echo "$device $dev $(cat "/sys/block/${dev##*/}/dev")" >>"$2"
done
