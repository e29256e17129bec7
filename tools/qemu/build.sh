#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the QEMU of the exact boards: Debian's source, our patches, only the boards' devices.
#
#   tools/qemu/build.sh [TARGET]...     builds it, unless it is there; prints its folder
#   tools/qemu/build.sh --print         prints the folder, built or not
#
# TARGET is aarch64 or x86_64 (default: both). Both at once take little longer than one of them.
#
# The folder is qemu/DIGEST in iotoll's cache (IOTOLL_CACHE, or iotoll in XDG_CACHE_HOME or ~/.cache).
# DIGEST stands for the source, the patches, the devices, the build's tools and this script. Progress
# goes to standard error, compilers' output to DIGEST.log. Exit status 4: it cannot be built here; the
# last line says why.
#
# The source comes from the Debian archives that apt knows on this machine. QEMU_SOURCE=FILE takes
# a file instead; either must have the sha256 below.
set -euo pipefail

readonly VERSION=10.0.2
readonly SOURCE=qemu_$VERSION+ds.orig.tar.xz
readonly SHA256=0901da33844a331bf8b3602b9c1fbd178e60b737c8e3ade678255bd090c9b9f1
readonly TARGETS=(aarch64 x86_64)
# What is compiled without optimisation, as no boot waits for it: QEMU's own interface, devices and
# formats that boards do not have, and instructions that they do not execute (SVE, SME, M profile, and
# those of 32 bits).
readonly COLD='audio|authz|backends|blockdev|crypto|dump|gdbstub|migration|monitor|nbd|net|qapi|qobject'\
'|stats|trace|ui|block_(mirror|nbd|nvme|qcow2)|hw_(acpi|display|smbios)'\
'|target_arm_tcg_(iwmmxt|m|mve|neon|sme|sve)_helper|target_arm_tcg_translate(-(m-nocp|mve|neon|sme|sve|vfp))?\.'

here=$(cd "$(dirname "$0")" && pwd)
cache=${IOTOLL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/iotoll}/qemu

say() { printf 'qemu: %s\n' "$*" >&2; }
# The reason also goes to the log, where `iotoll doctor` finds it.
die() {
    say "$*"
    [ -z "${log:-}" ] || say "$*" 2>>"$log"
    exit 4
}

# Names change no digest, contents do.
digest() {
    local file
    {
        echo "$SHA256"
        for file in "$here"/patches/*.patch "$here"/devices/*.mak "$here"/requirements.txt \
            "$here"/build.sh; do
            sha256sum <"$file"
        done
    } | sha256sum | cut -c 1-16
}

# ---------------------------------------------------------------- what the build needs

needs() {
    local name missing=() free
    local -A packages=([ninja]=ninja-build [python3]=python3-venv [xz]=xz-utils)
    for name in gcc git ninja pkg-config python3 tar xz; do
        command -v "$name" >/dev/null || missing+=("${packages[$name]:-$name}")
    done
    if command -v pkg-config >/dev/null; then
        for name in glib-2.0 gmodule-2.0; do
            pkg-config --exists "$name" || missing+=("libglib2.0-dev")
        done
    fi
    echo '#include <libfdt.h>' | gcc -E - >/dev/null 2>&1 || missing+=("libfdt-dev")
    [ ${#missing[@]} = 0 ] ||
        die "not built: missing (apt-get install): $(printf '%s\n' "${missing[@]}" | sort -u | tr '\n' ' ')"
    free=$(df --output=avail -k "$cache" | tail -n 1)
    [ "$free" -gt 1500000 ] || die "not built: $cache needs 1.5 GB, $((free / 1024)) MB are free"
}

# ---------------------------------------------------------------- steps

# Runs a step with its output in the log; a failure is one line and the log's end.
step() {
    local what=$1 status
    shift
    say "$what"
    # Not "... || die": bash ignores -e in what stands before ||.
    set +e
    (set -e; "$@") >>"$log" 2>&1
    status=$?
    set -e
    [ $status = 0 ] && return
    tail -n 15 "$log" >&2
    die "not built: $what failed (whole log: $log)"
}

right_source() { [ -f "$1" ] && echo "$SHA256  $1" | sha256sum --check --status; }

# The archives are those of apt's own configuration, and apt downloads and checks the file.
download() {
    local archive helper=/usr/lib/apt/apt-helper
    [ -x "$helper" ] || { echo "no apt here: name the file $SOURCE as QEMU_SOURCE"; return 1; }
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u >"$work/archives"
    while read -r archive; do
        rm -f "$work/source"
        "$helper" -o APT::Sandbox::User=root download-file \
            "${archive%/}/pool/main/q/qemu/${SOURCE/+/%2b}" "$work/source" "SHA256:$SHA256" || continue
        right_source "$work/source" || continue
        mv "$work/source" "$cache/$SOURCE"
        return
    done <"$work/archives"
    echo "none of apt's archives has $SOURCE: no network, or name the file as QEMU_SOURCE"
    return 1
}

# A file that the user names, checked before anything else; else the one that was downloaded.
name_source() {
    source=${QEMU_SOURCE:-$cache/$SOURCE}
    [ -n "${QEMU_SOURCE:-}" ] || return 0
    [ -f "$source" ] || die "not built: QEMU_SOURCE: there is no file $source"
    right_source "$source" || die "not built: QEMU_SOURCE: the sha256 of $source is not $SHA256"
}

unpack() {
    mkdir "$work/source.d"
    tar --extract --xz --no-same-owner --strip-components 1 --directory "$work/source.d" \
        --file "$source"
    cd "$work/source.d"
    local patch target
    for patch in "$here"/patches/*.patch; do
        # No repository around it may decide what the patch applies to.
        GIT_CEILING_DIRECTORIES=$work git apply --verbose "$patch"
    done
    for target in "${TARGETS[@]}"; do
        cp "$here/devices/$target.mak" "configs/devices/$target-softmmu/iotoll.mak"
    done
}

tools() {
    python3 -m venv "$work/tools"
    "$work/tools/bin/pip" --disable-pip-version-check install --no-deps --require-hashes \
        --requirement "$here/requirements.txt"
}

configure() {
    mkdir "$work/build"
    cd "$work/build"
    # Without ccache: who builds it once has no use for it, and it makes that a third longer.
    ../source.d/configure --python="$work/tools/bin/python3" --cc=gcc \
        --target-list="$(printf '%s-softmmu,' "${wanted[@]}")" \
        --without-default-features --without-default-devices \
        --with-devices-aarch64=iotoll --with-devices-x86_64=iotoll \
        --enable-system --enable-tcg --enable-plugins --enable-fdt=system \
        --disable-tools --disable-guest-agent --disable-docs --disable-debug-info \
        --enable-trace-backends=nop \
        --disable-install-blobs --firmwarepath=/usr/share/qemu:/usr/share/seabios \
        --with-pkgversion="iotoll $digest"
    sed -i -E "/^build [^:]*\.p\/(meson-generated_\.\._)?($COLD)[^:]*\.o:/,/^\$/ s/ -O2 / -O0 /" build.ninja
    precompile libqemuutil.a.p/util_cutils.c.o libqemuutil.a.p/qobject_qbool.c.o
}

# precompile OBJECT...: Every file begins with this header, and some thousand take longer to read it than
# for the rest. It is compiled with the flags of each OBJECT; files that have others read it as it is.
precompile() {
    local header=include/qemu/osdep.h object flags
    ninja config-poison.h # it is generated, and the header includes it
    mkdir "../source.d/$header.gch"
    for object; do
        flags=$(ninja -t commands "$object" | tail -n 1 | sed -E 's/ -M[QF] \S+| -MD\b| -o \S+ -c \S+$//g')
        $flags -x c-header "../source.d/$header" -o "../source.d/$header.gch/${object##*/}"
    done
}

