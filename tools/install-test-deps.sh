#!/bin/sh
# Installs what the checks and tests need beyond Rust, as Debian packages, and only what is missing.
# It says what it does. Where it cannot (no root, no apt-get), it lists all that is missing at once.
#
#   install-test-deps.sh [check|test|guest]...      for these targets of the Makefile; default: all
#
# Exit: 0 all there, 3 something is missing (the list is on stderr).
set -eu
# shellcheck source=tools/lib.sh
. "$(dirname "$0")/lib.sh"

# package  a program, or a file, that comes with it  the targets that need it
needs='
gcc gcc check test guest
libc6-dev /usr/include/stdio.h check test guest
make make check test guest
git git check
python3 python3 check test
python3-pip pip3 check test
ca-certificates /etc/ssl/certs/ca-certificates.crt check test
shellcheck shellcheck check
qemu-system-x86 qemu-system-x86_64 test
qemu-system-misc qemu-system-microblazeel test
qemu-system-ppc qemu-system-ppc64 test
tcpdump tcpdump test
tshark tshark test
iperf3 iperf3 test guest
openvswitch-common ovsdb-tool test
openvswitch-switch ovs-vswitchd test
ethtool ethtool test guest
iproute2 ip test guest
iputils-ping ping test guest
valgrind valgrind test
xz-utils xz test guest
util-linux unshare test guest
debian-archive-keyring /usr/share/keyrings/debian-archive-keyring.gpg guest
nodejs node test
npm npm test
chromium chromium test
openssl openssl test
fonts-dejavu-core /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf test
'

# ip, tcpdump and ethtool may be where only root's PATH looks.
PATH=$PATH:/usr/sbin:/sbin

for target in "$@"; do
    case $target in
        check | test | guest) ;;
        *) echo "install-test-deps: $target: allowed are check, test and guest" >&2; exit 2 ;;
    esac
done
# Between spaces.
targets=" ${*:-check test guest} "

missing() {
    echo "$needs" | while read -r package thing for; do
        for target in $for; do
            case $targets in *" $target "*) ;; *) continue ;; esac
            command -v "$thing" >/dev/null || [ -f "$thing" ] || echo "$package"
            break
        done
    done
}

packages=$(missing | tr '\n' ' ')
[ -n "$packages" ] || exit 0

# A mirror whose index has changed since the update has not all of these packages any more, so both
# are tried anew. Others may be installing at the same time.
# shellcheck disable=SC2317 # called by retry
install() {
    apt-get update -q &&
        apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends "$@"
}

if ! command -v apt-get >/dev/null; then
    why="there is no apt-get here"
elif [ "$(id -u)" != 0 ]; then
    why="only root can install them"
else
    echo "install-test-deps: apt-get install $packages" >&2
    # tshark asks whether everybody may capture; the answer to nobody is no.
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # one word a package
    retry "install-test-deps: apt-get" install $packages || why="apt-get failed, above"
fi

left=$(missing | tr '\n' ' ')
[ -n "$left" ] || exit 0
echo "install-test-deps: missing: $left(${why:-apt-get did not bring them})" >&2
exit 3
