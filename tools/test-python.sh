#!/bin/sh
# The Python package: its types, and its tests in a new environment, as the wheel that maturin
# builds. Part of `make test`, whose build it takes up.
#
#   test-python.sh [ARGUMENT OF pytest]...
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
libraries=$kept/python-$(sha256sum tools/test-python/requirements.txt | cut -c1-12)
packages tools/test-python/requirements.txt "$libraries"
frames=$kept/frames-$(sha256sum tools/test-frames/requirements.txt | cut -c1-12)
packages tools/test-frames/requirements.txt "$frames"
notebooks=$kept/notebooks-$(sha256sum tools/test-notebooks/requirements.txt | cut -c1-12)
packages tools/test-notebooks/requirements.txt "$notebooks"
(
    cd tools/test-python
    # shellcheck disable=SC3013 # every sh that Debian has knows it
    [ node_modules/.package-lock.json -nt package-lock.json ] ||
        retry "test-python: npm" npm ci --ignore-scripts --no-audit --no-fund
)
pyright=$PWD/tools/test-python/node_modules/pyright/index.js
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

PYTHONPATH=$libraries python3 -m mypy --config-file bindings/python/pyproject.toml \
    --cache-dir "$work/mypy" bindings/python/doorbell >&2
"$libraries/bin/maturin" build --quiet --locked --profile release \
    --manifest-path bindings/python/Cargo.toml --out "$work" >&2
python3 -m venv --without-pip "$work/env"
python3 -m pip --python "$work/env/bin/python" install --quiet --no-index --no-deps "$work"/*.whl

# Away from the sources, so that the installed package is what is imported.
tests=$PWD/bindings/python/tests
# Each worker of a cluster would compile all libraries anew.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$work/compiled"
cd "$work"
# A person's script, by both checkers.
cp "$tests/user.py" .
PYTHONPATH=$libraries python3 -m mypy --strict --python-executable env/bin/python \
    --cache-dir mypy user.py >&2
node "$pyright" --pythonpath env/bin/python user.py >&2
PYTHONPATH=$libraries env/bin/python -m pytest -q -p no:cacheprovider "$tests" \
    -m "not frames and not notebooks" "$@"
PYTHONPATH=$libraries:$frames env/bin/python -m pytest -q -p no:cacheprovider "$tests" \
    -m frames "$@"
# No kernel of this machine's own is found, nor its settings.
export JUPYTER_PATH="" JUPYTER_CONFIG_DIR="$work/jupyter" IPYTHONDIR="$work/ipython"
export JUPYTER_DATA_DIR="$work/jupyter" MPLCONFIGDIR="$work/matplotlib"
PYTHONPATH=$libraries:$frames:$notebooks env/bin/python -m pytest -q -p no:cacheprovider "$tests" \
    -m notebooks "$@"
