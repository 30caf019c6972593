#!/usr/bin/env python3
"""Builds and runs the fuzz targets, shows what they reach, packs their corpora: see tools/fuzz.sh.

Targets, the longest input of each, its runs and the code that it is about are in fuzz/Cargo.toml.
Seeds are files in fuzz/seeds/TARGET. A corpus of the tree is fuzz/corpora/TARGET.tar.xz: inputs
that reach edges which the seeds do not.

Without a time, a target runs its number of inputs, and the same ones everywhere: those of the tree,
in order of their names, and changes of them drawn from a fixed seed. Operands of comparisons are
not used then, since they may be addresses. A target that has passed with the same sources is not
run again where DOORBELL_CI_CACHE keeps that (tools/unchanged.py). Its sources are those of the
crates that its program calls, and not the code that it is about alone: that runs on other code, and
a change of it leads the same inputs elsewhere.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

import unchanged

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUZZ = ROOT / "fuzz"
LOGS = FUZZ / "target" / "logs"
TOOLCHAIN = os.environ.get("FUZZ_TOOLCHAIN", "nightly")
# Limits: seconds of an input, many where other work comes first; MiB of the process with the
# sanitizer's quarantine.
SECONDS, MEMORY = 300, 2048
# What is in FUZZ that is one target's, or nobody's.
OF_TARGETS = {"seeds", "corpora", "dictionaries", "fuzz_targets", "README.md"}
# Bytes of a corpus in the tree.
PACKED = 150_000


class Target:
    """A fuzz target and its files."""

    def __init__(self, name, settings):
        self.name = name
        self.length = settings.get("length", 4096)
        self.runs = settings["runs"]
        self.about = settings.get("about", [])
        self.seeds = FUZZ / "seeds" / name
        self.packed = FUZZ / "corpora" / f"{name}.tar.xz"
        self.corpus = FUZZ / "corpus" / name
        self.findings = FUZZ / "artifacts" / name
        self.dictionary = FUZZ / "dictionaries" / f"{name}.dict"

    def key(self, toolchain):
        """Returns the hash of what a run with its number of inputs depends on."""
        manifest = tomllib.loads((FUZZ / "Cargo.toml").read_text())
        others = {b["path"] for b in manifest["bin"] if b["name"] != self.name}
        sources = (FUZZ / "fuzz_targets").rglob("*.rs")
        sources = [s for s in sources if str(s.relative_to(FUZZ)) not in others]
        # The program has all dependencies in it, and calls those that it names.
        all = [d for d in manifest["dependencies"] if d.startswith("doorbell-")]
        named = {
            name.replace("_", "-")
            for source in sources
            for name in re.findall(r"\bdoorbell_\w+", source.read_text())
        }
        crates = [d for d in all if d in named] or all
        shared = [path for path in FUZZ.iterdir() if path.name not in OF_TARGETS]
        own = [self.seeds, self.packed, self.dictionary, *sources, *shared, ROOT / "tools/fuzz."]
        own = [str(path.relative_to(ROOT)) for path in own]
        return unchanged.key(ROOT, crates, [self.name, toolchain], own, tests=False)

    def unpack(self, corpus=None):
        """Unpacks the corpus of the tree into the working one, or another."""
        corpus = corpus or self.corpus
        for directory in [corpus, self.findings, LOGS]:
            directory.mkdir(parents=True, exist_ok=True)
        if self.packed.exists():
            subprocess.run(["tar", "-xJf", self.packed, "-C", corpus], check=True)

    def inputs(self):
        """The directories of inputs; libFuzzer adds to the first."""
        return [str(d) for d in [self.corpus, self.seeds] if d.is_dir()]

    def fixed(self, directory):
        """Arguments for the inputs of the tree alone; what is new is left in the directory."""
        old, new = directory / "old", directory / "new"
        self.unpack(old)
        new.mkdir()
        all = sorted(p for d in [self.seeds, old] if d.is_dir() for p in d.iterdir())
        names = directory / "names"
        names.write_text(",".join(map(str, all)))
        return [str(new), f"-seed_inputs=@{names}", f"-runs={self.runs}", "-seed=1", "-use_cmp=0"]


def targets():
    """All targets by name, as fuzz/Cargo.toml has them."""
    manifest = tomllib.loads((FUZZ / "Cargo.toml").read_text())
    settings = manifest["package"]["metadata"].get("fuzz", {})
    names = [b["name"] for b in manifest["bin"]]
    differ = set(settings) ^ set(names)
    if differ:
        sys.exit(f"fuzz/Cargo.toml: targets or settings alone: {', '.join(sorted(differ))}")
    return {name: Target(name, settings[name]) for name in sorted(names)}


def cargo_fuzz(*arguments):
    subprocess.run(["cargo", f"+{TOOLCHAIN}", "fuzz", *arguments], cwd=ROOT, check=True)


def host():
    version = subprocess.run(
        ["rustc", f"+{TOOLCHAIN}", "-vV"], check=True, capture_output=True, text=True
    ).stdout
    return re.search(r"^host: (.*)$", version, re.MULTILINE)[1]


def toolchain():
    """Returns what is known of the compiler and of cargo-fuzz."""
    commands = [["rustc", f"+{TOOLCHAIN}", "-vV"], ["cargo", f"+{TOOLCHAIN}", "fuzz", "--version"]]
    return "".join(
        subprocess.run(c, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for c in commands
    )


def build(chosen, searches):
    """Builds targets. Returns the programs' directory.

    To search, with records of comparisons, and with the address sanitizer, which makes building and
    running take about twice as long.
    """
    options = [] if searches else ["--no-trace-compares", "--sanitizer=none"]
    # By name they are linked one after the other.
    if len(chosen) > len(targets()) // 2:
        cargo_fuzz("build", *options)
    else:
        for name in chosen:
            cargo_fuzz("build", *options, name)
    return FUZZ / "target" / host() / "release"


# ---- runs ----

Run = collections.namedtuple("Run", "target code seconds log found")


def run(target, programs, seconds):
    """Runs a target for so long, or its number of inputs, or until it finds something."""
    with tempfile.TemporaryDirectory() as directory:
        if seconds is None:
            which = target.fixed(pathlib.Path(directory))
        else:
            target.unpack()
            which = [*target.inputs(), f"-max_total_time={seconds}"]
        before = set(target.findings.iterdir())
        command = [
            programs / target.name,
            *which,
            f"-max_len={target.length}",
            f"-timeout={SECONDS}",
            # A slow input is no finding.
            f"-report_slow_units={SECONDS}",
            f"-rss_limit_mb={MEMORY}",
            f"-artifact_prefix={target.findings}/",
            "-print_final_stats=1",
            "-len_control=0",
        ]
        if target.dictionary.exists():
            command.append(f"-dict={target.dictionary}")
        log = LOGS / f"{target.name}.log"
        began = time.monotonic()
        with log.open("wb") as out:
            code = subprocess.run(
                command,
                stdout=out,
                stderr=out,
                env={**os.environ, "ASAN_OPTIONS": "detect_odr_violation=0"},
            ).returncode
    found = sorted(set(target.findings.iterdir()) - before)
    return Run(target, code, time.monotonic() - began, log, found)


def row(r):
    """The cells of a run's row, from what libFuzzer says."""
    said = r.log.read_text(errors="replace")

    def last(pattern):
        all = re.findall(pattern, said)
        return int(all[-1]) if all else None

    first = re.search(r"INITED cov: (\d+)", said)
    runs = last(r"stat::number_of_executed_units:\s+(\d+)") or last(r"^#(\d+)\t")
    edges = last(r"cov: (\d+)")
    new, peak = last(r"stat::new_units_added:\s+(\d+)"), last(r"stat::peak_rss_mb:\s+(\d+)")
    number = lambda n, unit="": "-" if n is None else f"{n:,}{unit}"
    return [
        number(runs),
        number(runs and round(runs / max(r.seconds, 1))),
        number(first and int(first[1])),
        number(edges),
        number(new),
        number(peak, " MB"),
        str(len(r.found)) if r.found or r.code == 0 else "failed",
    ]


