#!/bin/sh
# fetch.sh [DIRECTORY]: brings what a guest run needs into a cache directory, and prints its path.
#
#   qemu/   QEMU 11.1 (trixie-backports; Debian's first one with `vfio-user-pci`) with all libraries
#           that it needs, so that it runs on an older Debian too, without chroot and without root
#   guest/  what the guest's initramfs is made of: busybox, iperf3, ethtool, iproute2, ping, and the
#           modules of Debian 13's kernel
#   vmlinuz that kernel
#
# Some 150 MB are downloaded once; the directory takes 350 MB. How, says apt.sh.
set -eu
# shellcheck source=tools/test-guest/apt.sh
. "$(dirname "$0")/apt.sh"
begin "${1:-$kept/guest}" "QEMU 11.1 and a Debian 13 kernel"
suite trixie amd64
suite trixie-backports amd64
update amd64

merged "$dir/qemu"
get "$dir/qemu" -t trixie-backports qemu-system-x86
merged "$dir/guest"
get "$dir/guest" busybox-static iperf3 ethtool iproute2 iputils-ping
# The kernel's dependencies build initramfs images, which is done otherwise here: the image alone.
kernel=$(apt-cache depends linux-image-amd64 |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -1)
only "$dir/kernel" "$kernel"
mv "$dir"/kernel/boot/vmlinuz-* "$dir/vmlinuz"
finish
