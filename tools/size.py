#!/usr/bin/env python3
"""Counts the lines of the product and of its tests, for each crate: tools/size.sh.

Product are the lines of `crates/*/src` and `bindings/*/src`, with comments and empty lines, but
without what no build of the product compiles: items and modules, with their files, that need
`test`, `fuzzing`, `kani`, `loom` or `miri`. Tests are these, and the folders `tests` and `benches`
of the crate. Crates that exist for tests alone stand below the sum. Only tracked files count.
"""

import pathlib
import re
import subprocess
import sys

DEV = ("conformance", "hostile", "testkit")
# Never set in a build of the product.
NEVER = {"test", "fuzzing", "kani", "loom", "miri"}

# What may look like code and is none: strings, characters, comments that do not nest.
TEXT = re.compile(
    r"""//[^\n]*
    | (?<!\w)(?:[bc]?r)(?P<hash>\#*)".*?"(?P=hash)
    | "(?:[^"\\]|\\.)*"
    | '(?:[^'\\\n]|\\(?:x\w\w|u\{\w+\}|.))'
    | /\*(?:[^/*]|/(?!\*)|\*(?!/))*\*/""",
    re.VERBOSE | re.DOTALL,
)
ATTRIBUTE = re.compile(r"#(!?)\[")
MODULE = re.compile(r"\bmod\s+(?:r#)?(\w+)\s*([;{])")
# Items that end with their first block, or without one.
BLOCK = re.compile(
    r"(?:pub(?:\s*\([^)]*\))?\s+)?"
    r"(?:(?:default|const|async|unsafe|safe|auto|extern)\s+|\"\s*\"\s*)*"
    r"(?:fn|impl|mod|trait|struct|enum|union|macro_rules\s*!|\{|(?:unsafe\s+)?extern)(?!\w)"
)
# Items and statements that end with a semicolon alone.
SEMICOLON = re.compile(
    r"(?:pub(?:\s*\([^)]*\))?\s+)?(?:use|const|static|type|let|extern\s+crate)\b"
)
FIELD = re.compile(r"(?:pub(?:\s*\([^)]*\))?\s+)?\w+\s*:(?!:)")


def blank(text):
    """Returns the text with spaces for strings and comments, at the same places."""

    def spaces(found):
        # What is left of a string shows that there was one.
        it = found[0]
        mark = it[0] if it[0] == '"' else " "
        return mark + re.sub(r"[^\n]", " ", it[1:-1]) + (mark if len(it) > 1 else "")

    # Block comments that nest are blanked from the inside.
    while True:
        text, n = TEXT.subn(spaces, text)
        if "/*" not in text or not n:
            return text


def closing(code, at):
    """Returns the place behind the bracket that closes the one at this place."""
    depth = 0
    for found in re.compile(r"[][(){}]").finditer(code, at):
        depth += 1 if found[0] in "[({" else -1
        if depth == 0:
            return found.end()
    return len(code)


def possible(text):
    """Evaluates a condition of `cfg` for the product: True, False, or None if it may be either."""
    tokens = re.findall(r'\w+|"[^"]*"|[(),=]', text)

    def one():
        name = tokens.pop(0)
        if tokens and tokens[0] == "(":
            tokens.pop(0)
            parts = []
            while tokens[0] != ")":
                if tokens[0] == ",":
                    tokens.pop(0)
                else:
                    parts.append(one())
            tokens.pop(0)
            if name == "not":
                return None if parts[0] is None else not parts[0]
            want = name == "any"
            if want in parts:
                return want
            return None if None in parts else not want
        if tokens and tokens[0] == "=":
            del tokens[:2]
            return None
        return {"true": True, "false": False}.get(name, False if name in NEVER else None)

    return one()


def never(attribute):
    """Returns true for an attribute, without its brackets, of an item that no product has."""
    attribute = attribute.strip()
    if attribute == "test":
        return True
    found = re.fullmatch(r"cfg\s*\((.*)\)", attribute, re.DOTALL)
    return bool(found) and possible(found[1]) is False


def end_of_item(code, at):
    """Returns the place behind the item, field, variant, arm or statement that begins here."""
    block, semicolon = BLOCK.match(code, at), SEMICOLON.match(code, at)
    if semicolon and not (block and re.search(r"\bfn$", block[0])):
        block = None
    # Commas between angle brackets are those of types.
    types = not block and not semicolon and FIELD.match(code, at)
    angles = 0
    while at < len(code):
        c = code[at]
        if c in "([{":
            at = closing(code, at)
            if c == "{" and not semicolon:
                # An arm or a variant may have a comma behind it.
                comma = None if block else re.compile(r"\s*,").match(code, at)
                if block or comma or not re.compile(r"\s*[.?;]").match(code, at):
                    return comma.end() if comma else at
            continue
        if c in ")]}":
            return at
        if types and c == "<":
            angles += 1
        elif types and c == ">" and code[at - 1] not in "-=":
            angles -= 1
        elif c == ";" or (c == "," and not block and not semicolon and angles == 0):
            return at + 1
        at += 1
    return at


