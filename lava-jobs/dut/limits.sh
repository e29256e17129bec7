#!/bin/sh
# limits.sh: what the kernel lets a request be, and how many of them there may be: one `limit NAME VALUE` a line.
# All that a folder of sysfs says, but for names, identities, states and statistics: a list of attributes would lack
# those of the next kernel. One process reads a whole folder, since on a virtual board each costs as much as a cell's I/Os.
set -u
. "$(dirname "$0")/lib.sh"

# Attributes that are no limits: of SCSI disks and hosts, NVMe controllers and MMC cards.
OTHER='uevent|dev|modalias|state|.*_state|serial|model|vendor|rev|firmware_rev|fwrev|hwrev|cid|csd|scr|ssr|date|name|manfid|oemid'
OTHER="$OTHER|ocr|rca|wwid|inquiry|vpd_.*|.*_cnt|iocounterbits|evt_.*|device_blocked|device_busy|host_busy|host_no|unique_id"
OTHER="$OTHER|address|hostid|hostnqn|subsysnqn|cntlid|life_time|pre_eol_info|enhanced_.*|active_mode|proc_name|.*_stats|.*_err_log.*"

# What bdi says of read-ahead is the queue's attribute under another name (queue_ra_show()), and its bytes are its
# ratios of the memory that is free, which depends on the kernel's size.
TWICE='read_ahead_kb|min_bytes|max_bytes'

# list NAME FOLDER PATTERN...: `= NAME`, and the first line of each file below the folder that can be read.
list() (
    cd "$2" 2>/dev/null || return 0
    echo "= $1"
    shift 2
    # shellcheck disable=SC2048,SC2086 # patterns become files here
    exec grep -Hsm1 '' $* 2>/dev/null
)

# as_limits: what several lists say, as limits.
as_limits() {
    sed -nE "/^limit /{p;d;}; /^= /{s///;h;d;}; /^([^:]*\/)?($OTHER):/d; /^bdi\/($TWICE):/d; G; s,^([^:]*):(.*)\n(.*)$,limit \3.\1 \2,p"
}

# label_of DISK: $label is what a matrix calls the disk (its folder in /sys/block), else its own name.
label_of() {
    label=${1##*/}
    find_drivers "$1/device" || return
    for device in ufs nvme emmc ubd nullblk scsidebug; do
        drivers_of $device && is_among "$drivers" || continue
        eval "nth=\$((disks_$device += 1))"
        label=$device
        [ "$nth" -eq 1 ] || label=$device$nth
        return
    done
}

[ -d /sys/kernel/debug/block ] || mount -t debugfs none /sys/kernel/debug 2>/dev/null
# shellcheck disable=SC2034 # label_of counts in them
disks_ufs=0 disks_nvme=0 disks_emmc=0 disks_ubd=0 disks_nullblk=0 disks_scsidebug=0
{
    for disk in /sys/block/*; do
        # Not what is made of memory or of other disks.
        find_real "$disk" || continue
        case $real in
        /sys/devices/virtual/nvme-fabrics/*) ;; # NVMe over a target in this kernel
        /sys/devices/virtual/*) continue ;;
        esac
        label_of "$disk"
        list "$label" "$disk/" 'queue/*' 'queue/*/*' 'mq/*/*' 'bdi/*' 'device/*'
        find_real "$disk/device" || real=
        case $real in
        */target*)
            list "$label.disk" "$real"/scsi_disk/*/ '*'
            host=${real%/target*}
            list "$label.host" "$host/scsi_host/${host##*/}" '*'
            ;;
        */mmc_host/*)
            host=${real%/*}
            # A card that sleeps has no clock.
            dd if="/dev/${disk##*/}" of=/dev/null bs=4k count=1 2>/dev/null
            list "$label.host" "/sys/kernel/debug/${host##*/}" caps caps2
            sed -n "s/^\([a-z]*\) *\([a-z]*\):[[:space:]]*\(.*\)/limit $label.host.\1\2 \3/p" \
                "/sys/kernel/debug/${host##*/}/ios" 2>/dev/null
            ;;
        esac
    done
    list vm /proc/sys/vm 'dirty_*'
    for module in scsi_mod sd_mod ufshcd_core nvme nvme_core mmc_core mmc_block sdhci; do
        list "$module" "/sys/module/$module/parameters" '*'
    done
} | as_limits
exit 0
