"""``python -m reprokit``, and what the command ``reprokit`` calls."""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until a command begins, and after it: Python would print where in its imports it was.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))


def main() -> None:
    """Run the command line."""
    from reprokit.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
