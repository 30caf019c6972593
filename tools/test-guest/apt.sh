# What fetch.sh and foreign.sh have in common: a cache directory, filled by an apt of its own. Sourced, with `sh` and `set -eu`.
#
# apt-get resolves the dependencies against an empty system of its own in that directory, and verifies
# what it downloads; `dpkg -x` unpacks. Nothing is installed or changed, and root is not needed.
umask 022
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { echo "test-guest: $*" >&2; }

# begin DIRECTORY WHAT: ends here, with the path, when all is there; else $dir is a new directory beside it, which
# finish renames: an interrupted run leaves nothing that looks complete.
begin() {
    final=$1
    stamp=complete-1
    if [ -e "$final/$stamp" ]; then
        echo "$final"
        exit 0
    fi
    for program in apt-get dpkg-deb unshare; do
        command -v "$program" >/dev/null || { say "missing: $program (a Debian system is needed)"; exit 3; }
    done
    [ -f "$keyring" ] || { say "missing: $keyring (package debian-archive-keyring)"; exit 3; }
    say "fetching $2 into $final"
    mkdir -p "$(dirname "$final")"
    dir=$(mktemp -d "$final.partial-XXXXXX")
    trap 'rm -rf "$dir"' EXIT
    apt=$dir/apt
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/etc/preferences.d" "$apt/etc/apt.conf.d"
    : >"$apt/status"
}

# suite NAME ARCHITECTURES: a suite of Debian to take packages from.
suite() {
    echo "deb [arch=$2 signed-by=$keyring] $mirror $1 main" >>"$apt/etc/sources.list"
}

# update ARCHITECTURE...: what these suites have.
update() {
    architectures=
    for a in "$@"; do architectures="$architectures \"$a\";"; done
    cat >"$apt/etc/apt.conf" <<END
Dir::Etc "$apt/etc";
Dir::Etc::sourcelist "$apt/etc/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::trustedparts "/usr/share/keyrings";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
APT::Architecture "amd64";
APT::Architectures {$architectures };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Dpkg::Use-Pty "0";
END
    APT_CONFIG=$apt/etc/apt.conf
    export APT_CONFIG
    apt-get -qq update >&2
}

unpack() {
    mkdir -p "$1"
    for deb in "$apt"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$1" --no-same-owner --keep-directory-symlink
    done
}
# get DIRECTORY PACKAGE...: downloads the packages with all they depend on, and unpacks them there.
get() {
    into=$1
    shift
    rm -f "$apt"/archives/*.deb
    apt-get -qq -y --download-only install "$@" >&2
    unpack "$into"
}
# only DIRECTORY PACKAGE...: the packages alone.
only() {
    into=$1
    shift
    rm -f "$apt"/archives/*.deb
    (cd "$apt/archives" && apt-get -qq download "$@" >&2)
    unpack "$into"
}
# Merged /usr: what packages put into /lib lands in /usr/lib.
merged() {
    mkdir -p "$1/usr/bin" "$1/usr/lib" "$1/usr/sbin" "$1/usr/lib64"
    for d in bin lib sbin lib64; do ln -s "usr/$d" "$1/$d"; done
}

# Complete: apt's own files go, and the directory takes its name.
finish() {
    rm -rf "$apt"
    chmod 755 "$dir"
    : >"$dir/$stamp"
    rm -rf "$final"
    mv -T "$dir" "$final"
    trap - EXIT
    say "done"
    echo "$final"
}
