#!/usr/bin/env bash
# Makes debian:trixie-slim from Debian's packages, security updates included, for machines that
# reach them and no registry. Needs root, debootstrap and a Docker daemon. Certificates that this
# machine trusts beyond Debian's own (a company's proxy, say) are trusted in the image too.
set -euo pipefail
image=${1:-debian:trixie-slim}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase trixie "$root" "$mirror/debian"
cat > "$root/etc/apt/sources.list" <<END
deb $mirror/debian trixie main
deb $mirror/debian trixie-updates main
deb $mirror/debian-security trixie-security main
END
chroot "$root" apt-get update
DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get upgrade --yes
own=/usr/local/share/ca-certificates
if [ -d "$own" ]; then
    mkdir -p "$root$own"
    find "$own" -name '*.crt' -exec cp {} "$root$own/" \;
fi
rm -rf "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* \
    "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/*
tar --directory "$root" --create . | docker import - "$image"
