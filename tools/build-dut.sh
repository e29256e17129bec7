#!/bin/bash
# Builds the static command for the device under test: target/dut/ARCH/iotoll-dut.
#
#   tools/build-dut.sh [arm64|x86_64|arm]...      (default: arm64 and x86_64)
#
# arm is 32-bit Armv7 with hard float, for ZedBoard: on request alone, since not every machine can get
# Rust's library for it.
#
# tools/rust-std.sh knows where Rust's standard library for the other architecture comes from. The linker
# is Debian's cross compiler, as for arm64 kernels.
set -euo pipefail
cd "$(dirname "$0")/.."
unset CARGO_TARGET_DIR # an empty value would be an error, another one would hide the result

say() { printf 'build-dut: %s\n' "$*" >&2; }
die() { say "$*"; exit 4; }

. tools/rust-std.sh

# build ARCH CPU DEB GNU [ABI]: CPU and ABI as in Rust's names of targets, DEB as in Debian's of
# architectures, GNU as in those of its compilers.
build() {
    local arch=$1 cpu=$2 deb=$3 gnu=$4 abi=${5:-} triple prefix= gcc flags= level=3
    [ "$(uname -m)" = "$cpu" ] || prefix=$gnu-
    gcc=${prefix}gcc
    command -v "$gcc" >/dev/null || die "no $gcc: apt install gcc-${gnu/_/-}"
    triple=$cpu-unknown-linux-musl$abi
    if ! has_std "$triple" && ! { command -v rustup >/dev/null && rustup target add "$triple"; }; then
        triple=$cpu-unknown-linux-gnu$abi
        # glibc brings 700 KB of its own: with no relocations and smaller code it stays under 2 MB.
        flags="-C target-feature=+crt-static -C relocation-model=static" level=s
        has_std "$triple" || flags+=" --sysroot $(debian_std "$deb" "$triple")"
    fi
    local upper=${triple//-/_}
    say "$arch: $triple"
    env "CARGO_TARGET_${upper^^}_LINKER=$gcc" "CARGO_TARGET_${upper^^}_RUSTFLAGS=$flags" \
        "CC_$upper=$gcc" "AR_$upper=${prefix}ar" "CARGO_PROFILE_DUT_OPT_LEVEL=$level" \
        cargo build --locked --profile dut -p iotoll-dut --target "$triple" || die "cargo failed"
    mkdir -p "target/dut/$arch"
    cp "target/$triple/dut/iotoll-dut" "target/dut/$arch/iotoll-dut"
}

[ $# -gt 0 ] || set -- arm64 x86_64
for arch; do
    case $arch in
        arm64) build arm64 aarch64 arm64 aarch64-linux-gnu ;;
        x86_64) build x86_64 x86_64 amd64 x86_64-linux-gnu ;;
        arm) build arm armv7 armhf arm-linux-gnueabihf eabihf ;;
        *) say "no architecture $arch: use arm64, x86_64, arm"; exit 2 ;;
    esac
done
