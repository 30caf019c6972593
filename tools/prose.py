#!/usr/bin/env python3
"""Checks the form of prose: doc comments, line widths, commit subjects. Part of `make check`.

Refused are Rust doc comments that begin with What, Whether, How, Where or When, lines of more
than 100 columns in Rust, Python, shell and TOML files, and commit subjects of more than 72
characters or with `wip` in front, from the commit on that added this file.
`--count` prints the number of faults for each crate or directory instead.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 100
SUBJECT = 72
KINDS = (".rs", ".py", ".sh", ".toml")
SHEBANG = re.compile(rb"#!.*\b(sh|bash|python3)\b")
SKIPPED = re.compile(r"(^|/)(vendor|snapshots)/|\.lock$")
DOC = re.compile(r"\s*(///(?!/)|//!) ?(.*)")
RELATIVE = re.compile(r"\W*(What|Whether|How|Where|When)\b")


def git(*arguments):
    """Returns the output of a git command, or nothing if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def files():
    """Yields the path of each file that is checked."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in sorted(filter(None, names)):
        path = ROOT / name
        if SKIPPED.search(name) or not path.is_file():
            continue
        if name.endswith(KINDS):
            yield name
        elif "." not in path.name:
            with path.open("rb") as file:
                if SHEBANG.match(file.readline()):
                    yield name


def faults_of(name, text):
    """Yields line and description of each fault of a file."""
    comment = None  # The marker of the doc comment that the previous line belongs to.
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > WIDTH:
            yield number, f"{len(line)} columns; allowed are {WIDTH}"
        doc = DOC.match(line) if name.endswith(".rs") else None
        if doc and doc[1] != comment and RELATIVE.match(doc[2]):
            word = RELATIVE.match(doc[2])[1]
            yield number, f"a doc comment begins with `{word}`; begin with a verb or a noun"
        comment = doc[1] if doc else None


def subjects():
    """Yields commit and description of each fault of a commit subject."""
    added = git("log", "--diff-filter=A", "--format=%H", "--", "tools/prose.py").split()
    if not added:
        return
    commits = git("log", "--no-merges", "--format=%h %s", added[-1] + "..HEAD")
    commits += git("log", "-1", "--format=%h %s", added[-1])
    for line in commits.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT:
            yield commit, f"the subject has {len(subject)} characters; allowed are {SUBJECT}"
        if subject.lower().startswith("wip"):
            yield commit, "the subject begins with `wip`"


def group(name):
    """Returns the crate or directory that a file is counted for."""
    parts = pathlib.PurePath(name).parts
    return "/".join(parts[:2]) if parts[0] == "crates" else parts[0]


def main():
    """Prints all faults, or their counts. Returns the exit code."""
    counts = collections.Counter()
    count = sys.argv[1:] == ["--count"]
    for name in files():
        for line, what in faults_of(name, (ROOT / name).read_text("utf-8")):
            counts[group(name), what.split(" ")[0] == "a"] += 1
            if not count:
                print(f"{name}:{line}: {what}")
    for commit, what in subjects():
        counts["commits", True] += 1
        print(f"{commit}: {what}")
    if count:
        for of in sorted({of for of, _ in counts}):
            print(f"{of:<24} {counts[of, True]:>5} sentences {counts[of, False]:>5} lines")
    elif counts:
        print(f"prose: {counts.total()} faults", file=sys.stderr)
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
