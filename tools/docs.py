#!/usr/bin/env python3
"""Makes the tables of docs/*.md anew, or checks that they are as the commands make them.

    tools/docs.py [--check] FILE...

A table stands between two comments, the first of which names its command:

    <!-- made by: doorbell sweep ... -->
    <!-- end -->

`doorbell` is target/release/doorbell, which must have been built. With --check nothing is
written, and the exit code is 1 if anything would change.
"""

import difflib
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- made by: doorbell (.*?) -->\n).*?(<!-- end -->)", re.S)


def made(match):
    command = [str(ROOT / "target/release/doorbell"), *shlex.split(match[2].replace("\n", " ")), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr}")
    body = done.stdout if "markdown" in match[2] else f"```\n{done.stdout.strip(chr(10))}\n```\n"
    return f"{match[1]}\n{body}\n{match[3]}"


def main():
    check = "--check" in sys.argv[1:]
    stale = False
    for name in (a for a in sys.argv[1:] if a != "--check"):
        path = pathlib.Path(name)
        old = path.read_text()
        new = BLOCK.sub(made, old)
        if new == old:
            continue
        if check:
            stale = True
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "made anew"))
        else:
            path.write_text(new)
            print(f"{name}: tables made anew")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
