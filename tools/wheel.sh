#!/bin/sh
# wheel.sh DIRECTORY: builds the wheel of the Python package, for every Python from 3.11 on, and
# tries it in an environment of its own.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
out=$1
libraries=$kept/python-$(sha256sum tools/test-python/requirements.txt | cut -c1-12)
packages tools/test-python/requirements.txt "$libraries"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# No path of the machine that built it.
export RUSTFLAGS="${RUSTFLAGS-} --remap-path-prefix=$PWD=doorbell \
--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
"$libraries/bin/maturin" build --quiet --locked --profile wheel \
    --manifest-path bindings/python/Cargo.toml --out "$work" >&2
python3 -m venv --without-pip "$work/env"
python3 -m pip --python "$work/env/bin/python" install --quiet --no-index --no-deps "$work"/*.whl
(cd "$work" && env/bin/doorbell --version && env/bin/python -c '
import doorbell
print(doorbell.run("mlx5-pktgen-64", set={"traffic.packets": 480}, limits=False))')
mkdir -p "$out"
cp "$work"/*.whl "$out"
