# Copies through the DMA engine, and compares
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: no interface
#: size=4096   Bytes of a copy
#: copies=100  Copies
begin
for n in $(seq "$copies"); do
    head -c "$size" /dev/urandom >/tmp/from
    dd if=/tmp/from of=/dev/dmatoy bs="$size" 2>/tmp/said || { cat /tmp/said; exit 1; }
    dd if=/dev/dmatoy of=/tmp/to bs="$size" 2>/dev/null
    cmp /tmp/from /tmp/to || { echo "copy $n is not what was copied"; exit 1; }
done
end "$copies"