def show(names, row, first=False):
    """Prints a row of a table below the names of its columns."""
    width = max(map(len, ["target", *targets()]))
    widths = [width, *(max(len(n), 9) for n in names[1:])]
    line = lambda cells: "  ".join(
        c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))
    )
    if first:
        print(line(names))
        print("  ".join("-" * w for w in widths))
    else:
        print(line(row), flush=True)


def fuzz(chosen, seconds, jobs):
    """Runs targets and prints the table. Returns true if nothing was found."""
    keys, name_of = {}, "fuzz {}".format
    if seconds is None and unchanged.stamp("fuzz"):
        version = toolchain()
        keys = {name: t.key(version) for name, t in chosen.items()}
        same = [name for name, k in keys.items() if unchanged.passed(name_of(name), k)]
        chosen = {name: t for name, t in chosen.items() if name not in same}
        if same:
            print(f"skipped, unchanged since they passed: {', '.join(same)}", flush=True)
        if not chosen:
            return True
    programs = build(chosen, searches=seconds is not None)
    names = ["target", "runs", "runs/s", "edges at start", "at end", "new", "peak RSS", "findings"]
    show(names, [], first=True)
    bad = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        all = [pool.submit(run, t, programs, seconds) for t in chosen.values()]
        for done in concurrent.futures.as_completed(all):
            r = done.result()
            show(names, [r.target.name, *row(r)])
            if r.found or r.code != 0:
                bad.append(r)
            elif r.target.name in keys:
                name = r.target.name
                unchanged.keep(name_of(name), keys[name], r.target.key(version))
    for r in bad:
        said = r.log.read_text(errors="replace").splitlines()
        why = [x for x in said if re.search(r"panicked at|ERROR: |^SUMMARY: |^Base64: ", x)]
        print(f"\n{r.target.name}: exit code {r.code}; the log is {r.log.relative_to(ROOT)}")
        for line in why[:5] or said[-4:]:
            at = said.index(line)
            print(f"    {line}")
            if "panicked at" in line and at + 1 < len(said):
                print(f"    {said[at + 1]}")
        for path in r.found:
            path = path.relative_to(ROOT)
            print(f"  reproduce: cargo +{TOOLCHAIN} fuzz run {r.target.name} {path}")
            print(f"  shorten:   cargo +{TOOLCHAIN} fuzz tmin {r.target.name} {path}")
    return not bad


