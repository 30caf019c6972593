#!/bin/sh
# The chart libraries of the report, from their npm packages into crates/cli/src/report/vendor.
#
#   vendor.sh            fetches them anew
#   vendor.sh --check    says whether what is checked in is what the packages have; 1 if not
#
# A package is known by its version and its SHA-512, as npm's lock files have it: another file
# under the same name is refused. Needs npm, and the network once.
set -eu
# shellcheck source=tools/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../crates/cli/src/report/vendor"

# directory  package  version  files  integrity, in lines that end in a backslash
packages='
d3   d3                 7.9.0  LICENSE,dist/d3.min.js \
sha512-e1U46jVP+w7Iut8Jt8ri1YsPOvFpg46k+K8TpCb0P+zjCkjkPnV7WzfDJzMHy1LnA+wj5pLT1wjO901gLXeEhA==
plot @observablehq/plot 0.6.17 LICENSE,dist/plot.umd.min.js \
sha512-/qaXP/7mc4MUS0s4cPPFASDRjtsWp85/TbfsciqDgU1HwYixbSbbytNuInD8AcTYC3xaxACgVX06agdfQy9W+g==
'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# shellcheck disable=SC2162 # a backslash joins lines
printf '%s\n' "$packages" | while read directory package version files integrity; do
    [ -n "$directory" ] || continue
    mkdir "$work/$directory"
    retry "vendor: $package" npm pack --pack-destination "$work/$directory" "$package@$version"
    for archive in "$work/$directory"/*.tgz; do
        have=sha512-$(openssl dgst -sha512 -binary "$archive" | base64 -w 0)
        if [ "$have" != "$integrity" ]; then
            echo "vendor: $package $version is $have, not $integrity" >&2
            exit 1
        fi
        tar xzf "$archive" -C "$work/$directory" --strip-components=1
    done
    for file in $(echo "$files" | tr , ' '); do
        if [ "${1:-}" = --check ]; then
            cmp "$work/$directory/$file" "$directory/$file" || exit 1
        else
            mkdir -p "$(dirname "$directory/$file")"
            cp "$work/$directory/$file" "$directory/$file"
        fi
    done
done
