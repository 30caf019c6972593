#!/bin/sh
# Proves facts for all inputs with Kani: indices, ranges and lengths that a guest or client chooses.
# Install Kani first: `cargo install --locked kani-verifier && cargo kani setup`.
#
#   proofs.sh [ARGUMENT OF cargo kani]...
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
if ! cargo kani --version >/dev/null 2>&1; then
    echo "proofs: Kani is missing: cargo install --locked kani-verifier && cargo kani setup" >&2
    exit 3
fi
# One at a time: Kani names the harnesses of one crate.
for crate in drivers papr-io vfio-user host-io; do
    step "kani $crate" cargo kani --package "doorbell-$crate" "$@"
done
