#!/bin/sh
# module.sh VERSION SOURCES OUT: builds a kernel module out of the tree, for Debian's kernel VERSION
# of amd64 that kernel.sh has brought. SOURCES has a Kbuild, and OUT gets the modules.
#
# It is built by Debian's own compiler against Debian's headers, in a tree of their own that is
# entered by chroot in a user namespace: neither root nor an installation is needed. Some 100 MB are
# downloaded once for each kernel.
set -eu
# shellcheck source=tools/guest/apt.sh
. "$(dirname "$0")/apt.sh"
wanted=$1 sources=$(realpath "$2") out=$(realpath "$3")
kernel=$(sh "$(dirname "$0")/kernel.sh" amd64 "$wanted")
abi=$(ls "$kernel/kernel/lib/modules")
case $wanted in
    6.12 | 7.*) ;;
    *) refuse 2 "modules are built for 6.12 and 7.*, not for $wanted" ;;
esac

# The tree, which is begun once and kept.
brought() (
    argument_1=$wanted argument_2=$sources argument_3=$out
    begin "$kept/build-amd64-$abi" "Debian's compiler and headers for $abi"
    : >"$apt/suites"
    suite "$codename" amd64
    [ "$wanted" = 6.12 ] || suite "$codename-backports" amd64
    update amd64
    merged "$dir"
    headers=linux-headers-$abi
    version=$(apt-cache madison "$headers" | awk '{ print $3; exit }')
    [ -n "$version" ] || refuse 3 "Debian's mirror has no headers for $abi any more"
    depends() {
        apt-cache show "$headers=$version" | sed -n 's/^Depends: //p' | tr ',|' '\n' |
            sed 's/^ *//; s/ .*//' | grep -E "$1" | head -1
    }
    get "$dir" make gcc dash coreutils sed grep findutils mawk bash tar diffutils perl-base \
        "$(depends '^linux-kbuild-')=$version"
    only "$dir" "$headers=$version" "$(depends '^linux-headers-.*-common$')=$version"
    [ -e "$dir/bin/sh" ] || ln -s dash "$dir/bin/sh"
    [ -e "$dir/usr/bin/awk" ] || ln -s mawk "$dir/usr/bin/awk"
    mkdir -p "$dir/driver" "$dir/dev" "$dir/proc" "$dir/tmp"
    finish
)
build=$(brought)
# shellcheck disable=SC2016 # for the inner shell
unshare --map-root-user --mount sh -ec "$devices"'
    mount --rbind /proc "$1/proc"
    mount -t tmpfs tmpfs "$1/driver" && cp -R "$3"/. "$1/driver" && cd / &&
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" /usr/bin/make -s \
        -C "/usr/src/linux-headers-$2" M=/driver modules && cp "$1"/driver/*.ko "$4"
' sh "$build" "$abi" "$sources" "$out" >&2
