#!/bin/sh
# Prints the lines of the product and of its tests, for each crate: see tools/size.py.
#
#     tools/size.sh [DIRECTORY]         the last line is the product's number alone
set -eu
exec python3 "$(dirname "$0")/size.py" "${1:-$(dirname "$0")/..}"
