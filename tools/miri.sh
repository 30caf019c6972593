#!/bin/sh
# Runs tests under Miri, which finds undefined behaviour and data races: those of the code that
# reaches shared memory, which alone has `unsafe` blocks. Needs rustup; installs the nightly
# toolchain's components that it lacks. Where DOORBELL_CI_CACHE keeps what has passed, a crate whose
# sources have not changed is skipped (tools/unchanged.py).
#
#   miri.sh [--all]      with --all also messages and registers that are read from bytes, by a
#                        library's `unsafe` blocks, and the interrupt masks of papr-io, for minutes
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
toolchain=${MIRI_TOOLCHAIN:-nightly}
cargo "+$toolchain" --version >/dev/null 2>&1 ||
    retry "miri: rustup" rustup toolchain install "$toolchain" --profile minimal
# To the toolchain that is there: another day's may have no Miri.
cargo "+$toolchain" miri --version >/dev/null 2>&1 ||
    retry "miri: rustup" rustup component add miri rust-src --toolchain "$toolchain"

# Random tests draw this many cases.
export PROPTEST_CASES="${PROPTEST_CASES:-2}"
# Files are opened.
flags=-Zmiri-disable-isolation
version=$(rustc "+$toolchain" -vV; cargo "+$toolchain" miri --version)
# miri CRATE ARGUMENT...
miri() {
    crate=$1
    shift
    step "miri $crate" tools/unchanged.py "miri $crate" --crate "doorbell-$crate" \
        --word "$version" -- env MIRIFLAGS="$flags ${MIRIFLAGS:-}" \
        cargo "+$toolchain" miri test --locked --quiet \
        --target-dir "${CARGO_TARGET_DIR:-target}/miri" -p "doorbell-$crate" --lib "$@"
}

if [ "${1:-}" = --all ]; then
    miri layout
    miri vfio-user -- message:: pci:: function::
fi
# Accesses of one place by several widths are more than Miri's model of weak memory can do. loom has
# the orders of papr-io.
flags="$flags -Zmiri-disable-weak-memory-emulation"
# Signals and truncated files (guard), and sockets (reaper), need a kernel.
miri host-io -- shared:: --skip guard --skip reaper
[ "${1:-}" != --all ] || miri papr-io -- irq_masks::
