#!/bin/sh
# serial.sh JOB DIR: sends what the board measured in DIR over its console, as lines that the host's
# `iotoll receive` checks: the records of the cells, fio's own totals, and what the board consists of.
# No network is needed, and no trace leaves the board, unless TRACES_URL names a folder of the lab's
# file server: then they go there, and are named in what is sent. The cells' figures are left in
# DIR/../figures, the traces' addresses in DIR/../references.
set -u
here=$(dirname "$0")
. "$here/lib.sh"
job=$1 out=$2
name=${out##*/}
. "$job/job.env"

dut=$(find_dut "$job") || { echo "$dut"; exit 1; }
cd "$out" || fail handover "no $out"
send() {
    "$dut" send --repeat "${SEND_REPEAT:-1}" --in "$1" || fail handover "$name: iotoll-dut send failed"
}
# A JSON list of a file's lines, without what JSON cannot have.
list() {
    tr -d '\000-\011\013-\037' <"$1" | sed 's/[\\"]/\\&/g; s/.*/"&",/' | tr -d '\n' | sed 's/,$//; s/.*/[&]/'
}

if [ "$name" = boot ]; then
    echo "{\"cell\":\"boot\",\"devices\":$(list devices),\"tools\":$(list tools),\"facts\":$(list facts)}" >sent
    send sent
    exit 0
fi
if [ "$name" = pmu ]; then
    [ -s counts ] || exit 0
    echo "{\"cell\":\"pmu\",\"counts\":$(list counts)}" >sent
    send sent
    exit 0
fi
if [ "$name" = after ]; then
    echo "{\"cell\":\"after\",\"facts\":$(list facts)}" >sent
    send sent
    exit 0
fi
if [ -f trace.dat ]; then
    device=${name#calibration-} # of a batch such as ufs-kyber
    number=$(sed -n "s/^${device%%-*} [^ ]* //p" ../boot/devices)
    own=
    [ "$name" = "${name#calibration-}" ] || own=--own
    # shellcheck disable=SC2086 # an option, or none
    "$dut" record trace.dat --cells --digest --comm fio --device "$number" --unit "${UNIT:-ns}" $own \
        >records || fail handover "$name: iotoll-dut record failed"
    send records
    if [ -n "${TRACES_URL:-}" ]; then
        sent=$(sh "$here/upload.sh" trace.dat "$TRACES_URL") || fail handover "$name: $sent"
        # shellcheck disable=SC2086 # words: size, SHA-256, what the server said
        set -- $sent
        size=$1 sha256=$2
        shift 2
        echo "{\"cell\":\"trace.$name\",\"size\":$size,\"sha256\":\"$sha256\",\"problem\":\"$*\"}" >sent
        send sent
        result=pass
        [ $# -eq 0 ] || result=fail
        echo "trace.$name $result $TRACES_URL/$sha256" >>../references
    fi
fi
[ "$name" = "${name#calibration-}" ] || exit 0
"$dut" figures --in records >>../figures || fail handover "$name: iotoll-dut figures failed"
# fio writes notes before its JSON.
{ printf '{"cell":"fio.%s","fio":' "$name"; sed -n '/^{/,$p' fio.json; echo '}'; } | tr -d '\n' >sent
send sent
