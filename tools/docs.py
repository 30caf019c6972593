#!/usr/bin/env python3
"""Makes the tables and plots of docs/*.md anew, or checks that they are as the commands make them.

    tools/docs.py [--check] FILE...

A table stands between two comments, the first of which names its command. A plot is a file
of its own, beside a comment that names command and file:

    <!-- made by: doorbell sweep ... -->
    <!-- end -->

    <!-- plot made by: doorbell sweep ... --format svg > docs/NAME.svg -->

`doorbell` is target/release/doorbell, which must have been built. With --check nothing is
written, and the exit code is 1 if anything would change.
"""

import concurrent.futures
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- made by: doorbell (.*?) -->\n).*?(<!-- end -->)", re.S)
PLOT = re.compile(r"<!-- plot made by: doorbell (.*?) > (docs/[\w.-]+\.svg) -->", re.S)


def run(arguments):
    command = [
        str(ROOT / "target/release/doorbell"),
        *shlex.split(arguments.replace("\n", " ")),
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def made(match, output):
    text = output[match[2]]
    body = text if "markdown" in match[2] else f"```\n{text.strip(chr(10))}\n```\n"
    return f"{match[1]}\n{body}\n{match[3]}"


def renew(path, name, new, what, check):
    """Whether the file at `path` is not as it is made now. Without `check` it then is."""
    old = path.read_text() if path.exists() else ""
    if new == old:
        return False
    if check:
        sys.stdout.writelines(
            difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "made anew")
        )
    else:
        path.write_text(new)
        print(f"{name}: {what} made anew")
    return True


def main():
    check = "--check" in sys.argv[1:]
    stale = False
    texts = {name: pathlib.Path(name).read_text() for name in sys.argv[1:] if name != "--check"}
    commands = [m[2] for text in texts.values() for m in BLOCK.finditer(text)]
    commands += [m[1] for text in texts.values() for m in PLOT.finditer(text)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        commands = list(dict.fromkeys(commands))
        output = dict(zip(commands, pool.map(run, commands)))
    for name, text in texts.items():
        path = pathlib.Path(name)
        stale |= renew(
            path, name, BLOCK.sub(lambda match: made(match, output), text), "tables", check
        )
        for plot in PLOT.finditer(text):
            if "--format svg" not in plot[1]:
                sys.exit(f"{name}: {plot[2]}: its command lacks --format svg")
            stale |= renew(ROOT / plot[2], plot[2], output[plot[1]], "plot", check)
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
