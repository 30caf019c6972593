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
packages tools/test-frames/requirements.txt "$libraries"
[ -n "${DOORBELL:-}" ] || cargo build --release --quiet --locked --package doorbell-cli
DOORBELL=${DOORBELL:-$PWD/target/release/doorbell}
for chapter in results points; do
    PATH=$(dirname "$DOORBELL"):$PATH PYTHONPATH=$libraries \
        python3 tools/test-frames/check.py "docs/$chapter.md" "$@"
done
