#!/bin/sh
# `make test-guest`: Linux's own drivers, in a guest under TCG, on our devices.
#
# TIER=short (default, some 10 minutes) or TIER=long. DEVICES="e1000 ...", CHECKS="probe ping ...",
# CPUS="1 2" and CLOCK=virtual or CLOCK=wall choose checks of drivers. It prints the seconds of each
# step, of each part of the checks, and of each boot. Programs that are missing are installed if
# root, or else listed. QEMU 11.1 and kernels of Debian are fetched into a cache outside the
# repository once (tools/guest), from the mirror of the machine's own apt or from DEBIAN_MIRROR. The
# checks are crates/guest/tests/linux. Logs, and the wire of what failed, are in target/test-guest.
#
# The traffic stays in a network namespace without a name, which ends with the run. Nothing is
# fetched from inside of it: it has no network. Root is not needed where users may make namespaces.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
tools/install-test-deps.sh guest

build() {
    # The program and an example; all of the workspace, so that they are what its tests were built
    # with. A package alone has fewer features: it and what it needs would be built anew.
    cargo build --quiet --locked --workspace --lib --bins --examples || return
    # Rates are compared in the long run alone.
    [ "${TIER:-short}" = short ] || cargo build --quiet --locked --release --package doorbell-cli
}

# Downloads wait for the network, and tests for downloads. So all that is missing comes at once; a
# test that needs what is on its way waits for it, and what has failed it tries again.
fetch() {
    for what in "kernel arm64 7.3" "kernel ppc64el 6.12" "machine amd64" "kernel amd64 6.12" \
        "machine arm64" "machine ppc64el" "kernel amd64 7.3" "package amd64 dpdk-dev" \
        "package amd64 ipxe"; do
        # shellcheck disable=SC2086 # words
        set -- $what
        script=$1
        shift
        sh "tools/guest/$script.sh" "$@" >/dev/null 2>&1 &
    done
}

if [ -z "${DEVICES:-}${CHECKS:-}${CLOCK:-}" ]; then
    fetch
fi
step "build for the guests" build
if [ -z "${DEVICES:-}${CHECKS:-}${CLOCK:-}" ]; then
    # What they check are counts, which do not depend on another guest's load.
    step "counts of instructions" cargo test --quiet --locked --workspace --lib -- \
        --ignored --test-threads=2 --show-output
    step "doorbell guest" cargo test --quiet --locked --workspace --test it guest:: -- \
        --ignored --test-threads=2 --show-output
fi
[ "${TIER:-short}" = short ] || export RELEASE="$PWD/target/release/doorbell"
PATH=$PATH:/usr/sbin:/sbin
step "checks of drivers" cargo test --quiet --locked --workspace --test linux -- --ignored
