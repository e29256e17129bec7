#!/bin/sh
# run.sh JOB: the whole workload of one boot: prepare, every batch, hand over. JOB is the folder
# that the host rendered (job.env, and NAME.fio, NAME.events, NAME.kprobes for each batch).
# In job.env: MEASURE is batch (default: a trace of each batch) or live (the board measures itself);
# HANDOVER is handover (default: everything, through a port of the virtual board) or serial (what
# the board measured of itself, on its console).
set -u
here=$(dirname "$0")
. "$here/lib.sh"
job=$1
. "$job/job.env"
out=/tmp/iotoll-out

say "step prepare"
mkdir -p "$out/boot"
# Before anything is set: what the kernel has by itself.
sh "$here/limits.sh" >"$out/limits" 2>/dev/null
sh "$here/prepare.sh" "$job" "$out/boot/devices" || exit 1
{
    echo "kernel $(uname -r)"
    # An image of iotoll's own says what it holds.
    cat /etc/iotoll-tools 2>/dev/null || {
        echo "fio $(fio --version)"
        echo "trace-cmd $(trace-cmd --version 2>&1 | sed -n 's/^trace-cmd version \([^ ]*\).*/\1/p')"
    }
    echo "cpus $(grep -c ^processor /proc/cpuinfo)"
} >"$out/boot/tools"
{
    sh "$here/facts.sh" "$job" 2>/dev/null
    cat "$out/limits"
} >"$out/boot/facts"
sh "$here/${HANDOVER:-handover}.sh" "$job" "$out/boot" || exit 1
# A board that was flashed and has written its files is warm: it rests for as long as its lab says.
[ "${COOL_DOWN:-0}" = 0 ] || {
    say "step cool down, $COOL_DOWN s"
    sleep "$COOL_DOWN"
}
for batch in $BATCHES; do
    # A virtual board's candidate is not calibrated: its host says so (/iotoll/runs). Calibration comes last.
    case $batch in calibration-*) ! grep -qs cells /iotoll/runs || continue ;; esac
    say "step batch $batch"
    sh "$here/${MEASURE:-batch}.sh" "$job" "$batch" "$out/$batch" || exit 1
    sh "$here/${HANDOVER:-handover}.sh" "$job" "$out/$batch" || exit 1
    rm -rf "${out:?}/$batch"
done
if [ -n "${PMU_EVENTS:-}" ]; then
    say "step pmu"
    sh "$here/pmu.sh" "$job" "$out/pmu"
    sh "$here/${HANDOVER:-handover}.sh" "$job" "$out/pmu" || exit 1
fi
mkdir -p "$out/after"
{
    sh "$here/facts.sh" "$job"
    sh "$here/limits.sh"
} >"$out/after/facts" 2>/dev/null
sh "$here/${HANDOVER:-handover}.sh" "$job" "$out/after" || exit 1
say "done"
