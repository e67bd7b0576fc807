"""Which launcher ``--on`` names. Each launcher's module is imported when it is named."""

from __future__ import annotations

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.core.text import whole_number
from reprokit.run.launch.launcher import Launcher

FORMS = {
    "command": "command:TEMPLATE",
    "ssh": "ssh HOST[,HOST]",
    "slurm": "slurm[:OPTIONS]",
    "kubernetes": "kubernetes:CONTEXT/NAMESPACE?template=FILE",
    "ray": "ray, ray://HOST:PORT",
}
"""What ``--on`` takes, by kind."""


def kind_of(on: str) -> tuple[str, str]:
    """The kind of the launcher that ``--on`` names, and what follows it. Raises UsageError."""
    word, _, rest = on.strip().partition(" " if on.strip().startswith("ssh ") else ":")
    if word not in FORMS or (word in ("command", "ssh") and not rest.strip()):
        forms = "; ".join(FORMS.values())
        raise UsageError(f"--on {on}: expected one of {forms}{near(word, FORMS, prefix='; ')}")
    port = whole_number(on.rpartition(":")[2]) or 0
    if word == "ray" and on != "ray" and not (on.startswith("ray://") and 0 < port < 65536):
        raise UsageError(
            f"--on {on}: expected ray (the cluster of this machine, or RAY_ADDRESS) or ray://HOST:PORT, "
            "where the port of Ray's clients is 10001 by default"
        )
    return word, rest.strip()


def open_launcher(on: str) -> Launcher:
    """The launcher that ``--on`` names, ready to start jobs. Raises UsageError, EngineError."""
    kind, rest = kind_of(on)
    if kind == "command":
        from reprokit.run.launch.processes import CommandLauncher

        return CommandLauncher(rest)
    if kind == "ssh":
        from reprokit.run.launch.processes import SshLauncher

        return SshLauncher(rest)
    if kind == "ray":
        from reprokit.run.launch.ray_cluster import RayLauncher

        return RayLauncher(on)
    if kind == "slurm":
        from reprokit.run.launch.slurm import SlurmLauncher

        return SlurmLauncher(rest)
    from reprokit.run.launch.kubernetes import KubernetesLauncher

    return KubernetesLauncher(rest)
