#!/bin/sh
# `make test-guest`: Linux's own drivers, in a guest under TCG, on our devices.
#
# TIER=short (default, some 10 minutes) or TIER=long. DEVICES="e1000 ...", CHECKS="probe ping ..."
# and CPUS="1 2" choose. Programs that are missing are installed if root, or else listed. QEMU 11.1
# and a Debian 13 kernel are fetched into a cache outside the repository once
# (tools/guest/machine.sh and kernel.sh; for arm64 and ppc64el too, which axi-ethernet, vnic and
# veth need), from the mirror of the machine's own apt or from DEBIAN_MIRROR. Logs, and the wire of
# what failed, are in target/test-guest.
#
# The traffic stays in a network namespace without a name, which ends with the run. Nothing is
# fetched from inside of it: it has no network. Root is not needed where users may make namespaces.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
tools/install-test-deps.sh guest

work=$PWD/target/test-guest
mkdir -p "$work"
# ARCHITECTURE KERNEL: what a guest is made of, in one directory of links.
fetch() {
    machine=$(tools/guest/machine.sh "$1") && kernel=$(tools/guest/kernel.sh "$1" "$2") || return 1
    rm -rf "${work:?}/$1"
    mkdir "$work/$1"
    ln -s "$machine/qemu" "$machine/guest" "$kernel/kernel" "$kernel/vmlinuz" "$work/$1/"
    [ ! -e "$kernel/drivers" ] || ln -s "$kernel/drivers" "$work/$1/"
}
step "fetch for x86_64" fetch amd64 6.12
foreign=
for device in ${DEVICES:-axi-ethernet veth}; do
    case $device in
        # It knows PCI devices that carry a device tree.
        axi-ethernet) foreign="$foreign arm64:7.3" ;;
        vnic | veth) foreign="$foreign ppc64el:6.12" ;;
    esac
done
for one in $(echo "$foreign" | tr ' ' '\n' | sort -u); do
    step "fetch for ${one%:*}" fetch "${one%:*}" "${one#*:}"
done

ipxe=$(tools/guest/package.sh amd64 ipxe)
build() {
    # The binary, the plug-in, and an example; all of the workspace, so that they are what its tests
    # were built with.
    cargo build --quiet --locked --workspace --lib --bins --examples &&
        cargo build --quiet --locked --release --package doorbell-cli
}
step "build for the guests" build
if [ -z "${DEVICES:-}${CHECKS:-}" ]; then
    # These fetch what they need themselves. One after another: each has the machine for itself.
    step "counts of instructions" cargo test --quiet --locked -p doorbell-guest --lib -- \
        --ignored --test-threads=1
    step "doorbell guest" cargo test --quiet --locked -p doorbell-cli --test guest -- \
        --ignored --test-threads=1
fi
namespace=--net
[ "$(id -u)" = 0 ] || namespace='--net --map-root-user'
boot() {
    # shellcheck disable=SC2086 # words
    PATH=$PATH:/usr/sbin:/sbin unshare $namespace python3 -B tools/test-guest/ipxe.py \
        target/debug/doorbell "$ipxe" "$work" e1000 e1000-82544gc e1000-82545em
}
[ -n "${DEVICES:-}${CHECKS:-}" ] || step "iPXE" boot
# shellcheck disable=SC2086 # words
DOORBELL_OFFLINE=1 RELEASE=$PWD/target/release/doorbell PATH=$PATH:/usr/sbin:/sbin \
    exec unshare $namespace \
    python3 -B tools/test-guest/run.py target/debug/doorbell "$work/amd64" "$work" ${DEVICES:-}
