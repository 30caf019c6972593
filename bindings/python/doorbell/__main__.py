"""The program `doorbell`, as `python -m doorbell` and as the script that comes with the package."""

import signal
import sys

from . import _native


def main() -> None:
    """Runs the command line, and ends the process."""
    # The command ends by it and leaves nothing behind. Python would wait for the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _native.main([sys.executable, "-m", "doorbell"], ["doorbell", *sys.argv[1:]])


if __name__ == "__main__":
    main()
