#!/bin/bash
# Builds the static command for the device under test: target/dut/ARCH/iotoll-dut.
#
#   tools/build-dut.sh [arm64|x86_64|arm]...      (default: arm64 and x86_64)
#
# arm is 32-bit Armv7 with hard float, for ZedBoard: on request alone, since not every machine can get
# Rust's library for it.
#
# Rust's standard library for the other architecture comes from the toolchain itself, from rustup
# (musl), or, where Rust is Debian's, from Debian's package for that architecture, which is unpacked
# under .cache and never installed. The linker is Debian's cross compiler, as for arm64 kernels.
set -euo pipefail
cd "$(dirname "$0")/.."
unset CARGO_TARGET_DIR # an empty value would be an error, another one would hide the result

say() { printf 'build-dut: %s\n' "$*" >&2; }
die() { say "$*"; exit 4; }

# has_std TRIPLE: the toolchain on PATH has that target's standard library.
has_std() { compgen -G "$(rustc --print sysroot)/lib/rustlib/$1/lib/libstd-*.rlib" >/dev/null; }

# unpack_std ARCH TRIPLE PACKAGE FOLDER SUITE [SOURCE]: unpacks a standard library to FOLDER.new.
unpack_std() {
    rm -rf "$4.new" "$4.log"
    mkdir -p "$4.new"
    # As a tar stream: files that mmdebstrap makes without root belong to another user.
    mmdebstrap --quiet --variant=extract --architectures="$1" --include="$3" "$5" - ${6:+"$6"} \
        2>>"$4.log" | tar -C "$4.new" --strip-components=2 -x "./usr/lib/rustlib/$2" 2>>"$4.log"
}

# debian_std ARCH TRIPLE: prints a sysroot with Debian's standard library for ARCH.
debian_std() {
    local owner package version codename mirror folder
    owner=$(dpkg -S "$(readlink -f "$(command -v rustc)")" 2>/dev/null | cut -d : -f 1) || owner=
    [ -n "$owner" ] || die "no Rust standard library for $2: rustup target add ${2/-gnu/-musl}"
    package=libstd-rust${owner#rustc}-dev
    version=$(rustc --version | cut -d ' ' -f 2)
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    folder=.cache/rust-std/$codename-$version-$1
    if ! [ -d "$folder" ]; then
        say "unpacking Debian's $package for $1 (log: $folder.log)"
        # The second time without the security archive, whose index of a rare architecture may be out
        # of step for a while: from this machine's own mirror.
        mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
            awk -v codename="$codename" '$1 == codename && !found++ { print $2 }')
        unpack_std "$1" "$2" "$package" "$folder" "$codename" ||
            unpack_std "$1" "$2" "$package" "$folder" "$codename" \
                "deb $mirror $codename main" ||
            { tail -n 5 "$folder.log" >&2; die "could not get $package for $1"; }
        mv "$folder.new" "$folder"
    fi
    echo "$PWD/$folder"
}

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
