#!/bin/sh
# fetch.sh [DIRECTORY]: brings what a guest run needs into a cache directory, and prints its path.
#
#   qemu/   QEMU 11.1 (trixie-backports; the first Debian one with `vfio-user-pci`) with all libraries
#           that it needs, so that it runs on an older Debian too, without chroot and without root
#   guest/  what the guest's initramfs is made of: busybox, iperf3, ethtool, iproute2, ping, and the
#           modules of Debian 13's kernel
#   vmlinuz that kernel
#
# apt-get resolves the dependencies against an empty system of its own in that directory, and verifies
# what it downloads; `dpkg -x` unpacks. Nothing is installed, and root is not needed. Some 150 MB are
# downloaded once; the directory takes 350 MB.
set -eu
umask 022
dir=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/doorbell/guest}
stamp=$dir/complete-1
if [ -e "$stamp" ]; then
    echo "$dir"
    exit 0
fi
say() { echo "test-guest: $*" >&2; }

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for program in apt-get dpkg-deb; do
    command -v "$program" >/dev/null || { say "missing: $program (a Debian system is needed)"; exit 3; }
done
[ -f "$keyring" ] || { say "missing: $keyring (package debian-archive-keyring)"; exit 3; }

say "fetching QEMU 11.1 and a Debian 13 kernel into $dir"
# Put together beside it, and then renamed: an interrupted run leaves nothing that looks complete.
final=$dir
mkdir -p "$(dirname "$final")"
dir=$(mktemp -d "$final.partial-XXXXXX")
trap 'rm -rf "$dir"' EXIT
apt=$dir/apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/etc/preferences.d" "$apt/etc/apt.conf.d"
: >"$apt/status"
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
for suite in trixie trixie-backports; do
    echo "deb [arch=amd64 signed-by=$keyring] $mirror $suite main"
done >"$apt/etc/sources.list"

# An apt of its own: nothing of the machine's is read or changed.
cat >"$apt/etc/apt.conf" <<END
Dir::Etc "$apt/etc";
Dir::Etc::sourcelist "$apt/etc/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::trustedparts "/usr/share/keyrings";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Dpkg::Use-Pty "0";
END
APT_CONFIG=$apt/etc/apt.conf
export APT_CONFIG
apt-get -qq update >&2

# get DIRECTORY PACKAGE...: downloads the packages with all they depend on, and unpacks them there.
get() {
    into=$1
    shift
    rm -f "$apt"/archives/*.deb
    apt-get -qq -y --download-only install "$@" >&2
    mkdir -p "$into"
    for deb in "$apt"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$into" --no-same-owner --keep-directory-symlink
    done
}
# Merged /usr: what packages put into /lib lands in /usr/lib.
merged() {
    mkdir -p "$1/usr/bin" "$1/usr/lib" "$1/usr/sbin" "$1/usr/lib64"
    for d in bin lib sbin lib64; do ln -s "usr/$d" "$1/$d"; done
}
merged "$dir/qemu"
get "$dir/qemu" -t trixie-backports qemu-system-x86
merged "$dir/guest"
get "$dir/guest" busybox-static iperf3 ethtool iproute2 iputils-ping
# The kernel's dependencies build initramfs images, which is done otherwise here: the image alone.
kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -1)
(cd "$apt/archives" && rm -f ./*.deb && apt-get -qq download "$kernel" >&2 && dpkg-deb -x "$kernel"_*.deb "$dir/kernel")
mv "$dir"/kernel/boot/vmlinuz-* "$dir/vmlinuz"
rm -rf "$apt"
chmod 755 "$dir"
: >"$dir/${stamp##*/}"
rm -rf "$final"
mv -T "$dir" "$final"
trap - EXIT
say "done"
echo "$final"
