#!/bin/sh
# lava.sh JOB [URL]: the workload of one boot as a LAVA test, and its figures as measurements: a test
# set for each cell, a test case for each section and statistic. Raw traces go to URL, if there is one,
# and a test case of each refers to it. LAVA's own commands are on the PATH.
set -u
here=$(dirname "$0")
. "$here/lib.sh"

figures=/tmp/iotoll-out/figures references=/tmp/iotoll-out/references # of serial.sh
report() {
    open=
    while read -r cell section statistic value unit; do
        if [ "$cell" != "$open" ]; then
            [ -z "$open" ] || lava-test-set stop
            lava-test-set start "$cell"
            open=$cell
        fi
        lava-test-case "$cell.$section.$statistic" --result pass \
            --measurement "$value" --units "$unit" </dev/null
    done <"$1"
    [ -z "$open" ] || lava-test-set stop
}

refer() {
    while read -r name result url; do
        lava-test-reference "$name" --result "$result" --reference "$url" </dev/null
    done <"$1"
}

export TRACES_URL="${2:-}"
if sh "$here/run.sh" "$1"; then
    report "$figures"
    [ ! -s "$references" ] || refer "$references"
    lava-test-case workload --result pass
else
    lava-test-case workload --result fail
fi
