#!/bin/sh
# The Python lines of docs/results.md and docs/points.md, with the libraries that they name
# (test-frames/check.py). Part of `make test`.
#
#   test-frames.sh            compares
#   test-frames.sh --write    writes into the chapters what they print
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
libraries=$kept/frames-$(sha256sum tools/test-frames/requirements.txt | cut -c1-12)
if [ ! -d "$libraries" ]; then
    mkdir -p "$kept"
    work=$(mktemp -d "$libraries.XXXXXX")
    retry "test-frames: pip" python3 -m pip install --quiet --no-deps --only-binary=:all: \
        --python-version 3.11 --implementation cp --platform manylinux2014_x86_64 \
        --platform manylinux_2_28_x86_64 --require-hashes --no-compile --target "$work" \
        --requirement tools/test-frames/requirements.txt
    mv -T "$work" "$libraries" 2>/dev/null || [ -d "$libraries" ]
fi
[ -n "${DOORBELL:-}" ] || cargo build --release --quiet --locked --package doorbell-cli
DOORBELL=${DOORBELL:-$PWD/target/release/doorbell}
for chapter in results points; do
    PATH=$(dirname "$DOORBELL"):$PATH PYTHONPATH=$libraries \
        python3 tools/test-frames/check.py "docs/$chapter.md" "$@"
done
