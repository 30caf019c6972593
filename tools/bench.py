#!/usr/bin/env python3
"""Counts the instructions that a simulated packet takes, with Callgrind: exact, on any machine.

    tools/bench.py PROGRAM...

Each scenario runs twice, for different lengths, and the difference is divided by that of the
packets: start, preparation and output drop out. A run without the search for limits is counted.
glibc copies in long strings of bytes (`rep movsb`) from some length on, and Callgrind counts an
instruction for each byte of those; the threshold is set out of reach.
"""

import json
import os
import re
import subprocess
import sys

# Scenario, key of its length, and two lengths in the steady state.
SCENARIOS = [
    ("mlx5-single-stream", "traffic.packets", 96_000, 192_000),
    ("mlx5-full-rate", "traffic.packets", 192_000, 384_000),
    ("e1000-pktgen", "traffic.packets", 24_000, 48_000),
    ("axienet-saturated", "traffic.duration", 100, 200),
    ("ibmveth-send", "traffic.duration", 25, 50),
    ("ibmvnic-transactions", "traffic.duration", 6, 12),
]
FAR = 1 << 40
TUNABLES = ":".join(f"glibc.cpu.x86_rep_{copy}_threshold={FAR}" for copy in ("movsb", "stosb"))


def run(program, scenario, key, length):
    """Returns the packets of a run, and the instructions of the whole program."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program]
        + ["run", scenario, "--no-limits", "--quiet", "--format=json", f"--set={key}={length}"],
        env={**os.environ, "GLIBC_TUNABLES": TUNABLES},
        capture_output=True,
        text=True,
    )
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not counted:
        sys.exit(f"bench: {program}, {scenario}: {done.stderr}")
    return json.loads(done.stdout)["packets"], int(counted[1])


def main():
    programs = sys.argv[1:]
    if not programs:
        sys.exit(__doc__)
    # A program of cargo's is known by its profile.
    names = [os.path.basename(os.path.dirname(os.path.abspath(p))) for p in programs]
    print("instructions a packet".ljust(24), *(name.rjust(10) for name in names))
    for scenario, key, short, long in SCENARIOS:
        row = []
        for program in programs:
            (few, before), (many, after) = (run(program, scenario, key, n) for n in (short, long))
            row.append(f"{(after - before) / (many - few):10,.0f}")
        print(scenario.ljust(24), *row, flush=True)


if __name__ == "__main__":
    main()
