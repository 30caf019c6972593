#!/bin/sh
# `make test`: every test that can run here.
#
# Some tests need root, QEMU or other programs. With all of that they run, and a
# missing thing is a failure (DOORBELL_FULL=1). Without, they are skipped and listed
# here with the reason; where CI=true, that is a failure.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh

reasons=
tools/install-test-deps.sh test || reasons="programs are missing (above)"
[ "$(id -u)" = 0 ] || reasons="${reasons:+$reasons; }network namespaces need root"
if [ -z "$reasons" ]; then
    for target in x86_64 microblazeel; do
        # DOORBELL_QEMU names another x86_64.
        [ "$target" = x86_64 ] && qemu= || qemu=qemu-system-$target
        # shellcheck disable=SC2086 # none is none
        tools/qtest-accel/build.sh $qemu ||
            reasons="there is no qtest accelerator for $target (above)"
    done
fi

if [ -z "$reasons" ]; then
    export DOORBELL_FULL=1
    # A long run tells at its end what took longest.
    timings=
    if [ -n "${DOORBELL_TIMES:-}" ]; then
        timings=--timings
        host=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
        export "CARGO_TARGET_${host}_RUNNER=$PWD/tools/times.py run"
    fi
    step "tools" tools/test-tools.sh
    # With the Python package, whose wheel needs some crates with more features.
    # shellcheck disable=SC2086 # none is none
    step "cargo build --release" cargo build --release --locked --quiet --package doorbell-cli \
        --package doorbell-python $timings
    # shellcheck disable=SC2086 # none is none
    step "cargo test, built" cargo test --workspace --locked --no-run $timings "$@"
    # The commands of the documents take half the time.
    export DOORBELL_PROGRAMS="${CARGO_TARGET_DIR:-$PWD/target}/release"
    step "instructions" tools/bench.py --check "$DOORBELL_PROGRAMS/doorbell"
    # One of them computes all published figures, for two minutes of a core. The report shows them.
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    export DOORBELL_PUBLISHED="$work/published"
    # Packets a system; a quick run has fewer, tools/soak.sh more.
    export DOORBELL_OFFLOADS=20000
    step "cargo test" cargo test --workspace --locked --no-fail-fast "$@"
    step "models" tools/models.sh
    step "python" tools/test-python.sh
    # The tables and plots of the documents are what the commands above them print.
    step "documents" tools/docs.py --check docs/*.md
    step "book" tools/test-book.sh
    step "report" tools/test-report.sh
    step "frames" tools/test-frames.sh
    exit
fi

{
    echo "test: skipped, because $reasons:"
    # Each such test asks through this function, so this list is never out of date.
    grep -lr '\bfull(' crates/*/tests | sed 's|^crates/\(.*\)\.rs$|    \1|; s|/tests/|: |'
    echo '    docs/*.md (tools/docs.py), and the book (tools/test-book.sh)'
    echo '    the Python package (tools/test-python.sh)'
    echo '    the report in a browser (tools/test-report.sh), and results in pandas and others'
} >&2
if [ "${CI:-}" = true ]; then
    echo "test: in CI that is a failure" >&2
    exit 1
fi
unset DOORBELL_FULL
exec cargo test --workspace --locked "$@"
