#!/bin/sh
# prepare.sh: file system and data file on every device of the job, always with the same layout.
# SCRATCH is 1 where the disks were made for this job: any other one must have the mark (lib.sh).
# Reads job.env: SCRATCH, TARGET_DEVICE, MAKE_DEVICE, DEVICES, FILE_MB_<device>, AGED_MB_<device>, THREADS, FS_UUID, MKFS_OPTIONS, MOUNT_OPTIONS, SCHEDULER, HUGE_PAGES, QUIET.
set -u
here=$(dirname "$0")
. "$here/lib.sh"
. "$1/job.env"

write_file() { # FILE KIB
    # Through the page cache: written past it, NVMe's file was in two pieces, and an I/O of two bios is ambiguous.
    dd if=/dev/zero of="$1" bs=128k count=$(($2 / 128)) conv=fsync 2>/tmp/iotoll-said || {
        why=$(sed -n 's/^dd: //p' /tmp/iotoll-said)
        fail prepare "writing $1 failed: ${why:-dd says nothing}"
    }
    # A sign of life: a busy host takes minutes for QEMU's SD card, in which nothing else is said.
    say "wrote $1"
}

if [ "$HUGE_PAGES" -gt 0 ]; then # not every processor has them
    echo "$HUGE_PAGES" >/proc/sys/vm/nr_hugepages || fail prepare "no huge pages: CONFIG_HUGETLBFS"
    got=$(cat /proc/sys/vm/nr_hugepages)
    [ "$got" -ge "$HUGE_PAGES" ] || fail prepare "only $got of $HUGE_PAGES huge pages: too little memory"
fi

# What the kernel does now and then on its own would meet the I/Os of one kernel and not the other's.
[ -z "${QUIET:-}" ] || {
    echo 0 >/proc/sys/vm/dirty_writeback_centisecs
    echo 86400 >/proc/sys/vm/stat_interval
    # A CPU keeps few free pages for itself: they come back in the order in which others gave them up.
    echo 4096 >/proc/sys/vm/percpu_pagelist_high_fraction
} 2>/dev/null

for device in $DEVICES; do
    # A disk that the kernel makes of what it has itself: SCRIPT and its words.
    eval "make=\${MAKE_$device:-}"
    # shellcheck disable=SC2086 # words
    [ -z "$make" ] || sh "$here/"$make || exit 1
    dev=$(target "$device") || { echo "$dev"; exit 1; }
    mark=
    [ "${SCRATCH:-}" = 1 ] || {
        marked "$dev" || fail prepare "$device: $dev is not marked as one that may be overwritten:" \
            "mkfs.ext4 -L $MARK $dev, once and on the board, if all on it may go"
        mark="-L $MARK"
    }
    node=/sys/class/block/${dev##*/}
    ! find_real "$node" || node=$real
    eval "kib=\$((FILE_MB_$device * 1024)) aged=\${AGED_MB_$device:-0}"
    # Its files have twice that, and ext4 needs room as well.
    read -r sectors <"$node/size"
    [ $((sectors / 2)) -gt $((kib * 2 + aged * 2048)) ] || fail prepare "$device: $dev is too small for the matrix's files:" \
        "it has $((sectors / 2048)) MiB, they take $((kib / 512 + aged * 2)) MiB (file_mb, aged_mb)"
    disk=$node
    [ ! -e "$node/partition" ] || disk=${node%/*}
    queue=$disk/queue
    echo "$SCHEDULER" >"$queue/scheduler" || fail prepare "$device: no scheduler $SCHEDULER"
    # While a virtual board idles its clock jumps from timer to timer, far ahead of the device: a
    # command that took a millisecond would seem lost after 30 s and be aborted.
    [ -z "${IO_TIMEOUT_MS:-}" ] || echo "$IO_TIMEOUT_MS" >"$queue/io_timeout"
    # For the same reason plain writes instead of WRITE SAME and UNMAP, whose 30 s are fixed.
    for mode in "$disk"/device/scsi_disk/*/zeroing_mode; do
        [ -z "${IO_TIMEOUT_MS:-}" ] || [ ! -f "$mode" ] || echo write >"$mode"
    done
    # shellcheck disable=SC2086 # options are words
    mkfs.ext4 -q -F -U "$FS_UUID" $MKFS_OPTIONS $mark "$dev" || fail prepare "$device: mkfs.ext4 failed"
    mkdir -p "/mnt/$device"
    # From Linux 5.13 on ext4 reads all block bitmaps by a thread that begins at random, up to 5 s later: in one kernel
    # before the first cell, in another one within it. Older kernels do not, and do not know the option.
    mount -t ext4 -o "$MOUNT_OPTIONS,no_prefetch_block_bitmaps" "$dev" "/mnt/$device" ||
        mount -t ext4 -o "$MOUNT_OPTIONS" "$dev" "/mnt/$device" || fail prepare "$device: mount failed"
    # One file for a single thread, and one for each of several, so that they share no lock.
    write_file "/mnt/$device/data" "$kib"
    thread=0
    while [ "$thread" -lt "$THREADS" ]; do
        write_file "/mnt/$device/data.$thread" $((kib / THREADS))
        thread=$((thread + 1))
    done
    # Last: where the others lie does not depend on it.
    [ "$aged" = 0 ] || {
        iotoll-start age "/mnt/$device/data.aged" $((aged * 32)) ||
            fail prepare "$device: iotoll-start age: status $?: cells with the word aged need it, and ext4 with extents"
        say "aged /mnt/$device/data.aged"
    }
    # The disk's number: block events name the disk also where the bio is a partition's (bio_dev()).
    echo "$device $dev $(cat "$disk/dev")" >>"$2"
done
