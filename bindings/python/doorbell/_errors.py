"""Exceptions, and the call of a command that raises them."""

import difflib
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

from . import _native

# Shows how much is done: True for a line on stderr, or a function of what is done and of how much.
Progress = bool | Callable[[int, int], object]


def _visible(text: str) -> str:
    """Returns text as a terminal may get it: what acts on one, or has no form, as an escape."""
    return "".join(
        f"\\u{{{ord(c):x}}}" if c not in "\n\t" and unicodedata.category(c)[0] == "C" else c
        for c in text
    )


class Error(Exception):
    """A command without a result: a run that got stuck, a disk that is full."""

    __module__ = "doorbell"

    def __init__(self, text: str) -> None:
        super().__init__(_visible(text))


class InputError(Error, ValueError):
    """Wrong input. The text says what is allowed.

    Attributes:
        place: the file and line, or the argument, that has to change; empty if none is known.
        file: the file, if `place` is one with a line.
        line: its line, from 1 on.
        what: the text without the place.
    """

    __module__ = "doorbell"

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place}: {what}" if place else what)
        self.place, self.what = place, what
        self.file: str | None = None
        self.line: int | None = None
        file, _, line = place.rpartition(":")
        if file and line.isdigit():
            self.file, self.line = file, int(line)

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str]]:
        # A worker's exception is sent to its client.
        return InputError, (self.place, self.what)


class UnknownName(Error, KeyError):
    """A number, a column or a key that there is none of. The text has the nearest."""

    __module__ = "doorbell"

    # That of KeyError shows the text as a string of Python.
    __str__ = Exception.__str__


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """Returns the error of a name that is none of the known ones."""
    near = difflib.get_close_matches(name, list(known), 1, 0.0)
    return UnknownName(
        f"no {kind} is called `{name}`" + "".join(f"; the nearest is `{n}`" for n in near)
    )


# The arguments of functions by options of the command, where the names differ.
_ARGUMENTS = {"with": "change", "fault": "faults", "pcap": "capture", "side": "sides"}
_BEGINS = re.compile(r"(--[a-z-]+)(?: `[^`]*`)?: ")
_OPTION = re.compile(r"--([a-z-]+)(?: (?:([\w.]+)(?:=.*)?)?.*)?", re.S)
# What a person is to call, instead of a command.
_CALLS = [
    (re.compile(r"`(?:doorbell )?list --(keys|metrics) ([\w-]+)`"), r"`doorbell.\1('\2')`"),
    (re.compile(r"`(?:doorbell )?list --(keys|metrics)`"), r"`doorbell.\1()`"),
    (re.compile(r"(no profile .*)`doorbell list`"), r"\1`doorbell.profiles()`"),
    (re.compile(r"`doorbell list`"), "`doorbell.scenarios()`"),
    (re.compile(r"invalid value '(.*?)' for '--([a-z-]+)[^']*'"), r"\2 cannot be \1"),
    (re.compile(r"\n\nFor more information, try '--help'\.$"), ""),
]


def _place(place: str) -> str:
    """Returns the argument that an option stands for: `set['pcie.mps']` for `--set pcie.mps=3`."""
    option = _OPTION.fullmatch(place)
    if option is None:
        return place
    name, key = option.groups()
    argument = _ARGUMENTS.get(name, name.replace("-", "_"))
    return f"{argument}[{key!r}]" if key and argument in ("set", "over", "change") else argument


def _words(what: str) -> str:
    for command, call in _CALLS:
        what = command.sub(call, what)
    return what


def _line(done: int, of: int) -> None:
    print(f"\r{done} of {of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def command(*args: str, progress: Progress = False) -> str:
    """Returns what a command prints."""
    tell = _line if progress is True else progress or None
    code, out, place, what = _native.run(list(args), tell)
    if out is not None:
        return out
    if not place and (option := _BEGINS.match(what)):
        place, what = option[1], what[option.end() :]
    place, what = _place(place), _words(what)
    if code == 2:
        raise InputError(place, what)
    raise Error(f"{place}: {what}" if place else what)


def result(*args: str, progress: Progress = False) -> dict[str, Any]:
    """Returns the result of a command, as `doorbell schema result` describes it."""
    out = command(*args, "--format", "json", "--quiet", progress=progress)
    found: dict[str, Any] = json.loads(out)
    return found
