#!/bin/sh
# qemu.sh OPTION...: QEMU 11.1 from the cache (machine.sh brings it), through its own loader and
# with its own libraries: no chroot, no root, on any Linux. DOORBELL_GUEST names another cache
# directory, DOORBELL_EMULATOR another of its programs.
set -eu
cache=${DOORBELL_GUEST:-$("$(dirname "$0")/machine.sh" amd64)}
usr=$cache/qemu/usr
lib=$usr/lib/x86_64-linux-gnu
QEMU_MODULE_DIR=$lib/qemu
export QEMU_MODULE_DIR
emulator=$usr/bin/${DOORBELL_EMULATOR:-qemu-system-x86_64}
exec "$usr/lib64/ld-linux-x86-64.so.2" --library-path "$lib" "$emulator" \
    -L "$usr/share/qemu" -L "$usr/share/seabios" "$@"
