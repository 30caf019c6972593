#!/bin/sh
# kernel.sh amd64|arm64|ppc64el VERSION|SUITE [DIRECTORY]: brings a kernel of Debian into a cache
# directory, and prints its path.
#
#   vmlinuz  the kernel
#   kernel/  its modules
#   drivers/ drivers that Debian does not build, from its kernel source package, unchanged:
#            xilinx_emac (arm64), ibmvnic (ppc64el)
#
# The drivers are built by the release's own cross compiler in a tree of its own, entered by chroot
# in a user namespace: neither root nor an installation is needed. Some 100 MB are downloaded once,
# with a compiler 400 MB.
set -eu
# shellcheck source=tools/guest/apt.sh
. "$(dirname "$0")/apt.sh"
arch=$1 wanted=$2
case $arch in
    amd64) image=linux-image-amd64 ;;
    arm64) image=linux-image-arm64 triple=aarch64-linux-gnu kernel_arch=arm64 ;;
    ppc64el) image=linux-image-powerpc64le triple=powerpc64le-linux-gnu kernel_arch=powerpc ;;
    *) echo "kernel.sh: allowed are amd64, arm64 and ppc64el" >&2; exit 2 ;;
esac
case $wanted in
    5.10 | bullseye) release=bullseye ;;
    6.1 | bookworm) release=bookworm ;;
    6.12 | trixie) release=trixie ;;
    7.* | trixie-backports) release=trixie-backports ;;
    sid) release=sid ;;
    *)
        refuse 2 "Debian's kernel $wanted: there are 5.10, 6.1, 6.12, 7.3, and names of suites"
        ;;
esac
codename=${release%-backports}
case $codename in
    bullseye) role=oldoldstable ;;
    bookworm) role=oldstable ;;
    trixie) role=stable ;;
    sid) role=unstable ;;
esac
begin "${3:-$kept/kernel-$arch-$wanted}" "Debian's kernel $wanted for $arch"
suite "$codename" "amd64,$arch"
[ "$release" = "$codename" ] || suite "$release" "amd64,$arch"
update amd64 "$arch"

depends() { # PACKAGE=VERSION PATTERN: the dependencies that match
    apt-cache show "$1" | sed -n 's/^Depends: //p' | tr ',|' '\n' | sed 's/^ *//; s/ .*//' |
        grep -E "$2" | head -1
}

version=$(apt-cache madison "$image:$arch" | sed "s, $role\(-backports\)\?/, $codename\1/," |
    awk -v r="$release/main" '$6 == r { print $3; exit }')
if [ -z "$version" ]; then
    refuse 3 "$release has no kernel for $arch (package $image)"
fi
name=$(depends "$image:$arch=$version" '^linux-image-[0-9]')
abi=${name#linux-image-}
case $wanted in
    [0-9]*)
        case $abi in
            "$wanted"[.-]* | "$wanted") ;;
            *) refuse 3 "$release has kernel $abi, and no $wanted" ;;
        esac
        ;;
esac
# Since 7.x the image package is empty, and binary and modules are packages of their own.
kernels=$name:$arch=$version
if apt-cache show "linux-binary-$abi:$arch" >"$apt/shown" 2>&1 && [ -s "$apt/shown" ]; then
    kernels="linux-binary-$abi:$arch=$version linux-modules-$abi:$arch=$version"
fi
merged "$dir/kernel"
# The image's dependencies build initramfs images, which is done otherwise here: the packages alone.
# shellcheck disable=SC2086 # words
only "$dir/kernel" $kernels
# In /boot, or since 7.3 beside the modules.
mv "$(find "$dir/kernel" -type f -name "vmlinu[xz]*" | head -1)" "$dir/vmlinuz"

# What Debian does not build. The DMA engine's driver is there for one symbol, which the Ethernet
# driver uses in another mode.
case $arch in
    amd64) finish; exit ;;
    arm64)
        axienet=drivers/net/ethernet/xilinx/xilinx_axienet
        files="$axienet.h ${axienet}_main.c ${axienet}_mdio.c"
        files="$files drivers/dma/xilinx/xilinx_dma.c drivers/dma/dmaengine.h"
        recipe='obj-m := xilinx_emac.o xilinx_dma.o
xilinx_emac-objs := xilinx_axienet_main.o xilinx_axienet_mdio.o'
        ;;
    ppc64el)
        files="drivers/net/ethernet/ibm/ibmvnic.c drivers/net/ethernet/ibm/ibmvnic.h"
        recipe='obj-m := ibmvnic.o'
        ;;
esac
# In a tree where Debian's headers are where they say they are.
build=$dir/build
merged "$build"
series=$(echo "$abi" | cut -d. -f1-2)
headers=linux-headers-$abi:$arch=$version
get "$build" make "gcc-$triple" dash coreutils sed grep findutils mawk bash tar xz-utils diffutils \
    perl-base "$(depends "$headers" '^linux-kbuild-')=$version"
only "$build" "$headers" "$(depends "$headers" '^linux-headers-.*-common$')=$version"
[ -e "$build/bin/sh" ] || ln -s dash "$build/bin/sh"
[ -e "$build/usr/bin/awk" ] || ln -s mawk "$build/usr/bin/awk"
only "$build" "linux-source-$series=$version"
mkdir -p "$build/driver" "$build/dev" "$build/proc" "$build/tmp"
echo "$recipe" >"$build/driver/Kbuild"
for f in $files; do
    # As the source has them, but for where they lie.
    tar -xJf "$build/usr/src/linux-source-$series.tar.xz" -C "$build/usr/src" \
        "linux-source-$series/$f"
    cp "$build/usr/src/linux-source-$series/$f" "$build/driver/"
done
# xilinx_dma.c includes "../dmaengine.h".
[ ! -e "$build/driver/dmaengine.h" ] || cp "$build/driver/dmaengine.h" "$build/dmaengine.h"
say "building drivers with Debian's cross compiler"
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
