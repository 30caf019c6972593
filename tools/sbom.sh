#!/bin/sh
# Writes the bills of materials of a release, in CycloneDX 1.5: of the program, of the plug-in for
# QEMU and of the Python package. Each names the crates that are linked, with version, licence and
# hash. Installs cargo-cyclonedx if it is missing. The same commit makes the same files.
#
#   sbom.sh [DIRECTORY]      default: target/sbom
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
out=${1:-target/sbom}
cargo cyclonedx --version >/dev/null 2>&1 ||
    retry cargo-cyclonedx cargo install cargo-cyclonedx@0.5.9 --locked --quiet

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# They are written beside the manifests.
trap 'rm -f crates/*/*.cdx.json bindings/*/*.cdx.json' EXIT
cargo cyclonedx --quiet --format json --describe binaries --spec-version 1.5 --no-build-deps
mkdir -p "$out"
# bill DIRECTORY CRATE FILE NAME: takes one, and checks that it has all crates.
bill() {
    # Where the sources lie is this machine's matter.
    sed "s|path+file://$PWD/|path+file:|g" "$1/$3.cdx.json" >"$out/$4.cdx.json"
    cargo tree --quiet --locked --package "$2" --edges normal --prefix none --format '{p}' |
        sed 's/ (.*//; s/ v/@/' | sort -u | while read -r crate; do
            grep -qF "$crate\"" "$out/$4.cdx.json" ||
                { echo "sbom: $out/$4.cdx.json lacks $crate" >&2; exit 1; }
        done
}
bill crates/cli doorbell-cli doorbell_bin doorbell
bill crates/plugin doorbell-plugin doorbell_plugin_cdylib doorbell-plugin
bill bindings/python doorbell-python _native_cdylib doorbell-python
