# shellcheck shell=dash
# A word of a guest some of whose functions have instructions of another cost.
# Sets the costs of functions, a name and picoseconds a line. A function ends where the next symbol
# begins.
prices() {
    printf '%s\n' "$1" >/tmp/prices
    sort /proc/kallsyms | awk '
        NR == FNR { price[$1] = $2; next }
        at != "" && $1 > at { print at, $1, of; at = "" }
        $2 ~ /^[tTwW]$/ && $3 in price { at = $1; of = price[$3]; seen[$3] = 1 }
        END { if (at != "") print at, "ffffffffffffffff", of
              for (name in price) if (!(name in seen)) print "-", name }
    ' /tmp/prices - >/tmp/ranges
    while read -r start end of; do
        if [ "$start" = - ]; then
            echo "the kernel has no function $end"
            return 1
        fi
        traffic price "$start" "$end" "$of" || return 1
    done </tmp/ranges
}
