#!/bin/sh
# lava.sh JOB: the workload of one boot as a LAVA test. LAVA's own commands are on the PATH.
set -u
here=$(dirname "$0")
. "$here/lib.sh"

if sh "$here/run.sh" "$1"; then
    lava-test-case workload --result pass
else
    lava-test-case workload --result fail
fi
