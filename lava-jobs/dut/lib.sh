# shellcheck shell=sh
# Functions that the DUT's scripts share. POSIX sh, so that dash, busybox and toybox all run it.

TRACEFS=/sys/kernel/tracing

# The host reads these lines on the console: keep their form (src/iotoll/console.py).
say() { echo "iotoll: $*"; }

# fail STEP MESSAGE: the workload cannot go on. The host turns this into an outcome.
fail() {
    step=$1
    shift
    say "FAIL $step: $*"
    exit 1
}

# driven_by NODE DRIVERS: tells whether a sysfs device, or one above it, uses one of the drivers.
# Upwards because a SCSI disk lies several levels below its UFS host.
driven_by() {
    node=$(readlink -f "$1" 2>/dev/null) || return 1
    while [ -n "$node" ] && [ "$node" != /sys/devices ]; do
        if [ -e "$node/driver" ]; then
            driver=$(basename "$(readlink -f "$node/driver")")
            case " $2 " in *" $driver "*) return 0 ;; esac
        fi
        node=${node%/*}
    done
    return 1
}

# block_device DRIVERS NUMBER: prints the first or second whole disk of these drivers.
block_device() {
    left=$2
    for disk in /sys/block/*; do
        if driven_by "$disk/device" "$1"; then
            left=$((left - 1))
            [ "$left" -eq 0 ] || continue
            echo "/dev/${disk##*/}"
            return 0
        fi
    done
    return 1
}

# partition DRIVERS LABEL: prints the first partition with this label on a disk of these drivers.
partition() {
    for part in /sys/class/block/*/partition; do
        part=${part%/partition}
        if [ -f "$part/uevent" ] && grep -qx "PARTNAME=$2" "$part/uevent" && driven_by "$part" "$1"; then
            echo "/dev/${part##*/}"
            return 0
        fi
    done
    return 1
}

# target DEVICE: prints what may be overwritten to measure a device of the matrix: what TARGET_DEVICE
# of job.env names (PARTLABEL=LABEL, or a path), else the first whole disk, if it has no partitions:
# a real board's boot loader lies in one.
target() {
    eval "named=\${TARGET_$1:-}"
    case $named in
    "") ;;
    PARTLABEL=*) partition "$(drivers_of "$1")" "${named#PARTLABEL=}" && return 0
        fail prepare "no partition ${named#PARTLABEL=} on the $1 disk" ;;
    *) [ ! -b "$named" ] || { echo "$named"; return 0; }
        fail prepare "no block device $named for $1" ;;
    esac
    case $1 in *2) nth=2 ;; *) nth=1 ;; esac
    found=$(block_device "$(drivers_of "$1")" $nth) || fail prepare "no $1 disk: its driver found none"
    set -- "$1" "$found" "/sys/block/${found##*/}"/*/partition
    [ ! -e "$3" ] || fail prepare "$2 has partitions: name one that may be overwritten, TARGET_$1 in job.env"
    echo "$2"
}

# What marks a block device as one that a measurement may overwrite: its file system's label, at byte
# 1144 of an ext4 file system, or the beginning of its partition's name in the GPT.
MARK=iotoll-scratch

# marked DEV: tells whether a block device has the mark. What it cannot read has none.
marked() {
    node=/sys/class/block/${1##*/}
    if [ -f "$node/uevent" ] && grep -q "^PARTNAME=$MARK" "$node/uevent"; then return 0; fi
    [ "$(dd if="$1" bs=1 skip=1144 count=16 2>/dev/null | tr -d '\0')" = "$MARK" ]
}

# drivers_of DEVICE: kernel driver names under which a device of the matrix may appear. DEVICE2 is
# its second disk.
drivers_of() {
    case ${1%2} in
    ufs) echo "ufshcd ufshcd-hisi ufshcd-rockchip tc-dwc-g210-pci" ;;
    nvme) echo "nvme" ;;
    emmc) echo "mmcblk" ;;
    *) return 1 ;;
    esac
}

# find_dut JOB: prints the path of iotoll-dut, which a job may bring.
find_dut() {
    if [ -x "$1/iotoll-dut" ]; then echo "$1/iotoll-dut"; else command -v iotoll-dut; fi ||
        fail workload "no iotoll-dut in $1 or PATH"
}

