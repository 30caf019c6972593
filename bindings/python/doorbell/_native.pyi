from collections.abc import Callable
from typing import NoReturn

VERSION_AND_COMMIT: str

def run(
    args: list[str], progress: Callable[[int, int], object] | None = None, /
) -> tuple[int, str | None, str, str]:
    """Runs a command. Returns exit code and output, or None, place and text of an error.
    `progress` gets how much is done, and of how much."""

def main(program: list[str], args: list[str], /) -> NoReturn:
    """Runs a command, the program's name first, and ends. `program` starts such a process."""
