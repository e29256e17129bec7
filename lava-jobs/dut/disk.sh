#!/bin/sh
# disk.sh JOB DIR: gives DIR to the host as one more tar stream, on the disk HANDOVER_DISK of a board that has
# no other way out (User Mode Linux): each stream begins at the next block of 4 KiB.
set -u
. "$(dirname "$0")/lib.sh"
. "$1/job.env"

at=$(cat /tmp/iotoll-handed 2>/dev/null || echo 0)
stream=/tmp/iotoll-stream
cd "$(dirname "$2")" || fail handover "no $2"
tar cf "$stream" "$(basename "$2")" || fail handover "cannot write $stream"
dd if="$stream" of="$HANDOVER_DISK" bs=4k seek="$at" conv=notrunc,fsync 2>/dev/null ||
    fail handover "writing to $HANDOVER_DISK failed"
size=$(wc -c <"$stream")
echo $((at + (size + 4095) / 4096)) >/tmp/iotoll-handed
rm "$stream"
