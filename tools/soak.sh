#!/bin/sh
# Runs random combinations of faults on all systems, each of them bounded by 60 seconds of CPU time.
#
#     tools/soak.sh [SEEDS [JOBS [DIRECTORY]]]
#
# SEEDS is a number (1000) or a range (1000..2000), of which each seed makes one run of each system;
# JOBS runs go on at a time (1). The table of outcomes and the command of each failure go to stdout
# and to DIRECTORY (target/soak-results). The same seeds make the same runs. Exit code 1 if a run
# failed or did not end.
set -eu
cd "$(dirname "$0")/.."
out=${3:-target/soak-results}
mkdir -p "$out"
cargo build --quiet --locked --profile soak -p doorbell-cli
exec env \
    DOORBELL_SOAK_SEEDS="${1:-1000}" \
    DOORBELL_SOAK_JOBS="${2:-1}" \
    DOORBELL_SOAK_LIMIT=60 \
    DOORBELL_SOAK_BINARY="${CARGO_TARGET_DIR:-$PWD/target}/soak/doorbell" \
    DOORBELL_SOAK_OUT="$(cd "$out" && pwd)" \
    cargo test --quiet --locked --workspace --test it soak:: -- --nocapture
