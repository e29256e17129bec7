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

# block_device DRIVERS: prints the first whole disk of these drivers.
block_device() {
    for disk in /sys/block/*; do
        if driven_by "$disk/device" "$1"; then
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
    found=$(block_device "$(drivers_of "$1")") || fail prepare "no $1 disk: its driver found none"
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

# drivers_of DEVICE: kernel driver names under which a device of the matrix may appear.
drivers_of() {
    case $1 in
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