class File:
    """A file of Rust: the lines that no product has, and the modules that it declares."""

    def __init__(self, path):
        text = path.read_text()
        self.lines = text.count("\n") + (not text.endswith("\n") and text != "")
        self.whole = False
        # (path of names, the `path` attribute, true if it is of tests)
        self.modules = []
        cut = bytearray(self.lines)
        code = blank(text) if "mod" in text or "#" in text else ""
        starts = []
        at = 0
        while found := ATTRIBUTE.search(code, at):
            first, end = found.start(), closing(code, found.end() - 1)
            # The attributes of one item.
            attributes = [text[found.end() : end - 1]]
            if found[1]:
                self.whole |= never(attributes[0]) and not re.search(r"[^\s#!]", code[:first])
                at = end
                continue
            while more := re.compile(r"\s*#\[").match(code, end):
                end = closing(code, more.end() - 1)
                attributes.append(text[more.end() : end - 1])
            item = re.compile(r"\s*").match(code, end).end()
            paths = [re.fullmatch(r'\s*path\s*=\s*"(.*)"\s*', a) for a in attributes]
            starts.append((item, next((p[1] for p in paths if p), None)))
            at = item
            if any(map(never, attributes)):
                last = end_of_item(code, item)
                from_line = text.count("\n", 0, first)
                # Doc comments are the item's.
                above = text[: text.rfind("\n", 0, first) + 1].split("\n")[:-1]
                while above and above.pop().lstrip().startswith("///"):
                    from_line -= 1
                to_line = text.count("\n", 0, last - 1)
                cut[from_line : to_line + 1] = b"\1" * (to_line + 1 - from_line)
                at = max(last, item)
        self.tests = self.lines if self.whole else sum(cut)
        self.declare(code, dict(starts), cut)

    def declare(self, code, paths, cut):
        """Takes the modules that have files, with those inside of modules with a block."""
        open_until = []
        for found in MODULE.finditer(code):
            while open_until and found.start() >= open_until[-1][1]:
                open_until.pop()
            if found[2] == "{":
                open_until.append((found[1], closing(code, found.end() - 1)))
                continue
            # A visibility stands before the word.
            head = code.rfind("\n", 0, found.start()) + 1
            own = [p for at, p in paths.items() if head <= at <= found.start() and p]
            names = [name for name, _ in open_until] + [found[1]]
            tests = self.whole or bool(cut[code.count("\n", 0, found.start())])
            self.modules.append((names, own[0] if own else None, tests))


def walk(path, tests, root, files, seen):
    """Visits a file of a crate and its modules. `seen` has the lines of tests of each file."""
    if path not in files or seen.get(path, files[path] + 1) <= (files[path] if tests else -1):
        return
    file = File(path)
    lines = file.lines if tests else file.tests
    # Declared twice, it is product.
    if path in seen and seen[path] <= lines:
        return
    seen[path] = lines
    own = root or path.name == "mod.rs"
    directory = path.parent if own else path.parent / path.stem
    for names, at, of_tests in file.modules:
        inner = directory.joinpath(*names[:-1])
        if at:
            # Beside the file, or in the folder of the module with a block that declares it.
            candidates = [(inner if len(names) > 1 else path.parent) / at]
        else:
            candidates = [inner / f"{names[-1]}.rs", inner / names[-1] / "mod.rs"]
        for candidate in candidates:
            walk(candidate, tests or of_tests, bool(at), files, seen)


def count(root):
    """Yields name, lines of product and lines of tests of each crate."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", "crates/*.rs", "bindings/*.rs"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    crates = {}
    for name in filter(None, listed):
        top, crate, part, *_ = name.split("/")
        if part in ("src", "tests", "benches") and (root / name).is_file():
            files = crates.setdefault((top, crate), {"src": {}, "tests": {}, "benches": {}})
            path = root / name
            text = path.read_bytes()
            files[part][path] = text.count(b"\n") + (text[-1:] not in (b"\n", b""))
    for (top, crate), files in crates.items():
        src, seen = files["src"], {}
        directory = root / top / crate / "src"
        for path in src:
            # Programs in src/bin are roots too.
            if path.parent == directory / "bin" or path in (
                directory / "lib.rs",
                directory / "main.rs",
            ):
                walk(path, False, True, src, seen)
        for path in src:
            if path not in seen:
                print(f"size: {path.relative_to(root)}: no module, product", file=sys.stderr)
        tests = sum(seen.values())
        product = sum(src.values()) - tests
        yield crate, product, tests + sum([*files["tests"].values(), *files["benches"].values()])


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    rows = sorted(count(root))
    line = lambda name, a, b: print(f"{name:<12} {a:>8} {b:>8}")
    line("crate", "product", "tests")
    product = [r for r in rows if r[0] not in DEV]
    for row in product:
        line(*row)
    total = sum(r[1] for r in product)
    line("sum", total, sum(r[2] for r in product))
    for name, all, tests in rows:
        if name in DEV:
            # What has no product.
            line(name, 0, all + tests)
    print(total)


if __name__ == "__main__":
    main()
