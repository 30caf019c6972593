#!/bin/sh
# kernel.sh amd64|arm64|ppc64el VERSION[-cloud|-rt]|SUITE [DIRECTORY]: brings a kernel of Debian
# into a cache directory, and prints its path. VERSION is a series, such as 6.12, of which the last
# is taken, or a release, such as 6.12.43 or 6.1.0-57, also of the security suites.
#
# kernel.sh ARCH FROM..TO[-cloud|-rt]: prints, one a line, the series between two, or between two
# releases the releases, that Debian's mirrors have.
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
    amd64) machine_name=amd64 ;;
    arm64) machine_name=arm64 triple=aarch64-linux-gnu kernel_arch=arm64 ;;
    ppc64el) machine_name=powerpc64le triple=powerpc64le-linux-gnu kernel_arch=powerpc ;;
    *) echo "kernel.sh: allowed are amd64, arm64 and ppc64el" >&2; exit 2 ;;
esac
# Prints the series or releases of a range, each once, in order.
listed() (
    flavour=$machine_name range=$wanted
    case $range in
        *-cloud | *-rt) range=${wanted%-*} flavour=${wanted##*-}-$machine_name ;;
    esac
    from=${range%..*} to=${range#*..} digits='[0-9]+[.][0-9]+'
    for bound in "$from" "$to"; do
        echo "$bound" | grep -qE "^${digits}([.][0-9]+)?\$" ||
            refuse 2 "$wanted: a range is of two series such as 6.1..7.3, or of two releases such" \
                "as 6.12.41..6.12.57"
    done
    case $from,$to in
        *.*.*,*.*.*) digits="${digits}[.][0-9]+" ;;
        *.*.*,* | *,*.*.*) refuse 2 "$wanted: a range is of two series or of two releases" ;;
    esac
    for release in bullseye bookworm trixie; do
        codename=$release
        case $release in
            bullseye) role=oldoldstable ;;
            bookworm) role=oldstable ;;
            trixie) role=stable ;;
        esac
        (
            begin "$kept/list-$arch" "the list of Debian's kernels of $release" >&2
            trap 'rm -rf "$dir"' EXIT
            suite "$codename" "amd64,$arch"
            [ "$release" = bullseye ] || suite "$release-backports" "amd64,$arch"
            update amd64 "$arch" >&2
            apt-cache pkgnames linux-image- | grep -E "^linux-image-[0-9].*[0-9]-$flavour\$" |
                while read -r name; do
                    # Of a kernel in two packages the modules go before the binary does.
                    abi=${name#linux-image-}
                    apt-cache pkgnames "linux-binary-$abi" | grep -qx "linux-binary-$abi" &&
                        ! apt-cache pkgnames "linux-modules-$abi" | grep -qx "linux-modules-$abi" ||
                        echo "$abi"
                done
        ) || exit
    done | sed -nE "s/^($digits)([^0-9].*)?\$/\\1/p" | sort -Vu | while read -r version; do
        low=$(printf '%s\n%s\n' "$from" "$version" | sort -V | head -n 1)
        high=$(printf '%s\n%s\n' "$to" "$version" | sort -V | tail -n 1)
        if [ "$low,$high" = "$from,$to" ]; then echo "$version${wanted#"$range"}"; fi
    done
)
case $wanted in
    *..*)
        versions=$(listed)
        [ -n "$versions" ] || refuse 3 "Debian's mirrors have no kernel $wanted for $arch"
        echo "$versions"
        exit
        ;;
esac
# The releases that may have it, each with its place in the mirror.
case $wanted in
    5.10 | 5.10[.-]* | bullseye) releases=bullseye ;;
    6.1 | 6.1[.-]* | bookworm) releases=bookworm ;;
    6.12 | 6.12-* | trixie) releases=trixie ;;
    6.12.*) releases="trixie bookworm-backports" ;;
    6.1[6-9] | 6.1[6-9][.-]* | 7.*) releases=trixie-backports ;;
    trixie-backports | bookworm-backports | sid) releases=$wanted ;;
    *)
        refuse 2 "Debian's kernel $wanted: there are 5.10, 6.1, 6.12, 6.16 to 6.18, 7.2, 7.3," \
            "releases of them such as 6.12.43, each with -cloud or -rt, and names of suites"
        ;;
esac
begin "${3:-$kept/kernel-$arch-$wanted}" "Debian's kernel $wanted for $arch"

depends() { # PACKAGE=VERSION PATTERN: the dependencies that match
    apt-cache show "$1" | sed -n 's/^Depends: //p' | tr ',|' '\n' | sed 's/^ *//; s/ .*//' |
        grep -E "$2" | head -1
}

# The newest image of this release: what its package for the newest depends on, or of those of a
# number the last.
image() {
    case $wanted in
        [0-9]*) ;;
        *) depends "linux-image-$machine_name:$arch" '^linux-image-[0-9]'; return ;;
    esac
    flavour=$machine_name number=$wanted
    case $wanted in
        *-cloud | *-rt) number=${wanted%-*} flavour=${wanted##*-}-$machine_name ;;
        *-16k | *-64k) number=${wanted%-*} flavour=$machine_name-${wanted##*-} ;;
    esac
    number=$(echo "$number" | sed 's/[.+]/[&]/g')
    apt-cache pkgnames linux-image- |
        grep -E "^linux-image-$number([.][0-9]+)*(-[0-9]+)?([+][^-]*)?-$flavour\$" |
        sort -V | tail -1
}

name=
unread=
for release in $releases; do
    codename=${release%-backports}
    case $codename in
        bullseye) role=oldoldstable ;;
        bookworm) role=oldstable ;;
        trixie) role=stable ;;
        sid) role=unstable ;;
    esac
    : >"$apt/suites"
    suite "$codename" "amd64,$arch"
    [ "$release" = "$codename" ] || suite "$release" "amd64,$arch"
    update amd64 "$arch"
    name=$(image)
    [ -z "$name" ] || break
    # Releases between those that the suite has are in its security suite alone.
    case $wanted,$release in
        *.*.*,*-backports | *.*.*,sid) ;;
        *.*.*,*)
            suite "$codename-security" "amd64,$arch"
            update amd64 "$arch" || { unread="$unread $codename-security" && continue; }
            name=$(image)
            [ -z "$name" ] || break
            ;;
    esac
done
[ -n "$name" ] ||
    refuse 3 "$releases: no kernel $wanted for $arch${unread:+ (not read, see above:$unread)}"
version=$(apt-cache madison "$name:$arch" | awk '{ print $3; exit }')
abi=${name#linux-image-}
# Since 7.x the image package is empty, and binary and modules are packages of their own.
kernels=$name:$arch=$version
if apt-cache show "linux-binary-$abi:$arch" >"$apt/shown" 2>&1 && [ -s "$apt/shown" ]; then
    if ! apt-cache show "linux-modules-$abi:$arch" >"$apt/shown" 2>&1 || [ ! -s "$apt/shown" ]; then
        refuse 3 "$release has kernel $abi for $arch, and no modules of it any more"
    fi
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
unshare --map-root-user --mount sh -ec "$devices"'
    mount --rbind /proc "$1/proc"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" /usr/bin/make -s \
        -C "/usr/src/linux-headers-$2" M=/driver ARCH="$3" CROSS_COMPILE="$4-" modules
' sh "$build" "$abi" "$kernel_arch" "$triple" >&2
mkdir "$dir/drivers"
cp "$build"/driver/*.ko "$dir/drivers/"
rm -rf "$build"
finish
