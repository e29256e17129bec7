#!/bin/sh
# start.sh ROOT KEY: begins the workload of one boot on a board that is reached by ssh, and returns at once: it goes on
# when the connection is lost. ROOT is the DUT's own root file system, so that the board's need no fio and no trace-cmd.
# In ROOT: console is what the workload says, pid its process group, status its end.
set -eu
root=$1 box=$1/usr/bin/busybox
cd "$root"
# Its mounts are in a namespace of its own, and gone with it.
"$box" setsid "$box" unshare -m "$box" sh "$root/iotoll/desk/inside.sh" "$root" "$2" </dev/null >console 2>&1 &
