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

# find_real FOLDER: $real is where it is, without links. `cd -P` needs no process.
find_real() {
    from=$PWD
    cd -P "$1" 2>/dev/null || return 1
    real=$PWD
    cd "$from" || return 1
}

# find_drivers NODE: $above are the drivers that a sysfs device and those above it use. Upwards because a SCSI disk
# lies several levels below its UFS host.
find_drivers() {
    above=
    find_real "$1" || return 1
    node=$real
    while [ -n "$node" ] && [ "$node" != /sys/devices ]; do
        ! find_real "$node/driver" || above="$above ${real##*/}"
        node=${node%/*}
    done
}

# is_among DRIVERS: tells whether find_drivers found one of the drivers.
is_among() {
    for driver in $above; do
        case " $1 " in *" $driver "*) return 0 ;; esac
    done
    return 1
}

# driven_by NODE DRIVERS: tells whether a sysfs device, or one above it, uses one of the drivers.
driven_by() {
    find_drivers "$1" && is_among "$2"
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
    PARTLABEL=*) drivers_of "$1"; partition "$drivers" "${named#PARTLABEL=}" && return 0
        fail prepare "no partition ${named#PARTLABEL=} on the $1 disk" ;;
    *) [ ! -b "$named" ] || { echo "$named"; return 0; }
        fail prepare "no block device $named for $1" ;;
    esac
    case $1 in *2) nth=2 ;; *) nth=1 ;; esac
    drivers_of "$1"
    found=$(block_device "$drivers" $nth) || fail prepare "no $1 disk: its driver found none"
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

# drivers_of DEVICE: $drivers are the names of kernel drivers under which a device of the matrix may appear. DEVICE2 is
# its second disk.
drivers_of() {
    case ${1%2} in
    ufs) drivers="ufshcd ufshcd-hisi ufshcd-qcom ufshcd-rockchip tc-dwc-g210-pci" ;;
    nvme) drivers=nvme ;;
    emmc) drivers=mmcblk ;;
    ubd) drivers=uml-blkdev ;;
    *) drivers='' && return 1 ;;
    esac
}

# find_dut JOB: prints the path of iotoll-dut, which a job may bring.
find_dut() {
    if [ -x "$1/iotoll-dut" ]; then echo "$1/iotoll-dut"; else command -v iotoll-dut; fi ||
        fail workload "no iotoll-dut in $1 or PATH"
}

# Of an exact board: names the file with the moment at which the cell began that has not ended.
OPEN_CELL=/tmp/iotoll-open-cell

# end_cell REST_US ROUND_US: if a cell was begun (start.sh), waits until what its I/Os have put off has run: delayed work,
# timers, RCU. Then it has ended, which a marker in the trace says: what the CPUs executed is counted from the cell's own
# marker to this one (tools/plugin/counts.h). That is a multiple of ROUND_US after the cell began, so that base and
# candidate are counted for as long, between the same ticks.
end_cell() {
    [ -s "$OPEN_CELL" ] || return 0
    read -r begun <"$OPEN_CELL"
    iotoll-start rest "$begun" "$1" "$2" || fail workload "iotoll-start rest: status $?" >/dev/console
    echo "iotoll rest" >"$TRACEFS/trace_marker"
    : >"$OPEN_CELL"
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
        if [ -d "$TRACEFS/events/${event%%:*}/${event#*:}" ]; then
            echo "$event"
        else
            say "note: no event $event" >&2
        fi
    done <"$1"
}

# disk_of DEVICE DEVICES: prints the sysfs folder of a device's whole disk, which prepare.sh noted.
disk_of() {
    named=$(sed -n "s,^$1 /dev/\([^ ]*\) .*,\1,p" "$2")
    [ -n "$named" ] && find_real "/sys/class/block/$named" || fail workload "no $1 disk in $2"
    [ ! -e "$real/partition" ] || real=${real%/*}
    echo "$real"
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
        # What prepare.sh noted, which may be a partition: the rest of the disk is not ours.
        ln -sf "$(sed -n "s,^$1 /dev/\([^ ]*\) .*,\1,p" "$2")" "/dev/iotoll-$1"
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

# clean_slate [double EVENT | off EVENT]: caches and free memory are in a known state, and all events are
# as the batch wants them, but for one of a calibration.
# double: record EVENT in a second ring buffer too, which costs what the event itself costs.
# off: do not record EVENT at all (a kprobe's trap is not doubled by a second buffer).
clean_slate() {
    twin=$TRACEFS/instances/iotoll_twin
    if [ -d "$twin" ]; then
        echo 0 >"$twin/events/enable"
        rmdir "$twin"
    fi
    if [ -s /tmp/iotoll-off ]; then
        echo 1 >"$TRACEFS/events/$(cat /tmp/iotoll-off)/enable"
        rm /tmp/iotoll-off
    fi
    case ${1:-} in
    double)
        mkdir "$twin"
        echo 1 >"$twin/events/$2/enable"
        ;;
    off)
        echo 0 >"$TRACEFS/events/$2/enable"
        echo "$2" >/tmp/iotoll-off
        ;;
    esac
    # Emptied rather than removed: a process less.
    for held in /tmp/iotoll-held.*; do
        [ ! -s "$held" ] || : >"$held"
    done
    sync
    echo 3 >/proc/sys/vm/drop_caches
    echo 1 >/proc/sys/vm/compact_memory
}

# find_disks BATCH: $DISKS are the folders in sysfs of the disks that the batch's cells use, which set_disks
# has set; start.sh wants them. No others: two disks of a host have one set of tags, and the depth of the
# last one that is set counts for both.
find_disks() {
    [ -d /sys/kernel/debug/block ] || mount -t debugfs none /sys/kernel/debug 2>/dev/null
    DISKS='' name=${1#calibration-}
    for one in ${names:-${name%%-*}}; do
        DISKS="$DISKS $(disk_of "$one" "$devices")"
    done
    export DISKS
}

# count_cpus: $cpus is how many CPUs there are.
count_cpus() {
    cpus=0
    for one in /sys/devices/system/cpu/cpu[0-9]*; do cpus=$((cpus + 1)); done
}

# on_cpu CPU: what this shell does from now on, it does there; CPU may be a list.
on_cpu() {
    [ "$cpus" -eq 1 ] || taskset -p -c "$1" $$ >/dev/null
}

# settle_memory EXTRA: the page cache's next pages follow each other in memory, each CPU has free pages of one kind alone,
# which it has just fetched. All of that is left over from what ran before, otherwise, and differs between two kernels of
# another layout: 128 KiB of the page cache were one segment of a request or 32, which cost 5,000 instructions more, and a
# batch of free pages, 8,000 instructions, was fetched in other I/Os.
# EXTRA pages, of each CPU's own, are used up as well: so many I/Os earlier it fetches others.
settle_memory() {
    cpu=0
    while [ $cpu -lt "$cpus" ]; do
        on_cpu $cpu
        iotoll-start settle /tmp/iotoll-held.$cpu $cpu 2048 "$1" || fail workload "iotoll-start settle: status $?" >/dev/console
        cpu=$((cpu + 1))
    done
    on_cpu "0-$((cpus - 1))"
}

# spread_pages FIO: makes the files that a fio job has buffers in (its lines `; spread FILE PAGES`), of pages of which no two neighbours in the
# file are neighbours in memory: these would be one segment of a request. Free pages must follow each other for that:
# of those left over from what ran before, some were neighbours in one of two kernels of the same code.
spread_pages() {
    count_cpus
    sed -n 's/^; spread //p' "$1" | while read -r file pages; do
        clean_slate
        settle_memory 0
        iotoll-start spread "$file" "$pages" || fail workload "iotoll-start spread: status $?" >/dev/console
    done
}

# find_hint DISK CPU: $hint is the tag at which the CPU looks first for a free one, in the queue that serves it.
find_hint() {
    hint=
    for queue in "$1"/mq/*; do
        read -r served <"$queue/cpu_list"
        case ", $served," in *", $2,"*) ;; *) continue ;; esac
        tags=/sys/kernel/debug/block/${1##*/}/hctx${queue##*/}/tags
        # Without debugfs the tag stays where it is.
        [ -f "$tags" ] || { hint=0; return; }
        hints=
        while IFS='={}' read -r word _ hints _; do
            [ "$word" != alloc_hint ] || break
        done <"$tags"
        set -- "$1" "$2" "$hints, "
        skip=$2
        while [ $((skip -= 1)) -ge 0 ]; do set -- "$1" "$2" "${3#*, }"; done
        hint=${3%%,*}
    done
}

# first_tags DISK: each CPU's next request to a disk (its folder in sysfs) gets the first tag. Where a CPU's
# search begins is random (sbitmap_init_node), and a search that passes a word of the map takes longer: of
# one thread's I/Os to UFS every fourth cost 58 instructions more, another fourth in each kernel. With few
# tags the search comes round soon. SCSI has a second map, which only queue_depth shrinks: to one.
first_tags() {
    depth=
    read -r requests <"$1/queue/nr_requests"
    [ ! -f "$1/device/queue_depth" ] || read -r depth <"$1/device/queue_depth"
    echo 4 >"$1/queue/nr_requests"
    [ -z "$depth" ] || echo 1 >"$1/device/queue_depth"
    cpu=0 block=0
    while [ $cpu -lt "$cpus" ]; do
        on_cpu $cpu
        # Not twice the same block: the second read would find it in memory.
        last=$((block + 9))
        while [ $((block += 1)) -le $last ]; do
            dd if="/dev/${1##*/}" of=/dev/null bs=4k count=1 skip=$block 2>/dev/null
            find_hint "$1" $cpu
            [ "$hint" != 0 ] || break
        done
        cpu=$((cpu + 1))
    done
    on_cpu "0-$((cpus - 1))"
    [ -z "$depth" ] || echo "$depth" >"$1/device/queue_depth"
    echo "$requests" >"$1/queue/nr_requests"
}
