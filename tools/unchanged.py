#!/usr/bin/env python3
"""Runs a command unless it has passed before with the same sources. For Miri and the fuzz targets.

    unchanged.py NAME [--crate CRATE]... [--word WORD]... -- COMMAND...

DOORBELL_CI_CACHE is the directory with what has passed; without it each command runs. Its file
`passed/NAME` has the hash of the last run that passed: of the command and the words, of the
variables that change a build, and of the tree's files, tracked or not, except for

* the crates of the workspace that are not among CRATE and what these are built from, by `cargo
  metadata`. Their manifests count, since features of a dependency add up;
* UNREAD, which no build reads. What a source of the crates names behind `../` counts all the same.

The hash is taken again afterwards. Files that changed meanwhile were perhaps not what ran.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

UNREAD = re.compile(r"(?:docs|tools|bindings|\.ci|\.github|fuzz)/|[^/]*\.md$|Makefile$")
# Of the environment, what changes a build or a run.
VARIABLES = re.compile(
    r"CARGO_(?:PROFILE|BUILD|ENCODED|TARGET_(?!DIR))|RUST(?:FLAGS|C)|MIRI|FUZZ|PROPTEST|ASAN"
)
NAMED = re.compile(r"\.\./(\w[\w.-]*(?:/[\w.-]+)*)")


class Unknown(Exception):
    """The sources cannot be told."""


def output(root, *command):
    try:
        return subprocess.run(
            command, cwd=root, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.CalledProcessError) as e:
        raise Unknown(e) from e


def packages(root, manifest="Cargo.toml"):
    """Returns the directory of each package of a workspace, and its dependencies in the tree."""
    told = output(
        root,
        *("cargo", "metadata", "--no-deps", "--format-version=1", "--offline"),
        *("--manifest-path", manifest),
    )
    found = {}
    for package in json.loads(told)["packages"]:
        directory = pathlib.Path(package["manifest_path"]).parent.relative_to(root)
        # (name, kind: None, "dev" or "build")
        needs = [(d["name"], d["kind"]) for d in package["dependencies"] if d.get("path")]
        found[package["name"]] = (f"{directory}/", needs)
    return found


def closure(all, crates, tests=True):
    """Returns the names of crates and of all that they, or their tests, are built from."""
    found, left = set(crates), [(c, tests) for c in crates]
    while left:
        crate, with_tests = left.pop()
        if crate not in all:
            raise Unknown(f"no crate {crate}")
        for name, kind in all[crate][1]:
            if (with_tests or kind != "dev") and name not in found:
                found.add(name)
                left.append((name, False))
    return found


def files(root, crates, also=(), tests=True):
    """Returns the paths of what crates, or their tests, are built from and run with. `also` has
    the beginnings of others."""
    all = packages(root)
    inside = tuple(all[c][0] for c in closure(all, crates, tests))
    outside = tuple(d for c, (d, _) in all.items() if d not in inside)
    told = output(root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = [os.fsdecode(n) for n in set(told.split(b"\0")) if n]
    # Without tests these of a crate are not built.
    unbuilt = () if tests else tuple(d + part for d in inside for part in ("tests/", "benches/"))
    named = set()
    for name in names:
        source = name.endswith(".rs") and name.startswith(inside) and not name.startswith(unbuilt)
        if source and (root / name).is_file():
            named.update(NAMED.findall((root / name).read_text(errors="replace")))
    # Seeds and corpora are those of one target.
    named.discard("fuzz")
    folders = tuple(f"{n}/" for n in named)
    return {
        name
        for name in names
        if name in named
        or name.startswith((*also, *inside, *folders))
        or (name.startswith(outside) and name.endswith("/Cargo.toml"))
        or not (name.startswith(outside) or UNREAD.match(name))
    }


def key(root, crates, words=(), also=(), tests=True):
    """Returns the hash of what a run depends on, or None if it cannot be told."""
    root = pathlib.Path(root).resolve()
    variables = {k: v for k, v in os.environ.items() if VARIABLES.match(k)}
    hash = hashlib.sha256()
    try:
        # How this file chooses is a part of it.
        also = (*also, "tools/unchanged.py")
        said = [list(words), sorted(variables.items())]
        hash.update(json.dumps(said).encode())
        for name in sorted(files(root, crates, also, tests)):
            path = root / name
            if path.is_symlink():
                content = b"link " + os.fsencode(os.readlink(path))
            elif path.is_file():
                content = b"file " + hashlib.sha256(path.read_bytes()).digest()
            else:
                content = b"none"
            hash.update(b"%d %s %s" % (len(name), os.fsencode(name), content))
    except (Unknown, OSError, KeyError, ValueError) as e:
        print(f"unchanged: sources cannot be told: {e}", file=sys.stderr)
        return None
    return hash.hexdigest()


def stamp(name):
    """Returns the file of what has passed, or None if nothing is kept."""
    cache = os.environ.get("DOORBELL_CI_CACHE")
    return cache and pathlib.Path(cache) / "passed" / name.replace("/", "-")


def passed(name, key):
    """Returns true if the last run of this name that passed had this key."""
    file = stamp(name)
    return bool(file and key and file.is_file() and file.read_text() == key)


def keep(name, before, after):
    """Keeps the key of a run that has passed, unless its sources changed meanwhile."""
    file = stamp(name)
    if not file or not before or before != after:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    # A reader has all of it or nothing.
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as new:
        new.write(before)
    os.replace(new.name, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--crate", action="append", default=[])
    parser.add_argument("--word", action="append", default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    now = lambda: key(".", options.crate, [*options.word, *options.command])
    before = now() if stamp(options.name) else None
    if passed(options.name, before):
        print(f"{options.name}: skipped, unchanged since it passed", file=sys.stderr)
        return
    code = subprocess.run(options.command).returncode
    if code == 0:
        keep(options.name, before, now() if before else None)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
