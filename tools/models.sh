#!/bin/sh
# What the plug-in and the server of hypervisor calls share, in all orders that the memory model
# allows (loom). In a target directory of its own, because all crates are compiled for it.
#
#   models.sh [ARGUMENT OF cargo test]...
set -eu
cd "$(dirname "$0")/.."
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom \
    exec cargo test --locked --package doorbell-papr-io --lib "$@" models