# count_hpb NAME: appends a line "NAME DISK COUNT VALUE..." to the file hpb here for each disk that has HPB:
# what ufshpb has counted since the boot.
count_hpb() {
    for stats in /sys/block/*/device/hpb_stats; do
        counted=
        for file in "$stats"/*_cnt; do
            value=$(cat "$file" 2>/dev/null) || continue 2
            counted="$counted ${file##*/} $value"
        done
        disk=${stats%/device/*}
        echo "$1 ${disk##*/}$counted" >>hpb
    done
}

# set_probes FILE: makes the kernel probes that FILE lists.
set_probes() {
    [ -s "$1" ] || return 0
    : >"$TRACEFS/kprobe_events" 2>/dev/null
    while read -r probe; do
        # A function may be absent on this kernel (nvme_queue_rqs came with 5.16): the analyser
        # then uses the last event before the doorbell, and says so.
        echo "$probe" >>"$TRACEFS/kprobe_events" 2>/dev/null || say "note: no kprobe $probe"
    done <"$1"
}

# present_events FILE: prints those events of FILE's list that this kernel has.
present_events() {
    while read -r event; do
        if [ -d "$TRACEFS/events/$(echo "$event" | tr : /)" ]; then
            echo "$event"
        else
            say "note: no event $event" >&2
        fi
    done <"$1"
}

# disk_of DEVICE DEVICES: prints the sysfs folder of a device's whole disk, which prepare.sh noted.
disk_of() {
    named=$(sed -n "s,^$1 /dev/\([^ ]*\) .*,\1,p" "$2")
    node=$(readlink -f "/sys/class/block/$named")
    [ -n "$named" ] && [ -d "$node" ] || fail workload "no $1 disk in $2"
    [ ! -e "$node/partition" ] || node=${node%/*}
    echo "$node"
}

# set_disk DEVICE DEVICES: makes a disk what the batch needs: SCHEDULER, TAGS (nr_requests), QUEUES (must
# be so many), RAW (no file system on the second disk, which fio finds as /dev/iotoll-DEVICE2).
set_disk() {
    disk=$(disk_of "$1" "$2") || { echo "$disk"; exit 1; }
    count=0
    for queue in "$disk"/mq/*; do count=$((count + 1)); done
    [ "$count" -eq "${QUEUES:-$count}" ] || fail workload "$1 has $count queues, not $QUEUES: another board"
    echo "$SCHEDULER" >"$disk/queue/scheduler" || fail workload "$1: no scheduler $SCHEDULER"
    if [ -n "${TAGS:-}" ]; then
        echo "$TAGS" >"$disk/queue/nr_requests" || fail workload "$1: nr_requests cannot be $TAGS"
        now=$(cat "$disk/queue/nr_requests")
        [ "$now" -eq "$TAGS" ] || fail workload "$1: nr_requests is $now, not $TAGS"
    fi
    if [ -n "${RAW:-}" ]; then
        ! grep -q " /mnt/$1 " /proc/mounts || umount "/mnt/$1" || fail workload "cannot unmount /mnt/$1"
        ln -sf "${disk##*/}" "/dev/iotoll-$1"
        [ "$(cat "$disk/queue/discard_max_bytes")" -gt 0 ] || fail workload "$1 cannot discard"
    fi
}

# set_disks JOB BATCH DEVICES: the batch's disks become what JOB/BATCH.disk says, until reset_disks.
set_disks() {
    names='' devices=$3
    [ -f "$1/$2.disk" ] || return 0
    usual=$SCHEDULER name=${2%%-*}
    . "$1/$2.disk"
    names=$name
    [ -z "${SECOND:-}" ] || names="$name ${name}2"
    [ -z "${RAW:-}" ] || names=${name}2
    for one in $names; do
        eval "tags_$one=$(cat "$(disk_of "$one" "$devices")/queue/nr_requests")"
        set_disk "$one" "$devices"
    done
}

# reset_disks: what set_disks changed is as it was, but for a raw disk, which stays unmounted.
reset_disks() {
    SCHEDULER=${usual:-$SCHEDULER}
    for one in $names; do
        eval "TAGS=\$tags_$one"
        set_disk "$one" "$devices"
    done
}
