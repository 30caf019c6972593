#!/usr/bin/env python3
"""Tells where the time of a long run goes: its steps, its tests, its crates.

    times.py run PROGRAM [ARGUMENT...]    the runner of cargo's programs in such a run
    times.py show                         prints what was recorded

DOORBELL_TIMES is the directory of the records, which is made before the run: `steps`, which `step`
of tools/lib.sh writes, and `programs`, a JSON object a line. Crates are those of cargo's reports
(`--timings`) that are newer than the directory's file `began`.

A program of libtest tells the time of each test on an unstable option, which needs RUSTC_BOOTSTRAP
in its environment. A test that runs cargo removes it, since it is another way to build.
"""

import json
import mmap
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time

TIMED = re.compile(rb"(?:(?<=ok)|(?<=FAILED)) <\d+\.\d+s>(?=\n)")
PART = re.compile(rb"(?:(?:ok|FAILED)(?: <?[\d.]*s?>?)?)?$")
TEST = re.compile(rb"^test (.+?)(?: - should panic)? \.\.\. .* <(\d+\.\d+)s>$")
OF_DOCTESTS = b"RUSTDOC_DOCTEST_BIN_PATH"
SHOWN = 10


def has(program, bytes):
    """Returns true if these bytes are in a program."""
    with open(program, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as all:
        return all.find(bytes) >= 0


def by_libtest(program):
    """Returns true for a test program of cargo with libtest's own `main`, not another harness.

    Only libtest has the name of this option; programs of documentation tests lie elsewhere.
    """
    return pathlib.Path(program).parent.name == "deps" and has(program, b"report-time")


def pass_on(pipe, tests):
    """Writes the output of a test program as it comes, without times, which are recorded."""
    line, held = b"", b""
    while True:
        more = os.read(pipe, 65536)
        *lines, line = (line + more).split(b"\n")
        for whole in lines:
            if found := TEST.match(whole):
                tests[found[1].decode(errors="replace")] = float(found[2])
        text = TIMED.sub(b"", held + more)
        # What may be a part of a time waits for the rest.
        end = PART.search(text).start() if more else len(text)
        text, held = text[:end], text[end:]
        while text:
            text = text[os.write(1, text) :]
        if not more:
            return


def run(program, *arguments):
    """Runs a program of cargo in its stead, and records its times. Does not return."""
    directory = os.environ.get("DOORBELL_TIMES")
    timed = bool(directory) and "--list" not in arguments and by_libtest(program)
    environment, tests, out = dict(os.environ), {}, None
    if timed:
        environment["RUSTC_BOOTSTRAP"] = "1"
        arguments = (*arguments, "-Zunstable-options", "--report-time")
        out = subprocess.PIPE
    elif has(program, OF_DOCTESTS):
        # rustdoc tells it to such a program, but not to a runner. It runs each test in a process.
        environment[OF_DOCTESTS.decode()] = os.path.abspath(program)
    began = time.monotonic()
    child = subprocess.Popen([program, *arguments], env=environment, stdout=out)
    # What a terminal sends, the child has too; others send it to this process alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda n, _: child.send_signal(n))
    if timed:
        reader = threading.Thread(target=pass_on, args=(child.stdout.fileno(), tests), daemon=True)
        reader.start()
    code = child.wait()
    if timed:
        # A process that the tests left behind may keep it open.
        reader.join(10)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if directory:
        record = {
            "program": re.sub(r"-[0-9a-f]{16}$", "", os.path.basename(program)),
            # Programs of two packages may have one name.
            "package": os.environ.get("CARGO_PKG_NAME", ""),
            "wall": time.monotonic() - began,
            "cpu": used.ru_utime + used.ru_stime,
            "tests": tests,
        }
        line = json.dumps(record) + "\n"
        with open(pathlib.Path(directory) / "programs", "a") as file:
            file.write(line)
    if code < 0:
        # It ends as the child has ended, without a second dump.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def table(title, rows):
    """Prints rows of seconds and a name, the slowest first."""
    if rows:
        print(f"\n{title}")
        for *seconds, name in rows:
            print("".join(f"{s:>9.1f}" for s in seconds) + f"  {name}")


def crates(directory):
    """Yields seconds and name of each unit that cargo has compiled since the run began."""
    began = (directory / "began").stat().st_mtime
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    for path in (target / "cargo-timings").glob("cargo-timing-*.html"):
        if path.stat().st_mtime < began:
            continue
        text = path.read_text()
        units = re.search(r"^const UNIT_DATA = (\[.*?^\]);$", text, re.MULTILINE | re.DOTALL)
        profile = re.search(r"<td>Profile:</td><td>(.*?)</td>", text)
        for unit in json.loads(units[1]) if units else []:
            what = " ".join(unit["target"].split())
            profiles = f", profile {profile[1]}" if profile else ""
            yield unit["duration"], f"{unit['name']} {what}".rstrip() + profiles


def show():
    directory = pathlib.Path(os.environ["DOORBELL_TIMES"])
    steps, programs = [], []
    if (directory / "steps").exists():
        for line in (directory / "steps").read_text().splitlines():
            seconds, name = line.split("\t", 1)
            steps.append((float(seconds), name))
    if (directory / "programs").exists():
        programs = [json.loads(x) for x in (directory / "programs").read_text().splitlines()]
    name = lambda p: f"{p['package']} {p['program']}".strip()
    table("seconds of each step, as they ended", steps)
    slowest = sorted(programs, key=lambda p: -p["wall"])[:SHOWN]
    table(
        "the slowest test programs: seconds, CPU seconds",
        [(p["wall"], p["cpu"], name(p)) for p in slowest],
    )
    tests = [(s, f"{name(p)} {t}") for p in programs for t, s in p["tests"].items()]
    table("the slowest tests: seconds", sorted(tests, reverse=True)[:SHOWN])
    table("the slowest crates to compile: seconds", sorted(crates(directory), reverse=True)[:SHOWN])


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"] and len(sys.argv) > 2:
        run(*sys.argv[2:])
    elif sys.argv[1:] == ["show"]:
        show()
    else:
        sys.exit(__doc__.split("\n\n")[1])
