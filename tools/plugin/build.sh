#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the plugin that records which instructions a board executes; prints its path.
#
# The header is that of the QEMU that tools/qemu builds, or QEMU_PLUGIN_HEADER's. The result is
# plugin/DIGEST/libiotoll-record.so in iotoll's cache (IOTOLL_CACHE, or iotoll in XDG_CACHE_HOME or
# ~/.cache); DIGEST stands for the header, the sources, the compiler and this script. Exit status 4:
# it cannot be built here; the last line says why.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${IOTOLL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/iotoll}

die() { printf 'plugin: not built: %s\n' "$*" >&2; exit 4; }

name_header() {
    header=${QEMU_PLUGIN_HEADER:-}
    [ -n "$header" ] || header=$("$here/../qemu/build.sh" --print)/include/qemu-plugin.h
    [ -f "$header" ] || die "there is no $header: tools/qemu/build.sh builds the QEMU that it is part of"
}

main() {
    local digest folder
    for tool in gcc pkg-config; do
        command -v "$tool" >/dev/null || die "$tool is not installed: apt-get install $tool"
    done
    pkg-config --exists glib-2.0 || die "glib is not installed: apt-get install libglib2.0-dev"
    name_header
    digest=$({ gcc --version; sha256sum <"$header"; cat "$here"/*.[ch] "$here/build.sh"; } |
        sha256sum | cut -c 1-16)
    folder=$cache/plugin/$digest
    if ! [ -f "$folder/libiotoll-record.so" ]; then
        mkdir -p "$cache/plugin"
        work=$(mktemp -d "$cache/plugin/.work.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        mkdir "$work/include" "$work/result"
        cp "$header" "$work/include/qemu-plugin.h"
        # shellcheck disable=SC2046 # options are words
        gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden \
            -I "$work/include" $(pkg-config --cflags glib-2.0) \
            -o "$work/result/libiotoll-record.so" "$here"/*.c \
            $(pkg-config --libs glib-2.0) >&2 || die "the compiler failed"
        # Another build may have been quicker.
        mv -T "$work/result" "$folder" 2>/dev/null || [ -f "$folder/libiotoll-record.so" ] ||
            die "$folder cannot be made"
    fi
    echo "$folder/libiotoll-record.so"
}

main
