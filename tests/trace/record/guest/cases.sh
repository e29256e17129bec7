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

# Reads and writes of a device as it is.
raw() {
    name=$1 set=$2 disk=$3
    shift 3
    load "$name" "$set" --filename="$disk" --size=8m --ioengine=libaio --iodepth=4 --direct=1 --rw=randrw --bs=4k \
        --number_ios=64 --random_generator=lfsr "$@"
}
# With a device mapper target over the first 8 MiB of the disk: TARGET, what follows it.
on_target() {
    target=$1
    dmsetup create --noudevsync "$target" --table "0 16384 $*" || fail "dmsetup $target"
    [ -e "/dev/mapper/$target" ] || dmsetup mknodes
    raw "dm_$target" "$SET" "/dev/mapper/$target"
    dmsetup remove --noudevsync "$target"
}
case_dm_delay() { on_target delay "$DEV" 0 3; }
case_dm_crypt() { on_target crypt cipher_null-ecb - 0 "$DEV" 0; }
case_dm_stripe() { on_target striped 2 64 "$DEV" 32768 "$DEV" 65536; }
# With md over two partitions: LEVEL.
on_md() {
    printf '2048,40960\n43008,40960\n' | sfdisk -q "$DEV" || fail "sfdisk"
    case $NODE in *[0-9]) part=${DEV}p ;; *) part=$DEV ;; esac
    wait_for "${part}2" || fail "no ${part}2"
    mdadm --create /dev/md0 --run --level="$1" --raid-devices=2 --assume-clean --metadata=1.0 \
        "${part}1" "${part}2" >/dev/null 2>&1 || fail "mdadm"
    sleep 1
    raw "md_raid$1" "$SET" /dev/md0
    mdadm --stop /dev/md0 >/dev/null 2>&1
    dd if=/dev/zero of="$DEV" bs=1M count=1 conv=fsync 2>/dev/null
    mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV"
}
case_md_raid1() { on_md 1; }
case_md_raid0() { on_md 0; }
case_zram() {
    echo 32M >/sys/block/zram0/disksize
    raw zram "$SET" /dev/zram0
}
# Two jobs on two partitions.
case_partitions() {
    printf '2048,20480\n22528,20480\n' | sfdisk -q "$DEV" || fail "sfdisk"
    case $NODE in *[0-9]) part=${DEV}p ;; *) part=$DEV ;; esac
    wait_for "${part}2" || fail "no ${part}2"
    load partitions "$SET" --size=8m --ioengine=psync --direct=1 --rw=randread --bs=4k --number_ios=48 \
        --filename="${part}1" --name=second --filename="${part}2"
    dd if=/dev/zero of="$DEV" bs=1M count=1 conv=fsync 2>/dev/null
    mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV"
}

# --- Requests without a system call in the trace ---
case_block_only() { raw block_only block "$DEV"; }
case_raw_syscalls() { raw raw_syscalls raw_syscalls "$DEV"; }
# What a task has left in the page cache is written back by a kernel thread.
case_writeback() {
    mounted
    record writeback writeback sh -c 'dd if=/dev/zero of=/mnt/back bs=64k count=32 2>/dev/null; sync'
    unmounted
}
# A file system of its own, in place of the disk's ext4.
on_f2fs() {
    mkfs.f2fs -q -f "$DEV" >/dev/null || fail "mkfs.f2fs"
    mount -t f2fs -o noatime "$DEV" /mnt || fail "mount $DEV"
    "$@"
    umount /mnt || fail "umount"
    mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV"
}
case_f2fs_writeback() {
    on_f2fs record f2fs_writeback writeback sh -c 'dd if=/dev/zero of=/mnt/back bs=64k count=32 2>/dev/null; sync'
}
case_f2fs_direct() {
    on_f2fs load f2fs_direct writeback --filename=/mnt/data --size=8m --ioengine=psync --direct=1 --rw=randrw --bs=4k \
        --number_ios=48
}
# SCSI commands by ioctl: requests that have no bio.
case_passthrough() {
    load passthrough "$SET" --filename="$DEV" --size=8m --ioengine=sg --direct=1 --rw=randread --bs=4k --number_ios=48
}

# --- Recordings that lack something ---
# Only the load's own tasks: no interrupt, so hardly a completion.
case_pid_filter() {
    RECORDER="-F -c"
    raw pid_filter "$SET" "$DEV" --ioengine=psync --iodepth=1
    RECORDER=
}
case_no_complete() { raw no_complete issue "$DEV"; }
# Two instances that record the same events.
case_two_instances() {
    RECORDER="-B second -e block -C $TRACE_CLOCK"
    raw two_instances block "$DEV"
    RECORDER=
    : >"$OUT/two_instances.whole"
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

# --- iotoll itself, in the shared root of the machine that the guest runs on ---
# on_host LOG WORDS...: `iotoll WORDS` there, in the background; the load goes on until it ends.
on_host() {
    log=$OUT/$1
    shift
    # A shell's background commands ignore SIGINT, and Python leaves that so.
    busybox chroot /host /usr/bin/env --default-signal=INT PYTHONPATH="$SOURCES" COLUMNS=80 HOME=/tmp \
        PATH=/usr/bin:/usr/sbin:/bin:/sbin "$PYTHON" -m iotoll "$@" >"$log.out" 2>"$log.err" &
    process=$!
}
# until_over LOADS: reads of the disk until the command has ended; after LOADS beside the recording one Ctrl-C.
until_over() {
    loads=0
    while kill -0 "$process" 2>/dev/null; do
        fio --output=/dev/null --name=load --thread --filename="$DEV" --ioengine=psync --direct=1 --rw=randread \
            --bs=4k --size=8m --number_ios=16 >/dev/null 2>&1
        # trace-cmd starts slowly here, so the first of them come before it records.
        ! grep -q "kinds of events" "$log.err" || loads=$((loads + 1))
        [ "$loads" != "$1" ] || kill -INT "$process"
        sleep 0.5
    done
    wait "$process"
    echo $? >"$log.code"
}
case_iotoll_record() {
    mkdir -p /host
    mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host || fail "9p"
    for part in proc sys dev; do mount --rbind /$part /host/$part || fail "mount $part"; done
    mount --bind "$OUT" /host/tmp || fail "mount tmp"
    on_host timed record --device "$NODE" --for 3 --run --out /tmp/timed.dat
    until_over never
    on_host ctrlc record --run --out /tmp/ctrlc.dat
    until_over 8
    on_host printed record --device "$NODE" --for 3 --out /tmp/printed.dat
    until_over never
    umount /host/tmp
}
