#!/bin/sh
# run.sh: the whole recording: modules, the device, its file system, each case, the hand-over.
set -u
here=$(dirname "$0")
. "$here/lib.sh"
. "$here/cases.sh"
. /record/job.env

while read -r module options; do
    # shellcheck disable=SC2086 # options are words
    insmod "/record/modules/$module" $options 2>/tmp/insmod.log || say "note: $module: $(cat /tmp/insmod.log)"
done </record/modules.order
[ -z "${NEW_ID:-}" ] || bind_new_id
# The kernel's symbols are of no use here, and reading them takes an emulated guest half a minute.
mount --bind /dev/null /proc/kallsyms
wait_for "/dev/$NODE" || fail "no /dev/$NODE: $(ls /sys/block)"
DEV=/dev/$NODE
echo none >"/sys/block/$NODE/queue/scheduler" 2>/dev/null
[ -z "${SCHEDULER:-}" ] || echo "$SCHEDULER" >"/sys/block/$NODE/queue/scheduler"
mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" || fail "mkfs.ext4"
mkdir -p /mnt "$OUT"
for case in $CASES; do
    say "case $case"
    "case_$case" || say "FAIL case $case"
done
uname -rvm >"$OUT/uname"
cat /proc/cmdline >"$OUT/cmdline"
cat /proc/interrupts >"$OUT/interrupts"
dmesg >"$OUT/dmesg"
(cd "$OUT" && tar cf - .) >"$(handover_port)"
say "done"
