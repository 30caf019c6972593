#!/bin/sh
# Runs every key at its ends in every scenario, questions to `advise` for ten seeds, a million
# packets a system through the offloads, the tests of crates that `doorbell new` writes, and random
# combinations of faults on all systems, each of them bounded by 60 seconds of CPU time.
#
#     tools/soak.sh [SEEDS [JOBS [DIRECTORY]]]
#
# SEEDS is a number (1000) or a range (1000..2000), of which each seed makes one run of each system;
# JOBS runs go on at a time (1). The table of outcomes and the command of each failure go to stdout
# and to DIRECTORY (target/soak-results). The same seeds make the same runs. Exit code 1 if a run
# failed or did not end.
set -eu
cd "$(dirname "$0")/.."
seed=${1:-1000}
out=${3:-target/soak-results}
mkdir -p "$out"
DOORBELL_KEYS=all cargo test --quiet --locked -p doorbell-systems --test it keys::
DOORBELL_ADVISE=all cargo test --quiet --locked -p doorbell-study --test it advise::
DOORBELL_OFFLOADS=1000000 DOORBELL_OFFLOADS_SEED="${seed%%..*}" \
    cargo test --quiet --locked -p doorbell-conformance --test it offloads::
cargo test --quiet --locked -p doorbell-cli --test it packages:: -- --ignored
cargo build --quiet --locked --profile soak -p doorbell-cli
exec env \
    DOORBELL_SOAK_SEEDS="$seed" \
    DOORBELL_SOAK_JOBS="${2:-1}" \
    DOORBELL_SOAK_LIMIT=60 \
    DOORBELL_SOAK_BINARY="${CARGO_TARGET_DIR:-$PWD/target}/soak/doorbell" \
    DOORBELL_SOAK_OUT="$(cd "$out" && pwd)" \
    cargo test --quiet --locked --workspace --test it soak:: -- --nocapture
