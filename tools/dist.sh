#!/bin/bash
# Builds what is handed out, in dist/: a wheel for x86-64 and one for arm64, each with the static commands
# for boards, and these by themselves. `make dist` builds them (target/dut) and calls this.
#
# manylinux_2_34: the C library of a machine that installs it is 2.34 or later; Debian 12 has 2.36. maturin
# refuses a wheel that needs a later one.
set -euo pipefail
cd "$(dirname "$0")/.."
unset CARGO_TARGET_DIR

say() { printf 'dist: %s\n' "$*" >&2; }
die() { say "$*"; exit 4; }
. tools/rust-std.sh

# wheel CPU DEB: as in Rust's names of targets, and Debian's of architectures.
wheel() {
    local cpu=$1 deb=$2 triple=$1-unknown-linux-gnu upper prefix= flags=
    upper=${triple//-/_}
    if [ "$(uname -m)" != "$cpu" ]; then
        prefix=${cpu/_/-}-linux-gnu-
        command -v "${prefix}gcc" >/dev/null || die "no ${prefix}gcc: apt-get install gcc-${prefix%-}"
        has_std "$triple" || { command -v rustup >/dev/null && rustup target add "$triple"; } ||
            flags="--sysroot $(debian_std "$deb" "$triple")"
    fi
    say "wheel for $cpu"
    # An option for all targets would also change what runs while it is built.
    env "CARGO_TARGET_${upper^^}_LINKER=${prefix}gcc" "CARGO_TARGET_${upper^^}_RUSTFLAGS=$flags" \
        "CC_$upper=${prefix}gcc" "AR_$upper=${prefix}ar" MATURIN_PEP517_ARGS="--target $triple --compatibility manylinux_2_34" \
        "$uv" build --quiet --wheel --out-dir dist
}

uv=$(compgen -G '.cache/uv-*/bin/uv') || die "no uv: tools/setup.sh run"
data=src/iotoll/_data/dut
trap 'rm -rf "$data"' EXIT
rm -rf dist "$data"
for arch in arm64 x86_64; do
    install -D "target/dut/$arch/iotoll-dut" "$data/$arch/iotoll-dut"
    install -D "target/dut/$arch/iotoll-dut" "dist/dut/$arch/iotoll-dut"
done
wheel x86_64 amd64
wheel aarch64 arm64
say 'wheel of iotoll-lab'
"$uv" build --quiet --wheel --package iotoll-lab --out-dir dist
(cd dist && sha256sum -- *.whl dut/*/*) >dist/SHA256SUMS
say "$(ls dist/*.whl | tr '\n' ' ')"
