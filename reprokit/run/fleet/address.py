"""What ``--on`` takes. Light: the command line asks before anything is imported for a run."""

from __future__ import annotations

from reprokit.core.errors import UsageError

HERE = "ray"


def check_address(on: str) -> None:
    """Raise UsageError for what ``--on`` does not take."""
    if on != HERE and not on.startswith("ray://"):
        raise UsageError(f"--on {on}: expected ray (the cluster of this machine, or RAY_ADDRESS) or ray://HOST:PORT")
    port = on.rpartition(":")[2]
    if on != HERE and not (port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(
            f"--on {on}: names no port; Ray's clients are served on 10001 by default: {on.rstrip('/:')}:10001"
        )
