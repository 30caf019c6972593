#!/bin/sh
# machine.sh amd64|arm64|ppc64el [DIRECTORY]: brings what runs a guest of that architecture into a
# cache directory, and prints its path.
#
#   qemu/   QEMU 11.1 (trixie-backports; Debian's first one with `vfio-user-pci`), and iperf3 for
#           the host's end, with all libraries that they need: they run on an older Debian too,
#           without chroot and without root
#   guest/  what the guest's initramfs is made of: busybox, iperf3, ethtool, iproute2, ping
#
# Some 60 MB are downloaded once; the directory takes 250 MB. How, says apt.sh.
set -eu
# shellcheck source=tools/guest/apt.sh
. "$(dirname "$0")/apt.sh"
arch=$1
case $arch in
    amd64) emulator=qemu-system-x86 ;;
    arm64) emulator=qemu-system-arm ;;
    ppc64el) emulator=qemu-system-ppc ;;
    *) echo "machine.sh: allowed are amd64, arm64 and ppc64el" >&2; exit 2 ;;
esac
begin "${2:-$kept/machine-$arch}" "QEMU 11.1 and the programs of a guest for $arch"
suite trixie "amd64,$arch"
suite trixie-backports amd64
update amd64 "$arch"

merged "$dir/qemu"
get "$dir/qemu" -t trixie-backports "$emulator" iperf3
merged "$dir/guest"
get "$dir/guest" "busybox-static:$arch" "iperf3:$arch" "ethtool:$arch" "iproute2:$arch" \
    "iputils-ping:$arch"
finish
