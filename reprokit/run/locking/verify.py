"""What a locked build or image says about its lock: which line is refused, and where an image departs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from packaging.utils import canonicalize_name

from reprokit.core.errors import BuildFailed, ReprokitError, Unsupported
from reprokit.core.version import __version__
from reprokit.environment.lock import GROUPS, Artefact, Lock, LockEntry
from reprokit.environment.measured import Measured

SHOWN = 5
_MISMATCH = re.compile(
    r"Expected sha256 ([0-9a-f]{64})(?:\s*(?:Expected|or) sha256 [0-9a-f]{64})*\s*Got\s+([0-9a-f]{64})"
)
_NO_FILE = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)==")
_NO_VERSION = re.compile(r"E: Version '[^']*' for '([^']+)' was not found")
_NO_PACKAGE = re.compile(r"E: (?:Unable to locate package|Package) '?([a-z0-9+.-]+)'?")

_OUT_OF_REACH = re.compile(r"reprokit: out of reach: (\S+)")


def explained(error: BuildFailed, lock: Lock, entry: LockEntry) -> ReprokitError:
    """A failed build in terms of the lock's lines, where it is about one of them; else the error as it is."""
    text = "\n".join(error.tail)
    if found := _MISMATCH.search(text):
        for group, one in _artefacts(entry):
            if one.sha256 == found[1]:
                reason = (
                    f"{lock.where(entry, *group, one.name, 'hash')}: the sha256 of {one.name} {one.version} is not "
                    f"that of the file which the index serves: locked {found[1]}, served {found[2]}"
                )
                return BuildFailed(reason, step=error.step, tail=error.tail, reason=reason)
    if found := _NO_FILE.search(text):
        for group, one in _artefacts(entry):
            if canonicalize_name(one.name) == canonicalize_name(found[1]):
                reason = f"{lock.where(entry, *group, one.name)}: the index no longer has {one.name} {one.version}"
                return BuildFailed(reason, step=error.step, tail=error.tail, reason=reason)
    gone = list(dict.fromkeys((*_NO_VERSION.findall(text), *_NO_PACKAGE.findall(text))))
    if gone := [name for name in gone if name in entry.pins.apt]:
        first = lock.where(entry, "apt", gone[0])
        names = ", ".join(f"{name} {entry.pins.apt[name]}" for name in gone[:SHOWN])
        more = f" and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
        reach = _OUT_OF_REACH.search(text)
        why = (
            f"the archive no longer has {names}{more}, and {reach[1]} is out of reach"
            if reach
            else f"neither the archive nor its snapshot of {entry.pins.date} has {names}{more}"
        )
        return Unsupported(
            f"{first}: {why}; set apt_snapshot to a snapshot that has it, or make the lock again "
            "(reprokit lock --upgrade)"
        )
    return error


def another_image(lock: Lock, entry: LockEntry, tag: str) -> str:
    """In words, that an entry makes the image ``tag`` and not the one that it names."""
    why = (
        f"the lock was written by reprokit {lock.version}, this is {__version__}"
        if lock.version != __version__
        else "it was edited, or this reprokit builds otherwise than the one that wrote it"
    )
    return f"{lock.where(entry, 'image')}: what the lock holds makes {tag}, it names {entry.image}: {why}"


def departures(lock: Lock, entry: LockEntry, tag: str, measured: Measured, *, comparable: bool = True) -> list[str]:
    """Where an image departs from its lock, in words: its identity, and every package's version.

    ``comparable``: whether the image should be the lock's own (data given for this run make it another).
    """
    found = []
    if comparable and tag != entry.image:
        found.append(f"{another_image(lock, entry, tag)}; make it again (reprokit lock --upgrade)")
    pins = entry.pins
    apt = {**pins.base.packages, **pins.apt}
    has = measured.packages
    found += _differing(lock, entry, "apt", apt, has.get("apt", {}), whole=bool(pins.base.packages))
    normal: dict[str, str] = {canonicalize_name(name): version for name, version in has.get("pip", {}).items()}
    found += _differing(lock, entry, "pip", pins.installed, normal, whole=bool(pins.pip_itself))
    return found


def _differing(
    lock: Lock, entry: LockEntry, kind: str, locked: Mapping[str, str], has: Mapping[str, str], *, whole: bool
) -> list[str]:
    """``whole``: whether the lock knows everything of that kind, so that what it does not name is wrong, too."""
    names = sorted({*locked, *has} if whole else locked)
    wrong = [name for name in names if locked.get(name) != has.get(name)]
    words = [
        f"{lock.where(entry, kind, name)}: {name} is {has.get(name) or 'missing'} in the image, "
        f"locked {locked.get(name) or 'without it'}"
        for name in wrong[:SHOWN]
    ]
    return words + ([f"{len(wrong) - SHOWN} more {kind} packages differ"] if len(wrong) > SHOWN else [])


def _artefacts(entry: LockEntry) -> list[tuple[tuple[str | int, ...], Artefact]]:
    earlier = [(("pip_steps", at), one) for at, step in enumerate(entry.pins.pip_steps) for one in step]
    return [*(((group,), one) for group in GROUPS for one in entry.pins.group(group)), *earlier]
