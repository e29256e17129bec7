# shellcheck shell=sh
# What the cases of a recording guest share. POSIX sh: the guest has dash and busybox.

TRACEFS=/sys/kernel/tracing
OUT=/tmp/out

say() { echo "record: $*"; }

fail() {
    say "FAIL $*"
    exit 1
}

# wait_for FILE: up to 20 s for a device to appear.
wait_for() {
    tries=0
    while [ ! -e "$1" ]; do
        tries=$((tries + 1))
        [ "$tries" -le 200 ] || return 1
        sleep 0.1
    done
}

# bind_new_id: gives a PCI driver an id that this kernel's table lacks. NEW_ID is "DRIVER VENDOR DEVICE".
bind_new_id() {
    # shellcheck disable=SC2086 # three words
    set -- $NEW_ID
    # Fails with "File exists" on a kernel that knows the id.
    echo "$2 $3" >"/sys/bus/pci/drivers/$1/new_id" 2>/dev/null || say "note: $1 knows $2:$3"
}

# handover_port: the virtio port's device node, found by its name.
handover_port() {
    for port in /sys/class/virtio-ports/*; do
        [ "$(cat "$port/name")" != org.iotoll.record ] || echo "/dev/${port##*/}"
    done
}

# record NAME SET COMMAND...: runs COMMAND under trace-cmd with the events of /record/SET.events that
# this kernel has. Leaves NAME.dat, and the command's and the absent events' names beside it.
record() {
    name=$1 set=$2
    shift 2
    echo "$*" >"$OUT/$name.command"
    : >"$OUT/$name.absent"
    options=
    while read -r event; do
        if [ -d "$TRACEFS/events/$(echo "$event" | tr : /)" ]; then
            options="$options -e $event"
        else
            echo "$event" >>"$OUT/$name.absent"
        fi
    done <"/record/$set.events"
    # The recorder sleeps until the end, so that its own writes are not among the events.
    echo 100 >"$TRACEFS/buffer_percent" 2>/dev/null
    # shellcheck disable=SC2086 # options are words
    trace-cmd record -q --compression none -C "$TRACE_CLOCK" -b "$BUFFER_KB" $options ${RECORDER:-} \
        -o "$OUT/$name.dat" "$@" >"$OUT/$name.log" 2>&1 || say "FAIL $name: $(tail -n 3 "$OUT/$name.log")"
}

# load NAME SET OPTIONS...: a fio job under trace-cmd, with fio's JSON beside the trace.
load() {
    name=$1 set=$2
    shift 2
    record "$name" "$set" fio --output-format=json --output="$OUT/$name.fio.json" --eta=never \
        --thread --allow_mounted_write=1 --randseed=7 --clocksource=clock_gettime --name=load "$@"
}

mounted() { mount -t ext4 -o noatime "$DEV" /mnt || fail "mount $DEV"; }
unmounted() { umount /mnt || fail "umount"; }
drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# a_file FILE MB: written through to the device, and out of the page cache.
a_file() {
    dd if=/dev/zero of="$1" bs=1M count="$2" conv=fsync 2>/dev/null || fail "writing $1"
    drop_caches
}
