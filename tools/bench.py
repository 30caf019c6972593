#!/usr/bin/env python3
"""Counts the instructions that a simulated packet takes, with Callgrind: exact, on any machine.

    tools/bench.py PROGRAM          prints them, and those of each part of the program
    tools/bench.py --check PROGRAM  fails where one is more than 3 % over the record, and names the
                                    parts that grew
    tools/bench.py --write PROGRAM  records them, here and in docs/benchmarks.md
    tools/bench.py --growth PROGRAM prints how they grow with queues, sizes and flows, for mlx5

Each scenario runs twice, for different lengths, and the difference is divided by that of the
packets: start, preparation and output drop out. A run without the search for limits is counted.
glibc copies in long strings of bytes (`rep movsb`) from some length on, and Callgrind counts an
instruction for each byte of those; the threshold is set out of reach. A part is a module of ours,
with what the compiler has put into its functions.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOOLS = Path(__file__).parent
RECORD = TOOLS / "bench.json"
DOCUMENT = TOOLS.parent / "docs/benchmarks.md"
# Scenario, key of its length, two lengths in the steady state, and what else is set.
SCENARIOS = {
    "mlx5-single-stream": ("traffic.packets", 24_000, 72_000, []),
    "mlx5-full-rate": ("traffic.packets", 192_000, 384_000, []),
    # No frame is lost, so that all that arrive count alike.
    "mlx5-receive": ("traffic.duration", 2, 4, ["traffic.load=13"]),
    "e1000-pktgen": ("traffic.packets", 24_000, 48_000, []),
    "axienet-saturated": ("traffic.duration", 50, 100, []),
    "ibmveth-send": ("traffic.duration", 25, 50, []),
    "ibmvnic-transactions": ("traffic.duration", 6, 12, []),
}
# What mlx5-full-rate has more of, as settings of each value.
GROWTH = {
    "queues": ("cpu.cores={0} run.cores={0}", [1, 8, 24, 64, 252]),
    "bytes": ("run.cores=1 traffic.size={0}", [64, 512, 1518, 9000]),
    "flows": ("run.cores=1 traffic.flows={0}", [1, 64, 4096, 65535]),
}
# The compiler divides a crate into units by all that is in it: a change elsewhere in it moves a
# number by up to 2 %.
BOUND = 1.03
FAR = 1 << 40
TUNABLES = ":".join(f"glibc.cpu.x86_rep_{copy}_threshold={FAR}" for copy in ("movsb", "stosb"))
OTHERS = {
    "copies": re.compile(r"^_*mem(cpy|move|set|cmp)"),
    "allocator": re.compile(r"malloc|realloc|calloc|^_?(int_)?c?free|unlink_chunk|^__rust_|__rdl_"),
}


def part(function):
    """Names the part of the program that a function belongs to."""
    ours = re.search(r"doorbell_(\w+)((?:::[a-z]\w*)*)", function)
    if ours:
        # The last name is the function's, unless a type came before it.
        modules = ours[2].split("::")[1:]
        if function[ours.end() :].lstrip("'\"")[:2] != "::" and len(modules) > 1:
            modules = modules[:-1]
        return "::".join([ours[1], *modules[:2]])
    return next((name for name, of in OTHERS.items() if of.search(function)), "others' code")


def parts(profile):
    """Adds up the instructions of a profile by part."""
    counted = Counter()
    names = {}
    of = None
    called = False

    def named(text):
        # A name is written where it comes first, and has its number from then on.
        number, _, name = text.rstrip().partition(" ")
        if name:
            names[number] = part(name)
        return names[number]

    for line in profile:
        if line.startswith("fn="):
            of = named(line[3:])
        elif called:
            # What the called function took is counted there.
            called = False
        elif line.startswith("calls="):
            called = True
        elif line.startswith("cfn="):
            named(line[4:])
        elif line[:1] in "+-*0123456789" and of:
            counted[of] += int(line.split()[1])
    return counted


def run(program, scenario, length, more=()):
    """Returns the packets of a run, and the instructions of the whole program by part."""
    key, *_, settings = SCENARIOS[scenario]
    with tempfile.NamedTemporaryFile("r", suffix=".callgrind") as profile:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile.name}", program]
            + ["run", scenario, "--no-limits", "--quiet", "--format=json", f"--set={key}={length}"]
            + [f"--set={setting}" for setting in [*settings, *more]],
            env={**os.environ, "GLIBC_TUNABLES": TUNABLES},
            capture_output=True,
            text=True,
        )
        total = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode or not total:
            sys.exit(f"bench: {program}, {scenario}: {done.stderr}")
        # A part that got lost would be one that nobody is told of.
        counted = parts(profile)
        if sum(counted.values()) != int(total[1]):
            sys.exit(f"bench: {scenario}: the parts are {sum(counted.values())} of {total[1]}")
    return json.loads(done.stdout)["packets"], counted


def slope(program, scenario, more=(), times=1):
    """Returns the instructions that a packet takes, by part."""
    _, short, long, _ = SCENARIOS[scenario]
    lengths = (short * times, long * times)
    (few, before), (many, after) = (run(program, scenario, n, more) for n in lengths)
    by_part = {of: (after[of] - before[of]) / (many - few) for of in {*before, *after}}
    return {of: round(n, 1) for of, n in sorted(by_part.items(), key=lambda p: -p[1])}


def total(by_part):
    """Adds up the parts."""
    return sum(by_part.values())


def growth(program):
    """Prints how the instructions of a packet of mlx5 grow."""
    rows = [(what, form, n) for what, (form, values) in GROWTH.items() for n in values]

    def row(of):
        what, form, n = of
        # Each of many queues has to come to its steady state.
        times = max(1, n // 24) if what == "queues" else 1
        return total(slope(program, "mlx5-full-rate", form.format(n).split(), times))

    with ThreadPoolExecutor(os.cpu_count()) as several:
        for (what, _, n), counted in zip(rows, several.map(row, rows), strict=True):
            print(f"{n:6,} {what:8} {counted:7,.0f}", flush=True)


def check(counted, recorded):
    """Returns what is over the record, a line each."""
    lines = []
    for scenario, by_part in counted.items():
        had = recorded[scenario]
        if total(by_part) <= BOUND * total(had):
            continue
        grown = {of: n - had.get(of, 0) for of, n in by_part.items()}
        grown = sorted(((n, of) for of, n in grown.items() if n >= 1), reverse=True)
        lines += [
            f"{scenario}: {total(by_part):,.0f} instructions a packet, recorded are "
            f"{total(had):,.0f}; of the difference:"
        ] + [f"    {n:+8,.0f}  {of}" for n, of in grown[:8]]
    return lines


def write(counted):
    """Records what was counted, in a file and in the document."""
    # Below one instruction a part says nothing.
    kept = {s: {of: n for of, n in p.items() if abs(n) >= 1} for s, p in counted.items()}
    for scenario, by_part in kept.items():
        by_part["rest"] = round(total(counted[scenario]) - total(by_part), 1)
    RECORD.write_text(json.dumps(kept, indent=1) + "\n")
    rows = [f"| `{s}` | {total(p):,.0f} | {greatest(p)} |" for s, p in counted.items()]
    document = DOCUMENT.read_text()
    head = "| scenario | instructions | most of them in |\n|---|---|---|\n"
    begin = document.index(head) + len(head)
    end = document.index("\n\n", begin)
    DOCUMENT.write_text(document[:begin] + "\n".join(rows) + document[end:])


def greatest(by_part):
    """Names the four parts that take most."""
    most = sorted(by_part.items(), key=lambda p: -p[1])[:4]
    return ", ".join(f"{of} {n:,.0f}" for of, n in most)


def main():
    *option, program = sys.argv[1:] or sys.exit(__doc__)
    if option not in ([], ["--check"], ["--write"], ["--growth"]):
        sys.exit(__doc__)
    if option == ["--growth"]:
        growth(program)
        return
    with ThreadPoolExecutor(os.cpu_count()) as several:
        rows = several.map(lambda scenario: slope(program, scenario), SCENARIOS)
        counted = dict(zip(SCENARIOS, rows, strict=True))
    for scenario, by_part in counted.items():
        print(f"{scenario:24} {total(by_part):9,.0f}")
        if not option:
            print("".join(f"    {n:9,.1f}  {of}\n" for of, n in by_part.items() if n >= 1))
    if option == ["--write"]:
        write(counted)
    elif option and (lines := check(counted, json.loads(RECORD.read_text()))):
        sys.exit("bench: more than 3 % over tools/bench.json:\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
