"""Locks of cases that have changed since."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reprokit.cli.doctor.finding import Finding, Voice
from reprokit.cli.doctor.ground import Ground
from reprokit.core.text import pluralize
from reprokit.run.lock_making import stale_locks

say = Voice("locks")


def check(ground: Ground) -> Iterator[Finding]:
    """The lock files below the current folder that no longer match their cases."""
    found = stale_locks(ground.folder)
    for one in found:
        path, case = _near(ground, one.path), _near(ground, one.case)
        more = f" ({pluralize(len(one.reasons) - 1, 'more cell')})" if len(one.reasons) > 1 else ""
        fix = f"rm {shlex.quote(path)}" if one.gone else f"reprokit lock {shlex.quote(case)}"
        yield say.warn(f"{path} is stale: {_near(ground, one.reasons[0])}{more}", fix)
    if not found:
        yield say.ok("no stale lock below the current folder")


def _near(ground: Ground, path: object) -> str:
    return str(path).removeprefix(f"{ground.folder}/")
