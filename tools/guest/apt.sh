# shellcheck shell=sh
# What machine.sh and kernel.sh have in common: a cache directory, filled by an apt of its own.
# Sourced, with `sh` and `set -eu`.
#
# apt-get resolves the dependencies against an empty system of its own in that directory, and
# verifies what it downloads; `dpkg -x` unpacks. Nothing is installed or changed, and root is not
# needed. The mirror, proxies and the like are those of the machine's own apt. DEBIAN_MIRROR names
# another mirror, and DEBIAN_SECURITY_MIRROR one of its security suites.
umask 022
# shellcheck source=tools/lib.sh
. "$(dirname "$0")/../lib.sh"
# The release to take packages from, and its place in the mirror.
codename=trixie role=stable
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# The arguments of the script that reads this.
argument_1=${1-} argument_2=${2-} argument_3=${3-}

say() { echo "guest: $*" >&2; }

# refuse CODE WORDS...: ends the script with its error, which `doorbell guest` tells itself.
refuse() {
    refused=$1
    shift
    say "error: $*"
    exit "$refused"
}

# The mirror of Debian itself, not of its security suite or of another vendor: known by the Release
# file that apt has fetched, or where it has fetched none yet by the suite's name.
mirror() {
    if [ -n "${DEBIAN_MIRROR:-}" ]; then
        echo "$DEBIAN_MIRROR"
        return
    fi
    # shellcheck disable=SC2016 # apt's fields
    fields='$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)'
    found=$(apt-get indextargets --format "$fields" 'Created-By: Packages' |
        sed -n 's/^Debian|Debian|main|//p' | head -n 1)
    if [ -z "$found" ]; then
        # shellcheck source=/dev/null
        suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
        suites="$suite|oldstable|stable|testing|unstable|sid"
        found=$(apt-get update --print-uris |
            sed -nE "s,^'(.*/)dists/($suites)/main/binary-[^/]*/Packages.*,\\1,p" | head -n 1)
    fi
    echo "${found%/}"
}

# The mirror of Debian's security suites: the machine's own, or else the one beside the mirror.
security() {
    # shellcheck disable=SC2016 # apt's fields
    fields='$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)'
    found=$(apt-get indextargets --format "$fields" 'Created-By: Packages' |
        sed -n 's/^Debian|Debian-Security|main|//p' | head -n 1)
    found=${DEBIAN_SECURITY_MIRROR:-${found:-$mirror-security}}
    echo "${found%/}"
}

# begin DIRECTORY WHAT: ends here, with the path, when all is there; else $dir is a directory beside
# it, which finish renames: an interrupted run leaves nothing that looks complete. What it has
# downloaded stays, and the next run goes on from there. Of two at once the second waits.
begin() {
    final=$1
    stamp=complete-2
    if [ -e "$final/$stamp" ]; then
        echo "$final"
        exit 0
    fi
    missing=
    for thing in apt-get apt-config dpkg-deb flock unshare xz "$keyring"; do
        command -v "$thing" >/dev/null || [ -f "$thing" ] || missing="$missing $thing"
    done
    if [ -n "$missing" ]; then
        refuse 3 "missing:$missing (a Debian system with debian-archive-keyring is needed)"
    fi
    mirror=$(mirror)
    if [ -z "$mirror" ]; then
        refuse 3 "this machine's apt has no mirror of Debian (apt-get indextargets); name one in" \
            "DEBIAN_MIRROR"
    fi
    security=$(security)
    say "fetching $2 into $final"
    mkdir -p "$(dirname "$final")"
    exec 9>"$final.lock"
    flock 9
    if [ -e "$final/$stamp" ]; then
        echo "$final"
        exit 0
    fi
    dir=$final.partial
    find "$dir" -mindepth 1 -maxdepth 1 ! -name apt -exec rm -rf {} + 2>/dev/null || :
    apt=$dir/apt archives=0
    mkdir -p "$apt/lists/partial" "$apt/etc/preferences.d" "$apt/etc/apt.conf.d"
    : >"$apt/status"
    : >"$apt/suites"
    # APT_CONFIG goes before the machine's configuration, of which nothing is read once it names
    # other directories.
    machine=$(apt-config dump Acquire | grep -vE '^Acquire::(Languages|Retries)')
    eval "$(apt-config shell netrc Dir::Etc::netrc/f netrcs Dir::Etc::netrcparts/d)"
}

# suite NAME ARCHITECTURES: a suite of Debian to take packages from.
suite() {
    place=$mirror
    case $1 in *-security) place=$security ;; esac
    echo "deb [arch=$2 signed-by=$keyring] $place $1 main" >>"$apt/suites"
}

