#!/bin/sh
# Runs the fuzz targets, from the seeds and corpora of the tree.
#
#     tools/fuzz.sh [-j JOBS] [TARGET...]                  up to a minute each, two at a time
#     tools/fuzz.sh -s SECONDS [-j JOBS] [TARGET...]       so long each, to find more, with the
#                                                          address sanitizer
#     tools/fuzz.sh --coverage [TARGET...]                 what seeds and corpora reach, and do not
#     tools/fuzz.sh --minimise [TARGET...]                 packs the working corpora into the tree
#
# Without TARGET, all of fuzz/Cargo.toml. Without SECONDS, the same inputs on every machine, as many
# as fuzz/Cargo.toml says; with it, others each time, and from what earlier runs found. Working
# corpora are in fuzz/corpus, findings in fuzz/artifacts, logs in fuzz/target/logs; none of them is
# tracked. Exit code 1 after a finding. Installs cargo-fuzz, and the tools for coverage, if they are
# missing; FUZZ_TOOLCHAIN names another toolchain than nightly.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
FUZZ_TOOLCHAIN=${FUZZ_TOOLCHAIN:-nightly}
export FUZZ_TOOLCHAIN
cargo fuzz --version >/dev/null 2>&1 ||
    retry cargo-fuzz cargo install cargo-fuzz@0.13.2 --locked --quiet
rustup toolchain list | grep -q "^$FUZZ_TOOLCHAIN" ||
    retry "$FUZZ_TOOLCHAIN" rustup toolchain install "$FUZZ_TOOLCHAIN" --profile minimal
case " $* " in
    *" --coverage "*)
        rustup component list --toolchain "$FUZZ_TOOLCHAIN" --installed | grep -q '^llvm-tools' ||
            retry llvm-tools rustup component add llvm-tools --toolchain "$FUZZ_TOOLCHAIN"
        ;;
esac
exec python3 tools/fuzz.py "$@"
