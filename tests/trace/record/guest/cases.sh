# shellcheck shell=sh
# The cases: each makes one kind of I/O and records it. $DEV is the disk, which holds an ext4.

# on_file NAME SET OPTIONS...: a load on an 8 MiB file of the mounted file system.
on_file() {
    mounted
    a_file /mnt/data 8
    load "$@" --filename=/mnt/data --size=8m
    unmounted
}

# --- System calls that wait ---
case_psync() { on_file psync "$SET" --ioengine=psync --direct=1 --rw=randrw --bs=4k --number_ios=48; }
case_lean() { on_file lean lean --ioengine=psync --direct=1 --rw=randrw --bs=4k --number_ios=96; }
case_pvsync2() { on_file pvsync2 "$SET" --ioengine=pvsync2 --direct=1 --rw=randrw --bs=4k --number_ios=48; }
case_threads() {
    on_file threads "$SET" --ioengine=psync --direct=1 --rw=randread --bs=4k --number_ios=24 --numjobs=4
}

# --- Asynchronous I/O ---
case_libaio() {
    on_file libaio "$SET" --ioengine=libaio --iodepth=8 --direct=1 --rw=randrw --bs=4k --number_ios=64
}
case_libaio_batch() {
    on_file libaio_batch "$SET" --ioengine=libaio --iodepth=16 --iodepth_batch_submit=8 \
        --iodepth_batch_complete_min=4 --direct=1 --rw=randread --bs=4k --number_ios=96
}
case_uring() {
    on_file uring "$SET" --ioengine=io_uring --iodepth=8 --direct=1 --rw=randrw --bs=4k --number_ios=64
}
case_uring_batch() {
    on_file uring_batch "$SET" --ioengine=io_uring --iodepth=16 --iodepth_batch_submit=8 \
        --iodepth_batch_complete_min=4 --registerfiles --fixedbufs --direct=1 --rw=randread --bs=4k --number_ios=96
}
case_uring_sqpoll() {
    on_file uring_sqpoll "$SET" --ioengine=io_uring --sqthread_poll=1 --iodepth=4 --direct=1 \
        --rw=randread --bs=4k --number_ios=64
}
# Buffered reads that miss the page cache: io_uring retries them, or hands them to a worker.
case_uring_buffered() {
    on_file uring_buffered "$SET" --ioengine=io_uring --iodepth=4 --direct=0 --rw=randread --bs=4k \
        --invalidate=1 --number_ios=48
}
case_uring_fsync() {
    on_file uring_fsync "$SET" --ioengine=io_uring --iodepth=4 --direct=0 --rw=randwrite --bs=4k \
        --fsync=4 --number_ios=32
}
# Polling needs a poll queue; file systems and the raw disk both take it.
case_uring_poll() {
    load uring_poll "$SET" --filename="$DEV" --ioengine=io_uring --hipri --iodepth=4 --direct=1 \
        --rw=randread --bs=4k --size=8m --number_ios=64
}
case_pvsync2_poll() {
    load pvsync2_poll "$SET" --filename="$DEV" --ioengine=pvsync2 --hipri --direct=1 \
        --rw=randread --bs=4k --size=8m --number_ios=48
}

# --- The page cache ---
case_mmap() { on_file mmap "$SET" --ioengine=mmap --rw=randread --bs=4k --invalidate=1 --number_ios=48; }
case_readahead() {
    on_file readahead "$SET" --ioengine=psync --rw=read --bs=4k --invalidate=1 --number_ios=256
}
case_osync() { on_file osync "$SET" --ioengine=psync --sync=1 --rw=randwrite --bs=4k --number_ios=32; }
case_fsync() { on_file fsync "$SET" --ioengine=psync --rw=randwrite --bs=4k --fsync=4 --number_ios=32; }
# A growing file: each fsync commits the journal, in the journal's own thread.
case_append() {
    mounted
    load append "$SET" --filename=/mnt/new --size=2m --ioengine=psync --rw=write --bs=16k --fsync=2 \
        --fallocate=none --file_append=1 --number_ios=24
    unmounted
}

