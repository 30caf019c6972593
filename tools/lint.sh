#!/bin/sh
# Lints the Python files (ruff) and the shell scripts (shellcheck), checks the form of prose
# (tools/prose.py), and looks for names of package registries. Part of `make check`. ruff comes from
# PyPI once.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
ruff=$kept/ruff-0.17.5.wheel/ruff-0.17.5.data/scripts/ruff
[ -f "$ruff" ] || wheel tools/lint/requirements.txt "$kept/ruff-0.17.5.wheel"
chmod 755 "$ruff"
code=0
"$ruff" check --quiet --no-cache . || code=1
tools/prose.py || code=1

# All scripts, by their names or by their first lines.
files() { git ls-files --cached --others --exclude-standard -- "$@"; }
{
    files '*.sh'
    files | while read -r file; do
        [ -f "$file" ] || continue
        ! head -c 60 "$file" | head -n 1 | grep -qaE '^#!.*\<(sh|bash)$' || echo "$file"
    done
} | sort -u | xargs shellcheck --external-sources || code=1

# Where packages come from is the machine's matter: its apt, pip, npm and cargo know their
# registries. Lock files name them.
registries='(debian|ubuntu|crates|pypi|pythonhosted|npm[j]s|nodesource|golang|rustup|maven)'
registries="${registries}[.](org|io|com|net|rs|debian)"
if git grep -nEI "$registries" -- ':!*.lock' ':!*package-lock.json' >&2; then
    echo "lint: a package registry is named (above)" >&2
    code=1
fi
exit $code
