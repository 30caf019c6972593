# shellcheck shell=dash
# A word of a guest whose driver's calls are followed.
# Has the calls of functions followed, of which a module has one or more: inside EVENT 'A|B' MODULE.
# Those of a module that is built in have no module behind their names.
inside() {
    found=$(grep -E " [tTwW] ($2)([[:space:]]\\[$3\\])?\$" /proc/kallsyms | cut -d ' ' -f 1)
    for address in $found; do
        traffic inside "$1" "$address" || return 1
    done
    [ -n "$found" ] || echo "the kernel has no function $2 of $3"
    [ -n "$found" ]
}
