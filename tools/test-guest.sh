#!/bin/sh
# `make test-guest`: Linux's own drivers, in a guest under TCG, on our devices.
#
# TIER=short (default, some 10 minutes) or TIER=long. DEVICES="e1000 ...", CHECKS="probe ping ..." and
# CPUS="1 2" choose. QEMU 11.1 and a Debian 13 kernel are fetched into a cache outside the repository once
# (tools/test-guest/fetch.sh; foreign.sh for arm64 and ppc64el, which axi-ethernet, vnic and veth need); logs, and the wire of what failed,
# are in target/test-guest. In the short tier what fails is tried once more in a fresh guest, and said to be unsteady.
#
# The traffic stays in a network namespace without a name, which ends with the run. Root is not needed
# where users may make namespaces.
set -eu
cd "$(dirname "$0")/.."
missing=
for program in python3 xz iperf3 ip ping unshare; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] || { echo "test-guest: missing:$missing (tools/install-test-deps.sh)" >&2; exit 3; }
cache=$(tools/test-guest/fetch.sh)
# The binary, the plug-in, and an example; all of the workspace, so that they are what its tests were built with.
cargo build --quiet --locked --workspace --lib --bins --examples
cargo build --quiet --locked --release --package doorbell-cli
work=$PWD/target/test-guest
mkdir -p "$work"
namespace=--net
[ "$(id -u)" = 0 ] || namespace='--net --map-root-user'
# shellcheck disable=SC2086 # words
RELEASE=$PWD/target/release/doorbell PATH=$PATH:/usr/sbin:/sbin exec unshare $namespace \
    python3 -B tools/test-guest/run.py target/debug/doorbell "$cache" "$work" ${DEVICES:-}
