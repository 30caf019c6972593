#!/bin/sh
# package.sh amd64|arm64|ppc64el PACKAGE: brings a package of Debian, with all that it needs, into a
# cache directory, and prints its path.
set -eu
# shellcheck source=tools/guest/apt.sh
. "$(dirname "$0")/apt.sh"
arch=$1 package=$2
begin "$kept/package-$arch-$package" "Debian's $package for $arch"
suite trixie "amd64,$arch"
update amd64 "$arch"
merged "$dir"
get "$dir" "$package:$arch"
finish
