# Rust's standard library for another architecture: from the toolchain itself, from rustup, or, where
# Rust is Debian's, from Debian's package for that architecture, which is unpacked under .cache and never
# installed. For bash; who reads this file has `say` and `die`, and is at the top of the repository.

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
