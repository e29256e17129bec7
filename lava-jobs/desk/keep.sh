#!/bin/sh
# keep.sh JOB DIR: keeps DIR until the host fetches all of them: it may have lost the connection meanwhile.
set -u
. "$(dirname "$0")/../dut/lib.sh"
kept=/tmp/iotoll-kept
mkdir -p "$kept"
case ${2##*/} in
boot) cp -r "$2" "$kept" ;; # later batches read it
*) mv "$2" "$kept" ;;
esac || fail handover "cannot keep $2: is the memory full?"