# --- What the block layer does with bios ---
case_split() {
    load split "$SET" --filename="$DEV" --ioengine=psync --direct=1 --rw=randread --bs=2m --size=32m --number_ios=12
}
case_split_write() {
    on_file split_write "$SET" --ioengine=libaio --iodepth=2 --direct=1 --rw=write --bs=1m --number_ios=12
}
# A batch of neighbours under one plug: back merges, then front merges (descending offsets).
case_merge() {
    record merge "$SET" sh -c '
        for way in write write:-8k; do
            fio --output-format=json --output=/dev/null --name=load --thread --allow_mounted_write=1 \
                --filename='"$DEV"' --offset=16m --size=8m --ioengine=libaio --iodepth=16 --iodepth_batch=16 \
                --iodepth_batch_complete_min=16 --direct=1 --bs=4k --rw=$way --number_ios=48
        done'
}
# A disk's own fsync is a bare flush; O_SYNC on it is a write with FUA, or a write and a flush.
case_flush() {
    load flush "$SET" --filename="$DEV" --offset=16m --size=8m --ioengine=psync --direct=1 --rw=randwrite \
        --bs=4k --fsync=2 --number_ios=24
}
case_fua() {
    load fua "$SET" --filename="$DEV" --offset=16m --size=8m --ioengine=psync --direct=1 --sync=1 \
        --rw=randwrite --bs=4k --number_ios=24
}
case_discard() {
    echo "$(cat /sys/block/$NODE/queue/discard_max_bytes)" >"$OUT/discard.max_bytes"
    load discard "$SET" --filename="$DEV" --offset=32m --size=16m --ioengine=psync --direct=1 \
        --rw=randtrim --bs=64k --number_ios=24
}
case_fstrim() {
    mounted
    record fstrim "$SET" fstrim -v /mnt
    unmounted
}
# More and bigger I/O than the device's queue has room for.
case_requeue() {
    load requeue "$SET" --filename="$DEV" --ioengine=libaio --iodepth=32 --iodepth_batch_submit=32 --direct=1 \
        --rw=randread --bs=64k --size=32m --number_ios=64
}

# --- Devices on devices ---
case_partition() {
    printf '2048,20480\n22528,\n' | sfdisk -q "$DEV" || fail "sfdisk"
    case $NODE in *[0-9]) part=${DEV}p2 ;; *) part=${DEV}2 ;; esac
    wait_for "$part" || fail "no $part"
    load partition "$SET" --filename="$part" --ioengine=psync --direct=1 --rw=randread --bs=4k --size=8m \
        --number_ios=48
    dd if=/dev/zero of="$DEV" bs=1M count=1 conv=fsync 2>/dev/null
    mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV"
}
# Two pieces, so that an I/O across their border is split and remapped twice.
case_dm() {
    printf '0 8192 linear %s 40960\n8192 8192 linear %s 8192\n' "$DEV" "$DEV" | dmsetup create --noudevsync lin ||
        fail "dmsetup"
    [ -e /dev/mapper/lin ] || dmsetup mknodes
    load dm "$SET" --filename=/dev/mapper/lin --ioengine=libaio --iodepth=4 --direct=1 --rw=randread --bs=32k \
        --offset=4032k --size=128k --io_size=1536k --blockalign=4k --norandommap
    dmsetup remove --noudevsync lin
}
case_loop() {
    mounted
    a_file /mnt/image 16
    losetup /dev/loop0 /mnt/image || fail "losetup"
    load loop "$SET" --filename=/dev/loop0 --ioengine=psync --direct=1 --rw=randread --bs=4k --size=8m --number_ios=32
    losetup -d /dev/loop0
    unmounted
}

# --- blktrace's own files beside a trace of the same I/Os ---
case_blktrace() {
    mounted
    a_file /mnt/data 8
    mkdir -p "$OUT/blktrace"
    blktrace -d "$DEV" -D "$OUT/blktrace" >"$OUT/blktrace/log" 2>&1 &
    tracer=$!
    wait_for "$OUT/blktrace/$NODE.blktrace.0" || fail "blktrace: $(cat "$OUT/blktrace/log")"
    sleep 1
    load blktrace "$SET" --filename=/mnt/data --size=8m --ioengine=libaio --iodepth=4 --direct=1 --rw=randrw --bs=16k \
        --number_ios=128
    load blktrace_split "$SET" --filename=/mnt/data --size=8m --ioengine=psync --direct=1 --rw=read --bs=2m --number_ios=4
    load blktrace_merge "$SET" --filename=/mnt/data --size=8m --ioengine=libaio --iodepth=16 --iodepth_batch=16 \
        --iodepth_batch_complete_min=16 --direct=1 --bs=4k --rw=write --number_ios=64
    load blktrace_fsync "$SET" --filename=/mnt/data --size=8m --ioengine=psync --rw=randwrite --bs=4k --fsync=4 --number_ios=32
    kill -INT "$tracer"
    wait "$tracer"
    unmounted
}
