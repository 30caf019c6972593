#!/bin/sh
# Builds the qtest accelerator module for the QEMU that is installed.
#
#   build.sh [QEMU-BINARY]
#
# The binary is, in this order: the argument, $DOORBELL_QEMU, qemu-system-x86_64
# from PATH. The module goes to
#   ${XDG_CACHE_HOME:-$HOME/.cache}/doorbell/qtest-accel/<build stamp>/
# where the test client looks for it. Nothing is done when it is there already
# and newer than its source, or when this QEMU has the accelerator by itself. A
# QEMU upgrade brings another stamp, and so another module.
#
# Exit: 0 the accelerator works, 1 it does not (why is said on stderr).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$here/accel-qtest.c

fail() {
    echo "qtest-accel: $*" >&2
    exit 1
}

# Asks a QEMU with this accelerator to step its clock. A QEMU that has it answers
# and waits for more; one that has not exits at once.
works() {
    answer=$({ echo 'clock_step 5'; sleep 1; } |
        QEMU_MODULE_DIR=$1 timeout 1 "$qemu" -accel qtest -machine none -nodefaults \
        -display none -qtest stdio -qtest-log none 2>/dev/null || true)
    [ "$answer" = "OK 5" ]
}

qemu=${1:-${DOORBELL_QEMU:-qemu-system-x86_64}}
qemu=$(command -v "$qemu") || fail "no QEMU: install qemu-system-x86, or name one in DOORBELL_QEMU"
target=${qemu##*/qemu-system-}
[ "$target" != "$qemu" ] || target=x86_64

stamp=$(grep -aom1 'qemu_stamp_[0-9a-f]\{40\}' "$qemu" | head -n 1) || true
[ -n "$stamp" ] || {
    works "" && exit 0
    fail "$qemu has no loadable modules and no qtest accelerator of its own"
}
dir=${XDG_CACHE_HOME:-$HOME/.cache}/doorbell/qtest-accel/${stamp#qemu_stamp_}
module=$dir/accel-qtest-$target.so

# shellcheck disable=SC3013 # every sh that Debian has knows it
[ "$module" -nt "$source" ] && exit 0
works "" && exit 0

# The layouts in the source are one release's.
version=$("$qemu" --version | sed -n '1s/.*version \([0-9]*\.[0-9]*\).*/\1/p')
[ "$version" = 7.2 ] || fail "$qemu is version $version; the module knows the layouts of 7.2 only"
cc=${CC:-cc}
command -v "$cc" >/dev/null || fail "no C compiler ($cc): install gcc"

# Built beside its place and moved, so that a run that starts now sees the whole of it.
mkdir -p "$dir"
scratch=$(mktemp -d "$dir/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT INT TERM
"$cc" -std=c11 -O1 -Wall -Wextra -Werror -shared -fPIC -DQEMU_STAMP="$stamp" \
    -o "$scratch/${module##*/}" "$source"
works "$scratch" || fail "the module was built, but $qemu does not work with it"
mv "$scratch/${module##*/}" "$module"
echo "qtest-accel: built $module" >&2
