"""Exceptions, and the call of a command that raises them."""

import json
import unicodedata
from typing import Any

from . import _native


def _visible(text: str) -> str:
    """Returns text as a terminal may get it: what acts on one, or has no form, as an escape."""
    return "".join(
        f"\\u{{{ord(c):x}}}" if c not in "\n\t" and unicodedata.category(c)[0] == "C" else c
        for c in text
    )


class Error(Exception):
    """A command without a result: a run that got stuck, a disk that is full."""

    def __init__(self, text: str) -> None:
        super().__init__(_visible(text))


class InputError(Error, ValueError):
    """Wrong input. The text says what is allowed.

    Attributes:
        place: the file and line, or the option, that has to change; empty if none is known.
        file: the file, if `place` is one with a line.
        line: its line, from 1 on.
        what: the text without the place.
    """

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


def command(*args: str) -> str:
    """Returns what a command prints."""
    code, out, place, what = _native.run(list(args))
    if out is not None:
        return out
    if code == 2:
        raise InputError(place, what)
    raise Error(f"{place}: {what}" if place else what)


def result(*args: str) -> dict[str, Any]:
    """Returns the result of a command, as `doorbell schema result` describes it."""
    found: dict[str, Any] = json.loads(command(*args, "--format", "json", "--quiet"))
    return found
