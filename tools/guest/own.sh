#!/bin/sh
# own.sh SERIES FRAGMENT OUT: builds a kernel of one's own for amd64 in the directory OUT, from
# Debian's kernel source package of the series 6.12: `make allnoconfig` with the options of a
# fragment, such as tools/guest/tiny.config. OUT is the build tree, for --modules, and a later run
# builds in it what changed. It prints the path of the image.
#
# It is built by Debian's own compiler, in a tree of its own that is entered by chroot in a user
# namespace: neither root nor an installation is needed. Some 250 MB are downloaded once.
set -eu
# shellcheck source=tools/guest/apt.sh
. "$(dirname "$0")/apt.sh"
series=$1 fragment=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
[ "$series" = 6.12 ] || refuse 2 "kernels are built of 6.12, not of $series"

# The compiler and the sources, which are begun once and kept.
brought() (
    argument_1=$series argument_2=$fragment argument_3=$out
    begin "$kept/source-amd64-$series" "Debian's compiler and kernel source $series"
    : >"$apt/suites"
    suite "$codename" amd64
    update amd64
    merged "$dir"
    get "$dir" make gcc dash coreutils sed grep findutils mawk bash tar xz-utils diffutils perl \
        flex bison bc libelf-dev lz4 kmod gzip
    only "$dir" "linux-source-$series"
    tar -xJf "$dir/usr/src/linux-source-$series.tar.xz" -C "$dir/usr/src"
    rm "$dir/usr/src/linux-source-$series.tar.xz"
    [ -e "$dir/bin/sh" ] || ln -s dash "$dir/bin/sh"
    [ -e "$dir/usr/bin/awk" ] || ln -s mawk "$dir/usr/bin/awk"
    mkdir -p "$dir/out" "$dir/dev" "$dir/proc" "$dir/tmp"
    finish
)
tree=$(brought)
cp "$fragment" "$out/fragment"
# shellcheck disable=SC2016 # for the inner shell
unshare --map-root-user --mount sh -ec "$devices"'
    mount --rbind /proc "$1/proc"
    mount --bind "$3" "$1/out"
    cd / && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin KBUILD_BUILD_TIMESTAMP=2020-01-01 \
        KBUILD_BUILD_USER=doorbell KBUILD_BUILD_HOST=doorbell chroot "$1" /bin/sh -ec "
        cd /usr/src/linux-source-$2
        make -s O=/out KCONFIG_ALLCONFIG=/out/fragment allnoconfig
        cd /out
        # An option that depends on another that is off is dropped without a word.
        grep ^CONFIG fragment | while read -r option; do
            grep -qx \"\$option\" .config || { echo \"dropped: \$option\"; exit 2; }
        done
        make -s -j$(nproc) bzImage modules"
' sh "$tree" "$series" "$out" >&2
echo "$out/arch/x86/boot/bzImage"
