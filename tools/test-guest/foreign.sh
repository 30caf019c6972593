#!/bin/sh
# foreign.sh arm64|ppc64el [DIRECTORY]: what a guest of another architecture needs, into a cache
# directory; prints its path.
#
#   qemu/    QEMU 11.1 for that architecture, with its libraries (as fetch.sh has it)
#   guest/   that architecture's busybox, iperf3, ethtool, iproute2, ping
#   kernel/  the modules of Debian's kernel
#   vmlinuz  that kernel
#   drivers/ drivers that Debian does not build, from Debian's kernel source package, unchanged
#
# arm64 has the kernel of Debian 13's backports: it knows PCI devices that carry a device tree
# (PCI_DYNAMIC_OF_NODES's platform, rp1_pci). ppc64el has Debian 13's own.
#
# The drivers are built by Debian 13's cross compiler in a tree of its own, entered by chroot in a
# user namespace: neither root nor an installation is needed. Some 500 MB are downloaded once; 500
# MB stay.
set -eu
# shellcheck source=tools/test-guest/apt.sh
. "$(dirname "$0")/apt.sh"
arch=$1
case $arch in
    arm64)
        release=trixie-backports emulator=qemu-system-arm triple=aarch64-linux-gnu
        kernel_arch=arm64 image=linux-image-arm64
        ;;
    ppc64el)
        release=trixie emulator=qemu-system-ppc triple=powerpc64le-linux-gnu
        kernel_arch=powerpc image=linux-image-powerpc64le
        ;;
    *) echo "foreign.sh: allowed are arm64 and ppc64el" >&2; exit 2 ;;
esac
begin "${2:-$kept/guest-$arch}" "QEMU 11.1, a kernel and a cross compiler for $arch"
suite trixie "amd64,$arch"
# Only what is used of the backports: the emulator, and for some the kernel.
backports=amd64,$arch
[ "$release" != trixie ] || backports=amd64
suite trixie-backports "$backports"
update amd64 "$arch"

depends() { # PACKAGE=VERSION PATTERN: the dependency that matches
    apt-cache show "$1" | sed -n 's/^Depends: //p' | tr ',' '\n' | sed 's/^ *//; s/ .*//' |
        grep -E "$2" | head -1
}
merged "$dir/qemu"
get "$dir/qemu" -t trixie-backports "$emulator"
merged "$dir/guest"
get "$dir/guest" "busybox-static:$arch" "iperf3:$arch" "ethtool:$arch" "iproute2:$arch" \
    "iputils-ping:$arch"

# The kernel: since 7.x the image package is empty, and binary and modules are packages of their
# own.
version=$(apt-cache madison "$image:$arch" | sed "s, $role\(-backports\)\?/, $codename\1/," |
    awk -v r="$release/main" '$6 == r { print $3; exit }')
name=$(depends "$image:$arch=$version" '^linux-image-[0-9]')
abi=${name#linux-image-}
case $release in
    trixie) kernels="$name:$arch=$version" ;;
    *) kernels="linux-binary-$abi:$arch=$version linux-modules-$abi:$arch=$version" ;;
esac
merged "$dir/kernel"
# shellcheck disable=SC2086 # words
only "$dir/kernel" $kernels
# In /boot, or since 7.3 beside the modules.
mv "$(find "$dir/kernel" -type f -name "vmlinu[xz]*" | head -1)" "$dir/vmlinuz"

# Drivers, in a tree where Debian's headers are where they say they are.
build=$dir/build
merged "$build"
series=$(echo "$abi" | cut -d. -f1-2)
get "$build" make gcc-$triple dash coreutils sed grep findutils mawk bash tar xz-utils diffutils \
    perl-base "linux-kbuild-${abi%-*}=$version"
common="linux-headers-${abi%-*}-common=$version"
only "$build" "linux-headers-$abi:$arch=$version" "$common"
[ -e "$build/bin/sh" ] || ln -s dash "$build/bin/sh"
[ -e "$build/usr/bin/awk" ] || ln -s mawk "$build/usr/bin/awk"
only "$build" "linux-source-$series=$version"
mkdir -p "$build/driver"
case $arch in
    arm64)
        # The DMA engine's driver is there for one symbol, which the Ethernet driver uses in another
        # mode.
        drivers=linux-source-$series/drivers
        from="$drivers/net/ethernet/xilinx $drivers/dma/xilinx $drivers/dma/dmaengine.h"
        cat >"$build/driver/Kbuild" <<END
obj-m := xilinx_emac.o xilinx_dma.o
xilinx_emac-objs := xilinx_axienet_main.o xilinx_axienet_mdio.o
END
        axienet=drivers/net/ethernet/xilinx/xilinx_axienet
        files="$axienet.h ${axienet}_main.c ${axienet}_mdio.c"
        files="$files drivers/dma/xilinx/xilinx_dma.c drivers/dma/dmaengine.h"
        ;;
    ppc64el)
        from="linux-source-$series/drivers/net/ethernet/ibm"
        echo "obj-m := ibmvnic.o" >"$build/driver/Kbuild"
        files="drivers/net/ethernet/ibm/ibmvnic.c drivers/net/ethernet/ibm/ibmvnic.h"
        ;;
esac
# shellcheck disable=SC2086 # words
tar -xJf "$build/usr/src/linux-source-$series.tar.xz" -C "$build/usr/src" $from
for f in $files; do
    # As the source has them, but for where they lie.
    cp "$build/usr/src/linux-source-$series/$f" "$build/driver/"
done
# xilinx_dma.c includes "../dmaengine.h".
[ ! -e "$build/driver/dmaengine.h" ] || cp "$build/driver/dmaengine.h" "$build/dmaengine.h"
say "building drivers with Debian's cross compiler"
mkdir -p "$build/dev" "$build/proc" "$build/tmp"
# shellcheck disable=SC2016 # for the inner shell
unshare --map-root-user --mount sh -c '
    mount --rbind /dev "$1/dev" && mount --rbind /proc "$1/proc" &&
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" /usr/bin/make -s \
        -C "/usr/src/linux-headers-$2" M=/driver ARCH="$3" CROSS_COMPILE="$4-" modules
' sh "$build" "$abi" "$kernel_arch" "$triple" >&2
mkdir "$dir/drivers"
cp "$build"/driver/*.ko "$dir/drivers/"
rm -rf "$build"
finish