# ---- corpora ----


def minimise(chosen):
    """Packs of each working corpus the inputs that reach edges which the seeds do not."""
    programs = build(chosen, searches=False)
    for target in chosen.values():
        target.unpack()
        with tempfile.TemporaryDirectory() as out:
            # What the seeds reach is there first.
            seeds = {p.name for p in target.seeds.iterdir()} if target.seeds.is_dir() else set()
            for name in seeds:
                shutil.copy(target.seeds / name, out)
            subprocess.run(
                [
                    programs / target.name,
                    "-merge=1",
                    "-use_counters=0",
                    f"-max_len={target.length}",
                    out,
                    str(target.corpus),
                ],
                check=True,
                stderr=(LOGS / f"{target.name}.merge.log").open("wb"),
                env={**os.environ, "ASAN_OPTIONS": "detect_odr_violation=0"},
            )
            for name in seeds:
                os.remove(os.path.join(out, name))
            n = len(os.listdir(out))
            target.packed.parent.mkdir(exist_ok=True)
            subprocess.run(
                [
                    *("tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0"),
                    *("--numeric-owner", "--mode=0644", "-cJf", target.packed, "-C", out),
                    *("--no-recursion", "--null", "--files-from=-"),
                ],
                input="\0".join(sorted(os.listdir(out))).encode(),
                check=True,
            )
        size = target.packed.stat().st_size
        print(f"{target.name}: {n} inputs beside {len(seeds)} seeds, {size:,} bytes packed")
        if size > PACKED:
            sys.exit(f"{target.packed.relative_to(ROOT)}: more than {PACKED:,} bytes")


