from typing import NoReturn

def run(args: list[str], /) -> tuple[int, str | None, str, str]:
    """Runs a command. Returns exit code and output, or None, place and text of an error."""

def main(program: list[str], args: list[str], /) -> NoReturn:
    """Runs a command, the program's name first, and ends. `program` starts such a process."""
