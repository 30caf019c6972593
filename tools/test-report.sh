#!/bin/sh
# Reports in Debian's Chromium: tools/test-report/report.test.mjs on a release build. Part of `make
# test`.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
[ -n "${DOORBELL:-}" ] || cargo build --release --quiet --locked --package doorbell-cli
cd tools/test-report
# The browser is Debian's.
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1
# shellcheck disable=SC3013 # every sh that Debian has knows it
[ node_modules/.package-lock.json -nt package-lock.json ] ||
    retry "test-report: npm" npm ci --ignore-scripts --no-audit --no-fund
DOORBELL=${DOORBELL:-$PWD/../../target/release/doorbell} exec node --test
