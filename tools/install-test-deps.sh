#!/bin/sh
# Installs what the tests need beyond Rust, as Debian packages, and only what is
# missing. It says what it does. Where it cannot (no root, no apt-get), it lists
# what is missing.
#
# Exit: 0 all there, 3 something is missing (the list is on stderr).
set -eu

# package  a program, or a file, that comes with it
needs='
qemu-system-x86 qemu-system-x86_64
qemu-system-misc qemu-system-microblazeel
qemu-system-ppc qemu-system-ppc64
gcc gcc
libc6-dev /usr/include/stdio.h
make make
tcpdump tcpdump
tshark tshark
iperf3 iperf3
openvswitch-common ovsdb-tool
openvswitch-switch ovs-vswitchd
ethtool ethtool
iproute2 ip
iputils-ping ping
valgrind valgrind
python3 python3
xz-utils xz
util-linux unshare
nodejs node
python3-pip pip3
npm npm
chromium chromium
openssl openssl
fonts-dejavu-core /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
'

# ip, tcpdump and ethtool may be where only root's PATH looks.
PATH=$PATH:/usr/sbin:/sbin

missing() {
    echo "$needs" | while read -r package thing; do
        [ -z "$package" ] || command -v "$thing" >/dev/null || [ -f "$thing" ] || echo "$package"
    done
}

packages=$(missing | tr '\n' ' ')
[ -n "$packages" ] || exit 0

if ! command -v apt-get >/dev/null; then
    why="there is no apt-get here"
elif [ "$(id -u)" != 0 ]; then
    why="only root can install them"
else
    echo "install-test-deps: apt-get install $packages" >&2
    export DEBIAN_FRONTEND=noninteractive
    # tshark asks whether everybody may capture; the answer to nobody is no.
    apt-get update -qq >&2 || why="apt-get update failed"
    # shellcheck disable=SC2086 # one word a package
    apt-get install -y -qq --no-install-recommends $packages >&2 || why="apt-get install failed"
fi

left=$(missing | tr '\n' ' ')
[ -n "$left" ] || exit 0
echo "install-test-deps: missing: $left(${why:-apt-get did not bring them})" >&2
exit 3
