def run(args: list[str], /) -> tuple[int, str | None, str, str]:
    """Runs a command. Returns exit code and output, or None, place and text of an error."""
