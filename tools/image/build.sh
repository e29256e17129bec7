#!/bin/bash
# Builds the container image: the same bytes each time from the same sources and Debian packages.
#
#   tools/image/build.sh FILE.tar [OPTION...]     OPTION is for `buildah build`
#
# FILE.tar is an OCI archive, for `podman load`, `docker load` and `skopeo copy oci-archive:FILE.tar ...`;
# the digest of its manifest is printed. Needs buildah and mmdebstrap, root, and no daemon; the base is
# made of Debian's packages, as no registry need be in reach. All files bear the time of the last commit,
# or SOURCE_DATE_EPOCH. IMAGE_STORAGE is a folder for buildah's own files: some 8 GB (/var/tmp).
#
# A network with its own certificate authority: name its file in SSL_CERT_FILE. A patched QEMU that was
# built before on the same Debian: --volume ~/.cache/iotoll/qemu:/built-qemu:ro.
set -euo pipefail

die() { printf 'image: %s\n' "$*" >&2; exit 4; }

[ $# -ge 1 ] || die "usage: tools/image/build.sh FILE.tar [OPTION...]"
file=$(realpath "$1")
shift
cd "$(dirname "$0")/../.."
for name in buildah mmdebstrap; do
    command -v "$name" >/dev/null || die "no $name: apt-get install $name"
done
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

work=$(mktemp -d "${IMAGE_STORAGE:-/var/tmp}/iotoll-image-XXXXXX")
trap 'rm -rf "$work"' EXIT
image() { buildah --root "$work/root" --runroot "$work/run" --storage-driver vfs "$@"; }

mkdir "$work/base"
mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$work/base/base.tar"
printf 'FROM scratch\nADD base.tar /\n' >"$work/base/Containerfile"
image build --quiet --timestamp "$SOURCE_DATE_EPOCH" --tag base "$work/base" >/dev/null
rm "$work/base/base.tar"

# Not as a build argument, which would stay in the image's history.
[ -z "${SSL_CERT_FILE:-}" ] || set -- --volume "$SSL_CERT_FILE:/built-ca.pem:ro" "$@"
image build --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" --build-arg BASE=localhost/base \
    --pull=never --file tools/image/Containerfile --tag iotoll "$@" . >&2
image push --quiet --digestfile "$work/digest" iotoll "oci-archive:$file:iotoll"
cat "$work/digest"
echo
