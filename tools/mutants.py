#!/usr/bin/env python3
"""Mutation testing of the packet path with one build: each mutant stands behind a switch.

    tools/mutants.py [--only REGEX] [--again RESULT...] [--scratch DIR] [--jobs N]

The mutants are those of `cargo mutants --list` (27.1). A copy of the tree in DIR has each of them
in its place, as `if ::mutant_switch::on(N) { mutant } else { original }`. A mutant that does not
compile there is unviable. One in a constant or in the length of an array is left to cargo-mutants
("apart"). Each test runs once alone and notes which mutants it reaches. Then each mutant meets the
tests that reach it until one fails: alone with a few quick ones, and with other mutants in all that
are left. A test that fails with many mutants runs again with half of them, down to one. First come
the tests of the crates, of `doorbell-conformance` and of `doorbell-hostile`, for the survivors
those of `doorbell-sim` and `doorbell-systems`. None of them needs QEMU, root or the network.

Each result is a line of DIR/results.jsonl. --only takes the mutants whose names match, --again
those with such a result in the last run. A name holds a line number, so a new test goes into a file
of its own.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATES = ["packet", "moderation", "drivers", "devices"]
STAGES = [CRATES, ["conformance", "hostile"], ["sim", "systems"]]
# The tests that a mutant meets alone and the seconds that one may take, the mutants in one run, and
# the seconds that any test may take.
FEW, SHORT, GROUP, LONG = 20, 0.05, 48, 20
# It asks for no result, and each mutant that hangs in it takes minutes.
UNUSED = ("fuzz_corpora::corpora_run_through_their_bodies",)
# The nodes of the syntax that stand for a mutant of a genre, and those that the compiler evaluates.
NODES = {
    "BinaryOperator": ("binary_expression", "compound_assignment_expr", "let_chain"),
    "UnaryOperator": ("unary_expression",),
    "StructField": ("struct_expression",),
    "MatchArm": ("match_arm",),
    "MatchArmGuard": ("match_pattern",),
    "FnValue": ("function_item",),
}
CONSTANT = ("const_item", "static_item", "array_type", "const_block", "enum_variant")


def parser(scratch):
    """The parser that finds the operands of an operator. pip brings it once."""
    requirements = ROOT / "tools/mutants/requirements.txt"
    place = scratch / f"parser-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    if not place.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--root-user-action=ignore"]
        pip += ["--require-hashes", "--only-binary=:all:", "--target", place, "-r", requirements]
        subprocess.run(pip, check=True)
    sys.path.insert(0, str(place))
    import tree_sitter
    import tree_sitter_rust

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))


class Source:
    """A file, its mutants, and the text that has them all."""

    def __init__(self, text, parser):
        self.text, self.tree = text, parser.parse(text)
        # The texts of the mutants by where they go: at a body's start, or around bytes.
        self.entries = collections.defaultdict(dict)
        self.choices = collections.defaultdict(dict)
        self.arms = {}
        # Start and end of each mutant's own text in the text made.
        self.spots = []

    def at(self, place):
        lines = self.text.splitlines(True)
        column = lines[place["line"] - 1].decode()[: place["column"] - 1]
        return sum(map(len, lines[: place["line"] - 1])) + len(column.encode())

    def add(self, n, mutant):
        """Takes in a mutant. Returns the reason if it can have no switch."""
        start, end = self.at(mutant["span"]["start"]), self.at(mutant["span"]["end"])
        genre, new = mutant["genre"], mutant["replacement"].encode()
        node, above = None, self.tree.root_node.descendant_for_byte_range(start, end)
        while above and above.type not in CONSTANT:
            length = above.child_by_field_name("length")
            if above.type == "array_expression" and length and length.start_byte <= start:
                return "apart"
            if node is None and above.type in NODES[genre]:
                node = above
            if above.type == "function_item":
                break
            above = above.parent
        opaque = genre == "FnValue" and "impl " in mutant["function"]["return_type"]
        if node is None or opaque or above and above.type in CONSTANT:
            return "apart"
        if node.type == "let_chain":
            return "unviable"
        if genre == "FnValue":
            self.entries[node.child_by_field_name("body").start_byte + 1][n] = new
        elif genre == "MatchArm":
            self.arms[n] = node.child_by_field_name("pattern")
        elif genre == "MatchArmGuard":
            self.choices[start, end][n] = new
        else:
            left, right = self.text[node.start_byte : start], self.text[end : node.end_byte]
            left = b"(%b) " % left if node.type == "binary_expression" else left
            self.choices[node.start_byte, node.end_byte][n] = left + new + right
        return None

    def switched(self, without):
        """The text with all mutants but those in `without`."""
        # Place, order there, text, and where in it a mutant's own is. What ends comes first.
        puts, on = [], b"::mutant_switch::on(%d)"
        for place, mutants in self.entries.items():
            for n in sorted(mutants.keys() - without):
                head = b" if %b { return " % (on % n)
                own = (len(head), len(mutants[n]), n)
                puts.append((place, (1, -len(self.text), n), head + mutants[n] + b"; }", [own]))
        for n, pattern in self.arms.items():
            if n in without:
                continue
            if guard := pattern.child_by_field_name("condition"):
                start, end = guard.start_byte, guard.end_byte
                text = b"!%b && (" % (on % n)
                puts.append((end, (0, -start, 1), b")", []))
            else:
                start = end = pattern.end_byte
                text = b" if !%b" % (on % n)
            puts.append((start, (1, -end, 0), text, [(0, len(text), n)]))
        for (start, end), mutants in self.choices.items():
            if kept := sorted(mutants.keys() - without):
                ons = b" | ".join(on % n for n in kept)
                puts.append((start, (1, -end, 1), b"(if !(%b) { (" % ons, []))
                text, spots = b") }", []
                for n in kept:
                    text += b" else { " if n == kept[-1] else b" else if %b { " % (on % n)
                    spots.append((len(text), len(mutants[n]), n))
                    text += mutants[n] + b" }"
                puts.append((end, (0, -start, 0), text + b")", spots))
        out, done, self.spots = bytearray(), 0, []
        for place, _, text, spots in sorted(puts, key=lambda put: put[:2]):
            out += self.text[done:place]
            self.spots += [(len(out) + a, len(out) + a + length, n) for a, length, n in spots]
            out += text
            done = place
        return bytes(out + self.text[done:])

    def blame(self, error, name):
        """The mutants of this file that an error is about."""
        if error["code"] and error["code"]["code"] == "E0004":
            # An arm that can be off covers nothing. The compiler proposes one after the last.
            spans = [s["byte_start"] for c in error["children"] for s in c["spans"]]
            arms = [(a, n) for a, _, n in self.spots if n in self.arms and a < max(spans)]
            return {max(arms)[1]}
        spans = [s for s in error["spans"] if s["file_name"] == name]
        for primary in (True, False):
            of = [(s["byte_start"], s["byte_end"]) for s in spans if s["is_primary"] == primary]
            if hit := {n for a, b, n in self.spots if any(a < to and at < b for at, to in of)}:
                return hit
        return set()


def written(path, content):
    """Writes a file unless it is so already: cargo looks at times."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def cargo(scratch, *arguments):
    """The messages of a cargo command in the copy, and its code."""
    env = {"RUSTC_BOOTSTRAP": "mutant_switch", "RUSTFLAGS": "--cap-lints=allow"}
    env |= {"CARGO_INCREMENTAL": "1", "CARGO_PROFILE_DEV_DEBUG": "false", **os.environ}
    command = ["cargo", *arguments, "--message-format=json", "--quiet"]
    done = subprocess.run(command, cwd=scratch / "tree", env=env, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def build(scratch, mutants, without):
    """Makes the copy with its switches. `without` gets the mutants that can have none."""
    tree, switch = scratch / "tree", "crates/mutant-switch/"
    git = ["git", "ls-files", "-zco", "--exclude-standard"]
    listed = subprocess.check_output(git, cwd=ROOT, text=True).split("\0")
    copy = {n: (ROOT / n).read_bytes() for n in listed if n and (ROOT / n).is_file()}
    for crate in CRATES:
        name, section = f"crates/{crate}/Cargo.toml", b"\n[dependencies]\n"
        text = copy[name] if section in copy[name] else copy[name] + section
        needs = b'mutant-switch = { path = "../mutant-switch" }\n'
        copy[name] = text.replace(section, section + needs)
    package = b'[package]\nname = "mutant-switch"\nversion = "0.0.0"\nedition = "2024"\n'
    count = b"const COUNT: usize = %d;\n" % (len(mutants) + 1)
    copy[switch + "Cargo.toml"] = package
    copy[switch + "src/lib.rs"] = copy.pop("tools/mutants/switch.rs") + count
    for old in tree.glob("[!.t]*/**/*.rs"):
        if str(old.relative_to(tree)) not in copy:
            old.unlink()
    places, read = tuple(f"crates/{c}/src/" for c in CRATES), parser(scratch)
    code = {n: t for n, t in copy.items() if n.startswith(places) and n.endswith(".rs")}
    sources = {n: Source(t, read) for n, t in code.items()}
    for name in copy.keys() - sources.keys():
        written(tree / name, copy[name])
    for n, mutant in mutants.items():
        if why := sources[mutant["file"]].add(n, mutant):
            without[n] = why
    while True:
        for name, source in sources.items():
            written(tree / name, source.switched(without.keys()))
        packages = (f"-pdoorbell-{c}" for c in CRATES)
        messages, failed = cargo(scratch, "check", "--keep-going", *packages)
        if not failed:
            return
        errors = [m["message"] for m in messages if m.get("message", {}).get("level") == "error"]
        names = [{s["file_name"] for s in error["spans"]} & sources.keys() for error in errors]
        blamed = (sources[n].blame(e, n) for e, ns in zip(errors, names) for n in ns)
        found = set().union(*blamed)
        print(f"cargo check: {len(errors)} errors, {len(found)} mutants out", file=sys.stderr)
        if not found:
            raise SystemExit("".join(error["rendered"] for error in errors))
        without.update(dict.fromkeys(found, "unviable"))


class Tests:
    """The tests of some crates, each with its CPU seconds and the mutants that it reaches."""

    def __init__(self, scratch, crates, jobs):
        packages = [f"-pdoorbell-{c}" for c in crates]
        messages, code = cargo(scratch, "test", "--no-run", "--tests", *packages)
        if code != 0:
            raise SystemExit("mutants: the tests do not build")
        tests, file = [], scratch / f"tests-{crates[-1]}.json"
        for m in messages:
            if m["reason"] == "compiler-artifact" and m["profile"]["test"] and m["executable"]:
                listed = [m["executable"], "--list", "--format=terse"]
                names = subprocess.check_output(listed, text=True).splitlines()
                place = str(pathlib.Path(m["manifest_path"]).parent)
                names = [n.removesuffix(": test") for n in names if n.endswith(": test")]
                tests += [(m["executable"], n, place) for n in names if n not in UNUSED]
        kept = json.loads(file.read_text()) if file.exists() else {}
        stamps = {program: os.stat(program).st_mtime_ns for program, *_ in tests}
        if kept.get("stamps") != stamps:
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                kept = {"stamps": stamps, "tests": list(zip(tests, pool.map(record, tests)))}
            file.write_text(json.dumps(kept))
        self.seconds, self.reached, self.reach = {}, {}, collections.defaultdict(list)
        for test, (result, seconds, reached) in kept["tests"]:
            if result != "passed" or seconds > LONG:
                why = f"{result} in {seconds:.0f} s without a mutant: not used"
                print(f"{test[1]}: {why}", file=sys.stderr)
                continue
            self.seconds[tuple(test)], self.reached[tuple(test)] = seconds, reached
            for n in reached:
                self.reach[n].append(tuple(test))
        # By function and test: how often the test ran, and how often it failed.
        self.tried, self.failed = collections.Counter(), collections.Counter()
        # Mutants and tests that met already.
        self.met = set()

    def limit(self, test):
        return 1 + int(10 * self.seconds[test])

    def alone(self, n, where):
        """Runs the quick tests that are the most likely to fail with a mutant of this function."""

        def cost(test):
            odds = (0.1 + self.failed[where, test]) / (5 + self.tried[where, test])
            return self.seconds[test] / odds

        quick = [test for test in self.reach.get(n, []) if self.seconds[test] < SHORT]
        for test in sorted(quick, key=cost)[:FEW]:
            self.met.add((n, test))
            self.tried[where, test] += 1
            if (result := run(test, self.limit(test), [n])) != "passed":
                self.failed[where, test] += 1
                return {n: (result, test[1])}
        return {}

    def together(self, test, ns):
        """Runs a test with some mutants on at once. Returns those that it kills."""
        if not ns or (result := run(test, self.limit(test), ns)) == "passed":
            return {}
        if len(ns) == 1:
            return {ns[0]: (result, test[1])}
        return self.together(test, ns[::2]) | self.together(test, ns[1::2])


def record(test):
    """The result of a test without a mutant, its seconds, and the mutants that it reaches."""
    with tempfile.TemporaryDirectory() as place:
        result = run(test, LONG, [], place)
        notes = [list(map(int, f.read_text().split())) for f in pathlib.Path(place).iterdir()]
    seconds, reached = sum(note[0] for note in notes) / 1e6, {n for note in notes for n in note[1:]}
    return result, seconds, sorted(reached)


def run(test, limit, mutants, reached=None):
    """Runs a test. The limit is in seconds of the CPU, so it does not matter how busy that is."""
    program, name, place = test
    env = {**os.environ, "CARGO_MANIFEST_DIR": place, "INSTA_UPDATE": "no"}
    env |= {"PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1", "PROPTEST_MAX_SHRINK_ITERS": "0"}
    env |= {"PROPTEST_RNG_SEED": "1"}
    env |= {"MUTANTS_REACHED": reached} if reached else {"MUTANTS": ",".join(map(str, mutants))}
    command, quiet = [program, "--exact", name], subprocess.DEVNULL
    process = subprocess.Popen(
        [*command, "--test-threads=1"], cwd=place, env=env, stdin=quiet, stdout=quiet, stderr=quiet,
        start_new_session=True,
    )  # fmt: skip
    os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit))
    resource.prlimit(process.pid, resource.RLIMIT_AS, (4 << 30, 4 << 30))
    try:
        code = process.wait(60 + 10 * limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    return {0: "passed", -signal.SIGXCPU: "timeout", -signal.SIGKILL: "timeout"}.get(code, "killed")


def table(mutants, results):
    """The score of each crate, in Markdown."""
    kinds = ["killed", "timeout", "survived", "unreached", "unviable", "apart"]
    rows = [["crate", "mutants", *kinds, "score"], ["---"] * 9]
    for crate in [*CRATES, ""]:
        ns = [n for n in results if mutants[n]["package"].endswith(crate)]
        of = [results[n][0] for n in ns]
        counts = [of.count(kind) for kind in kinds]
        score = 100 * sum(counts[:2]) / max(1, sum(counts[:4]))
        rows.append([crate or "all", len(of), *counts, f"{score:.1f} %"])
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--only", type=re.compile, default="")
    options.add_argument("--again", nargs="+", default=[])
    options.add_argument("--scratch", type=pathlib.Path, default=ROOT / "target/mutants")
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    args = options.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    command = ["cargo", "mutants", "--list", "--json", *(f"--package=doorbell-{c}" for c in CRATES)]
    mutants = dict(enumerate(json.loads(subprocess.check_output(command, cwd=ROOT)), 1))
    numbers, file = {m["name"]: n for n, m in mutants.items()}, args.scratch / "results.jsonl"
    # The last line of a mutant counts.
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    results = {numbers[name]: (result, test) for name, result, test in lines if name in numbers}
    todo = [n for n, m in mutants.items() if args.only.search(m["name"])]
    if args.again:
        todo = [n for n in todo if results.get(n, ("new",))[0] in args.again]
    # What is known to be unviable stays out, so that nothing is built again for it.
    without = {n: result for n, (result, _) in results.items() if result == "unviable"}
    build(args.scratch, mutants, without)
    with file.open("a") as out, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:

        def finish(found):
            results.update(found)
            for n, result in found.items():
                print(json.dumps([mutants[n]["name"], *result]), file=out, flush=True)

        if not args.again:
            finish({n: (without.get(n, "unreached"), None) for n in todo})
        for crates in STAGES:
            todo = [n for n in todo if results[n][0] in ("unreached", "survived")]
            tests, wanted = Tests(args.scratch, crates, args.jobs), set(todo)
            finish({n: ("survived", None) for n in todo if n in tests.reach})

            def alone(n):
                where = mutants[n]["file"], (mutants[n]["function"] or {}).get("function_name")
                finish(tests.alone(n, where))

            def together(test):
                ns = [n for n in tests.reached[test] if n in wanted and (n, test) not in tests.met]
                ns = [n for n in ns if results[n][0] == "survived"]
                groups = -(-len(ns) // GROUP)
                for i in range(groups):
                    finish(tests.together(test, ns[i::groups]))

            rest = sorted(tests.seconds, key=tests.seconds.get)
            for work, things in ((alone, todo), (together, rest)):
                for i, _ in enumerate(pool.map(work, things), 1):
                    if i % 500 == 0 or i == len(things):
                        done = f"{work.__name__} {i} of {len(things)}"
                        print(f"{', '.join(crates)}: {done}", file=sys.stderr)
    print(table(mutants, results))


if __name__ == "__main__":
    main()
