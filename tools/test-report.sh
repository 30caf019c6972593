#!/bin/sh
# The report in Debian's Chromium: tools/test-report/report.test.mjs on a release build, after a
# look whether the chart libraries are what their packages have. Part of `make test`.
set -eu
cd "$(dirname "$0")/.."
tools/vendor.sh --check
[ -n "${DOORBELL:-}" ] || cargo build --release --quiet --locked --package doorbell-cli
cd tools/test-report
# The browser is Debian's.
[ -d node_modules ] && [ node_modules/.package-lock.json -nt package-lock.json ] ||
    PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci --ignore-scripts --no-audit --no-fund --silent
DOORBELL=${DOORBELL:-$PWD/../../target/release/doorbell} exec node --test
