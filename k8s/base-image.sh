#!/usr/bin/env bash
# Makes debian:trixie-slim from Debian's packages, for machines that reach them and no registry.
# Needs root, debootstrap and a Docker daemon. Certificates that this machine trusts beyond
# Debian's own (a company's proxy, say) are trusted in the image too.
set -euo pipefail
image=${1:-debian:trixie-slim}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase trixie "$root" http://deb.debian.org/debian
mkdir -p "$root/usr/local/share/ca-certificates"
find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates/" \;
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/*
tar --directory "$root" --create . | docker import - "$image"
