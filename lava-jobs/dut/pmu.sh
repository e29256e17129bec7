#!/bin/sh
# pmu.sh JOB DIR: runs each cell of JOB/BATCH.pmu (lines "CELL IOS") once more, without a trace, under the board's `perf
# stat`, which counts PMU_EVENTS of job.env on all CPUs. DIR/counts then has lines "CELL IOS LINE": what `perf stat -x,` says
# of an event, or in its form why there is none. Nothing here fails a boot: its cells were measured.
set -u
here=$(dirname "$0")
. "$here/lib.sh"
job=$1 out=$2
. "$job/job.env"

# Our root file system has no perf. That of a board that is reached by ssh may: its own root is that of its first task.
perf=${PERF:-perf} first=${FIRST_ROOT:-/proc/1/root} back=
if ! command -v "$perf" >/dev/null && chroot "$first" perf --version >/dev/null 2>&1; then
    perf="chroot $first perf" back="chroot /proc/$$/root"
fi

# perf refuses all events where it knows one of them not.
known='' unknown=''
for event in $PMU_EVENTS; do
    if $perf stat -a -x, -e "$event" -- true >/dev/null 2>&1; then
        known=$known${known:+,}$event
    else
        unknown="$unknown $event"
    fi
done
why="no such event"
$perf --version >/dev/null 2>&1 || why="the board has no perf"

mkdir -p "$out"
: >"$out/counts"
# Events that the cells were traced with would still run code.
true >"$TRACEFS/set_event" 2>/dev/null

# count CELL IOS: what perf says of one cell.
count() {
    if [ -n "$known" ]; then
        # It begins as a cell that is measured does.
        clean_slate
        # shellcheck disable=SC2086 # words
        $perf stat -a -x, -e "$known" -- $back sh -c 'exec fio --section="$1" --output="$2" --eta=never "$3" >/dev/null 2>&1' \
            fio "$1" "$out/fio" "$job/$batch.fio" 2>"$out/perf" ||
            for event in $(echo "$known" | tr , ' '); do echo "<fio or perf failed>,,$event"; done >"$out/perf"
    else
        : >"$out/perf"
    fi
    for event in $unknown; do echo "<$why>,,$event"; done >>"$out/perf"
    sed -n "s/^\([^#].*,.*,.\)/$1 $2 \1/p" "$out/perf" >>"$out/counts"
}

for list in "$job"/*.pmu; do
    [ -f "$list" ] || continue
    batch=${list##*/} batch=${batch%.pmu}
    set_disks "$job" "$batch" "${out%/*}/boot/devices"
    while read -r cell ios; do
        say "pmu $cell"
        count "$cell" "$ios" </dev/null
    done <"$list"
    reset_disks
done
rm -f "$out/fio" "$out/perf"
exit 0