# update ARCHITECTURE...: what these suites have. A suite has two directories, one by its codename
# and one by its role. A mirror that brings them up to date file by file can hold the signed list of
# a new release beside an architecture's packages of the release before, for days; then the other
# directory is taken, as long as it is the same suite.
update() {
    architectures=
    for a in "$@"; do architectures="$architectures \"$a\";"; done
    cat >"$apt/etc/apt.conf" <<END
$machine
Dir::Etc "$apt/etc";
Dir::Etc::sourcelist "$apt/etc/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::netrc "${netrc:-}";
Dir::Etc::netrcparts "${netrcs:-}";
Dir::Etc::trustedparts "/usr/share/keyrings";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
APT::Architecture "amd64";
APT::Architectures {$architectures };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::Languages "none";
Acquire::Retries "0";
Dpkg::Use-Pty "0";
END
    APT_CONFIG=$apt/etc/apt.conf
    export APT_CONFIG
    # Each once, and then again with pauses.
    pauses=${RETRY_PAUSES:-5 15 45}
    others=${GUEST_OTHERS:-none $codename $codename-backports}
    for RETRY_PAUSES in ' ' "$pauses"; do
        for other in $others; do
            sed "s, $other main$, $role${other#"$codename"} main," "$apt/suites" \
                >"$apt/etc/sources.list"
            cmp -s "$apt/suites" "$apt/etc/sources.list" && [ "$other" != none ] && continue
            [ "$other" = none ] || say "trying $other by its other name, $role${other#"$codename"}"
            retry "guest: apt-get update" apt-get -q update --error-on=any || continue
            RETRY_PAUSES=$pauses
            # shellcheck disable=SC2016 # apt's field
            are=$(apt-get indextargets --format '$(CODENAME)' 'Created-By: Packages' | sort -u)
            for is in $are; do
                case $is in
                    "$codename" | "$codename-backports" | "$codename-security") ;;
                    *) say "$role is not $codename but $is on $mirror"; return 3 ;;
                esac
            done
            return 0
        done
    done
    return 1
}

# The directory of the next download: each has its own, so that a run that was interrupted does not
# load them again.
next_archives() {
    archives=$((archives + 1))
    debs=$apt/archives-$archives
    mkdir -p "$debs/partial"
}

# download COMMAND...: runs a download. The pool of a mirror, too, may be behind the lists of a new
# release for days, in some architectures; so if it fails, all begins anew with the suites' other
# directories, which may have the release before. Versions may have been chosen by the lists.
# GUEST_OTHERS tells the new run which names are left to try.
download() {
    more='' past=''
    for listed in $others; do
        [ -z "$past" ] || more="$more $listed"
        [ "$listed" != "$other" ] || past=yes
    done
    pauses=$RETRY_PAUSES
    [ -z "$more" ] || RETRY_PAUSES=' '
    if retry "guest: apt-get" "$@"; then
        RETRY_PAUSES=$pauses
        return 0
    fi
    [ -n "$more" ] || return 1
    say "beginning anew with other directories of the suites"
    rm -rf "$apt"/archives-*
    GUEST_OTHERS=$more exec sh "$0" "$argument_1" ${argument_2:+"$argument_2"} \
        ${argument_3:+"$argument_3"}
}

unpack() {
    mkdir -p "$1"
    for deb in "$debs"/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$1" --no-same-owner --keep-directory-symlink
    done
}
# get DIRECTORY PACKAGE...: downloads the packages with all they depend on, and unpacks them there.
get() {
    into=$1
    shift
    next_archives
    download apt-get -q -y -o "Dir::Cache::archives=$debs" --download-only install \
        "$@"
    unpack "$into"
}
# only DIRECTORY PACKAGE...: the packages alone.
only() {
    into=$1
    shift
    next_archives
    # shellcheck disable=SC2016 # for the inner shell
    download sh -c 'cd "$1" && shift && exec apt-get -q download "$@"' sh "$debs" "$@"
    unpack "$into"
}
# Merged /usr: what packages put into /lib lands in /usr/lib.
merged() {
    mkdir -p "$1/usr/bin" "$1/usr/lib" "$1/usr/sbin" "$1/usr/lib64"
    for d in bin lib sbin lib64; do ln -s "usr/$d" "$1/$d"; done
}

# The beginning of a script that builds in the tree "$1", in a namespace of its own. Devices are
# bound one by one and read-only: root's tools may unlink their output or change its mode, and that
# must not reach the machine's /dev/null.
# shellcheck disable=SC2016,SC2034 # for the inner shell, in scripts that source this
devices='
    mount -t tmpfs -o mode=755 tmpfs "$1/dev"
    for node in null zero full random urandom; do
        : >"$1/dev/$node"
        mount --bind "/dev/$node" "$1/dev/$node"
        mount -o remount,bind,ro,nosuid,noexec "$1/dev/$node"
    done
    ln -s /proc/self/fd "$1/dev/fd"
'

# Complete: apt's own files go, and the directory takes its name.
finish() {
    rm -rf "$apt"
    chmod 755 "$dir"
    : >"$dir/$stamp"
    rm -rf "$final"
    mv -T "$dir" "$final"
    say "done"
    echo "$final"
}
