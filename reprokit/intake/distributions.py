"""The packages of a draft's systems: each package manager's list, in the names that its distributions use. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reprokit.environment.catalog import OURS
from reprokit.intake.table import table


def lists(apt: Sequence[str], dnf: Sequence[str], systems: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """``environment.apt`` and ``environment.dnf`` for a matrix with these ``systems``; no key where none needs it.

    ``apt`` and ``dnf``: what is to be installed, by Debian's names and by those of RPM distributions. A name of the
    latter for which no name of Debian is known is left out of the list of apt.
    """
    releases = OURS.releases()
    managers = {releases[name].manager for name in systems if name in releases} or {"apt"}
    found = {}
    if "apt" in managers:
        own = {rows["rpm"][0]: name for name, rows in table("rpm").items() if len(rows["rpm"]) == 1}
        found["apt"] = [*apt, *(own.get(name, name) for name in dnf if name in own or not name.endswith("-devel"))]
    if "dnf" in managers:
        found["dnf"] = [*(one for name in apt for one in table("rpm").get(name, {"rpm": [name]})["rpm"]), *dnf]
    return {key: list(dict.fromkeys(names)) for key, names in found.items() if names}
