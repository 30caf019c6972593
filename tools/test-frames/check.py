#!/usr/bin/env python3
"""Runs the Python lines of a chapter against the files that its commands write.

    check.py CHAPTER [--write]

Each `sweep --out` of two keys in a console block is run in a new directory, then each `python`
block. What it prints must be the `text` block behind it; --write puts it there. The libraries must
give the same numbers as the table that the command prints.
"""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import duckdb
import pandas
import polars

BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.S)


def printed(code, names):
    """Returns what a block prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "the chapter", "exec"), names)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def table(line):
    """Returns the numbers of a sweep's table, by the values of its two keys."""
    shown = subprocess.run([*line, "--format", "json"], capture_output=True, text=True, check=True)
    json = pandas.read_json(io.StringIO(shown.stdout), typ="series")
    (over,), (across,) = json["over"], json["across"]
    (what,) = json["rows"][0]["values"]
    found = {}
    for row in json["rows"]:
        for value, number in row["values"][what].items():
            found[float(row["keys"][over]), value] = number
    return over, across, what, found


def main():
    chapter = pathlib.Path(sys.argv[1]).resolve()
    text = chapter.read_text()
    lines = [line[2:].split() for line in text.splitlines() if line.startswith("$ doorbell sweep")]
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        for line in (line for line in lines if {"--across", "--out"} <= set(line)):
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
            file = line[line.index("--out") + 1]
            over, across, what, wanted = table(line[: line.index("--out")])
            query = f'select "{over}", "{across}", "{what}" from \'{file}\''
            frames = {
                "duckdb": duckdb.sql(query).fetchall(),
                "pandas": pandas.read_parquet(file)[[over, across, what]].itertuples(
                    index=False, name=None
                ),
                "polars": polars.read_parquet(file).select(over, across, what).iter_rows(),
            }
            for library, rows in frames.items():
                got = {(float(a), b): value for a, b, value in rows}
                assert got == wanted, f"{library}: {got}, but the table has {wanted}"
        names = {}
        new, at, blocks = "", 0, 0
        for block in BLOCK.finditer(text):
            out = printed(block[1], names)
            new += text[at : block.start()] + f"```python\n{block[1]}```\n\n```text\n{out}```\n"
            at, blocks = block.end(), blocks + 1
        new += text[at:]
    assert lines and blocks, f"{chapter} has no commands or no Python"
    if "--write" in sys.argv:
        chapter.write_text(new)
    elif new != text:
        sys.exit(f"{chapter.name}: its Python prints something else; check.py --write writes it")


main()
