#!/bin/sh
# nvme-loop.sh SIZE_MB: makes /dev/nvme0n1, a disk of the NVMe core (drivers/nvme/host/core.c) whose device is a target
# in the same kernel (drivers/nvme/target/loop.c) with a sparse file in memory: no other disk's requests are in the
# trace. Needs CONFIG_NVME_TARGET_LOOP, and a kernel whose tmpfs takes O_DIRECT (Linux 6.6 and later).
set -u
. "$(dirname "$0")/lib.sh"

disk=/dev/nvme0n1
config=/sys/kernel/config
file=/tmp/iotoll-nvme-loop
[ -d "$config/nvmet" ] || mount -t configfs none "$config" 2>/dev/null
[ -d "$config/nvmet" ] || fail prepare "no NVMe target: CONFIG_CONFIGFS_FS, CONFIG_NVME_TARGET_LOOP"
# Sparse: what is not written takes no memory.
dd if=/dev/zero of="$file" bs=1M count=0 seek="$1" 2>/dev/null || fail prepare "cannot make $file"

system=$config/nvmet/subsystems/iotoll
mkdir -p "$system/namespaces/1" "$config/nvmet/ports/1"
echo 1 >"$system/attr_allow_any_host"
# Base and candidate have one device: else its model and serial number would be other ones in each boot.
for word in serial=iotoll model=iotoll firmware=1; do
    [ ! -w "$system/attr_${word%=*}" ] || echo "${word#*=}" >"$system/attr_${word%=*}"
done
echo "$file" >"$system/namespaces/1/device_path"
echo 1 >"$system/namespaces/1/enable" || fail prepare "nvme-loop: the target does not take $file: Linux 6.6 or later"
echo loop >"$config/nvmet/ports/1/addr_trtype"
ln -s "$system" "$config/nvmet/ports/1/subsystems/iotoll" || fail prepare "nvme-loop: no transport loop"
# No keep-alive: nothing is sent but I/Os.
echo transport=loop,nqn=iotoll,nr_io_queues=1,keep_alive_tmo=0 >/dev/nvme-fabrics ||
    fail prepare "nvme-loop: cannot connect to the target"
left=50
while [ ! -b "$disk" ] && [ $((left -= 1)) -ge 0 ]; do sleep 0.1; done
[ -b "$disk" ] || fail prepare "nvme-loop: the target is connected, and there is no $disk"