# ---- coverage ----


def function_at(path, line, sources):
    """The name of the function whose signature is at a line; None for closures and derives."""
    if path not in sources:
        sources[path] = pathlib.Path(path).read_text().splitlines()
    found = re.search(r"\bfn (\w+)", sources[path][line - 1])
    return found and found[1]


def coverage(chosen):
    """Prints which functions and regions of its own code the inputs of a target reach."""
    llvm = subprocess.run(
        ["rustc", f"+{TOOLCHAIN}", "--print", "target-libdir"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    cov = pathlib.Path(llvm).parent / "bin" / "llvm-cov"
    names = ["target", "functions", "of", "", "regions", "of", ""]
    results, sources = [], {}
    for target in chosen.values():
        if not target.about:
            continue
        target.unpack()
        cargo_fuzz("coverage", target.name, *target.inputs())
        program = next(ROOT.glob(f"**/coverage/*/release/{target.name}"))
        data = FUZZ / "coverage" / target.name / "coverage.profdata"
        paths = [str(ROOT / a) for a in target.about]
        exported = subprocess.run(
            [cov, "export", program, f"-instr-profile={data}", *paths],
            check=True,
            capture_output=True,
        ).stdout
        functions, regions = {}, {}
        # Copies of a generic function are one.
        for f in json.loads(exported)["data"][0]["functions"]:
            path = f["filenames"][0]
            if not any(path.startswith(p) for p in paths):
                continue
            first = f["regions"][0]
            name = function_at(path, first[0], sources)
            if name:
                key = (path, first[0], name)
                functions[key] = functions.get(key, 0) + f["count"]
            for a, b, c, d, count, file, _, kind in f["regions"]:
                if kind == 0 and file == 0 and (name or "derive" not in sources[path][a - 1]):
                    key = (path, a, b, c, d)
                    regions[key] = regions.get(key, 0) + count
        results.append((target, functions, regions))
    show(names, [], first=True)
    for target, functions, regions in results:
        cells = [target.name]
        for all in [functions, regions]:
            reached = sum(1 for n in all.values() if n)
            cells += [f"{reached:,}", f"{len(all):,}", f"{100 * reached // max(len(all), 1)} %"]
        show(names, cells)
    for target, functions, _ in results:
        missed = collections.defaultdict(list)
        for (path, _, name), count in sorted(functions.items()):
            if not count:
                missed[os.path.relpath(path, ROOT)].append(name)
        if missed:
            print(f"\n{target.name} does not reach")
            for path, which in missed.items():
                print(f"  {path}: {', '.join(which)}")


def main():
    all = targets()
    parser = argparse.ArgumentParser(prog="tools/fuzz.sh")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("-s", "--seconds", type=int, help="of each target, from what was found too")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="targets at a time")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--coverage", action="store_true", help="what the inputs reach")
    what.add_argument("--minimise", action="store_true", help="packs the working corpora")
    options = parser.parse_args()
    for name in options.targets:
        if name not in all:
            parser.error(f"{name}: targets are {', '.join(all)}")
    chosen = {n: t for n, t in all.items() if not options.targets or n in options.targets}
    if options.coverage:
        coverage(chosen)
    elif options.minimise:
        minimise(chosen)
    elif not fuzz(chosen, options.seconds, options.jobs):
        sys.exit(1)


if __name__ == "__main__":
    main()
