#!/bin/sh
# facts.sh JOB: what decides whether this boot may be compared with another, one `NAME VALUE` a line:
# run before and after the workload (src/iotoll/validity.py). What the board does not have is left out.
set -u
. "$(dirname "$0")/lib.sh"
. "$1/job.env"

# fact NAME VALUE...: a line, if there is a value.
fact() {
    name=$1
    shift
    [ -z "$*" ] || echo "$name $*"
}
# any FILE...: whether one of the files can be read. A process less for each fact that a board does not have:
# on a virtual board, which has few, facts took 4 % of a boot.
any() {
    for file in "$@"; do
        [ ! -r "$file" ] || return 0
    done
    return 1
}
# each FILE...: the distinct contents of the files that exist, joined by commas. Of a single file its line, without a process.
each() {
    any "$@" || return
    if [ $# -eq 1 ]; then
        IFS= read -r line <"$1" 2>/dev/null || [ -n "$line" ] || return
        echo "$line"
        return
    fi
    for file in "$@"; do
        [ ! -r "$file" ] || cat "$file" 2>/dev/null
    done | sort -u | tr '\n' ',' | sed 's/,$//'
}
# most FILE...: the largest number in the files.
most() {
    any "$@" || return
    for file in "$@"; do
        [ ! -r "$file" ] || cat "$file" 2>/dev/null
    done | sort -n | tail -n 1
}

# Which kernel and which job this is (src/iotoll/boots/proof.py): the note NT_GNU_BUILD_ID has 20 bytes.
fact build_id "$(od -An -v -tx1 /sys/kernel/notes 2>/dev/null | tr -d ' \n' |
    sed -n 's/.*040000001400000003000000474e5500\([0-9a-f]\{40\}\).*/\1/p')"
fact key "${IOTOLL_KEY:-$(each /iotoll/key)}"
fact board "$BOARD"
# Which events mark begin and end of an I/O: an architecture without events of system calls has those of iomap, the
# page cache and io_uring.
[ -d "$TRACEFS/events/syscalls" ] || fact calls iomap
fact model "$(each /proc/device-tree/model /sys/class/dmi/id/product_name | tr -d '\0')"
fact serial "$(each /proc/device-tree/serial-number | tr -d '\0')"
fact governor "$(each /sys/devices/system/cpu/cpufreq/policy*/scaling_governor)"
fact cpu_limit_khz "$(each /sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq)"
fact cpu_khz "$(each /sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq)"
fact cooling "$(most /sys/class/thermal/cooling_device*/cur_state)"
fact temperature_mc "$(most /sys/class/thermal/thermal_zone*/temp)"
fact tainted "$(each /proc/sys/kernel/tainted)"
[ ! -r /proc/config.gz ] || fact config "$(busybox zcat /proc/config.gz 2>/dev/null | sha256sum | cut -d' ' -f1)"
for device in $DEVICES; do
    dev=$(target "$device" 2>/dev/null) || continue
    node=/sys/class/block/${dev##*/}
    ! find_real "$node" || node=$real
    [ ! -e "$node/partition" ] || node=${node%/*}
    for name in model rev firmware_rev fwrev ioerr_cnt iotmo_cnt; do
        fact "$device.$name" "$(each "$node/device/$name")"
    done
    # The UFS host's folder lies some levels above its disks.
    above=$node
    while [ "$above" != /sys/devices ] && [ -n "$above" ]; do
        above=${above%/*}
        [ -d "$above/health_descriptor" ] || continue
        for name in eol_info life_time_estimation_a life_time_estimation_b; do
            fact "$device.$name" "$(each "$above/health_descriptor/$name")"
        done
    done
    # Wear: an eMMC's own estimates, and what was written since the board began (512 bytes each).
    for name in life_time pre_eol_info; do
        fact "$device.$name" "$(each "$node/device/$name")"
    done
    read -r _ _ _ _ _ _ sectors _ <"$node/stat" 2>/dev/null || sectors=0
    fact "$device.written_kib" $((sectors / 2))
    fact "$device.fill_percent" "$(busybox df "/mnt/$device" 2>/dev/null | sed -n 's/.* \([0-9]*\)% .*/\1/p')"
done
exit 0
