"""Which launcher ``--on`` names. Each launcher's module is imported when it is named."""

from __future__ import annotations

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.run.launch.launcher import Launcher

FORMS = {
    "command": "command:TEMPLATE",
    "ssh": "ssh HOST[,HOST]",
    "slurm": "slurm[:OPTIONS]",
    "kubernetes": "kubernetes[:CONTEXT/NAMESPACE]",
    "ray": "ray, ray://HOST:PORT",
}
"""What ``--on`` takes, by kind."""


def kind_of(on: str) -> tuple[str, str]:
    """The kind of the launcher that ``--on`` names, and what follows it. Raises UsageError."""
    word, _, rest = on.strip().partition(" " if on.strip().startswith("ssh ") else ":")
    if word not in FORMS or (word in ("command", "ssh") and not rest.strip()):
        forms = "; ".join(FORMS.values())
        raise UsageError(f"--on {on}: expected one of {forms}{near(word, FORMS, prefix='; ')}")
    return word, rest.strip()


def open_launcher(on: str) -> Launcher:
    """The launcher that ``--on`` names, ready to start jobs. Raises UsageError, EngineError."""
    kind, rest = kind_of(on)
    if kind == "command":
        from reprokit.run.launch.processes import CommandLauncher

        return CommandLauncher(rest)
    raise UsageError(f"--on {on}: this version has no launcher {kind}")