compile() { ninja -C "$work/build" "${wanted[@]/#/qemu-system-}"; }

collect() {
    local target
    mkdir -p "$work/result/bin" "$work/result/include"
    for target in "${wanted[@]}"; do
        cp "$work/build/qemu-system-$target" "$work/result/bin/qemu-system-$target-exact"
        "$work/result/bin/qemu-system-$target-exact" --version
    done
    strip "$work"/result/bin/*
    cp "$work/source.d/include/qemu/qemu-plugin.h" "$work/result/include/"
    cp "$here/LICENSE" "$work/result/"
    # Beside that of the other target, if it was built before; each program appears whole.
    mkdir -p "$result/bin"
    cp -r "$work/result/include" "$work/result/LICENSE" "$result/"
    mv "$work"/result/bin/* "$result/bin/"
}

build() {
    name_source
    needs
    work=$(mktemp -d "$cache/.work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    export MAKEFLAGS= TMPDIR=$work
    right_source "$source" || step "download $SOURCE (38 MB)" download
    step "unpack and patch" unpack
    step "build's own tools (meson)" tools
    step "configure" configure
    step "compile ${wanted[*]} (some minutes; log: $log)" compile
    step "install" collect
}

# Those of the targets that are not built yet.
missing_targets() {
    local target
    wanted=()
    for target; do
        [ -x "$result/bin/qemu-system-$target-exact" ] || wanted+=("$target")
    done
}

main() {
    local target
    digest=$(digest)
    result=$cache/$digest
    [ "${1:-}" != --print ] || { echo "$result"; return; }
    for target; do
        [[ " ${TARGETS[*]} " = *" $target "* ]] ||
            { say "usage: tools/qemu/build.sh [--print | ${TARGETS[*]}]"; exit 2; }
    done
    [ $# -gt 0 ] || set -- "${TARGETS[@]}"
    mkdir -p "$cache" || die "not built: $cache cannot be made"
    missing_targets "$@"
    if [ ${#wanted[@]} -gt 0 ]; then
        exec 9>"$cache/.lock"
        flock --nonblock 9 || { say "another build is at work: waiting for it"; flock 9; }
        log=$cache/$digest.log
        missing_targets "$@"
        [ ${#wanted[@]} = 0 ] || { : >"$log"; build; }
    fi
    echo "$result"
}

main "$@"
