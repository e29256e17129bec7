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

# block_device DRIVER: prints the first whole disk whose PCI or platform parent uses DRIVER.
# Sysfs links are followed upwards because a SCSI disk lies several levels below its UFS host.
block_device() {
    for disk in /sys/block/*; do
        node=$(readlink -f "$disk/device" 2>/dev/null) || continue
        while [ -n "$node" ] && [ "$node" != /sys/devices ]; do
            if [ -e "$node/driver" ]; then
                driver=$(basename "$(readlink -f "$node/driver")")
                case " $1 " in *" $driver "*) echo "/dev/${disk##*/}"; return 0 ;; esac
            fi
            node=${node%/*}
        done
    done
    return 1
}

# drivers_of DEVICE: kernel driver names under which a device of the matrix may appear.
drivers_of() {
    case $1 in
    ufs) echo "ufshcd ufshcd-hisi tc-dwc-g210-pci" ;;
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
