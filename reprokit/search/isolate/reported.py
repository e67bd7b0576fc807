"""The environments of a report, as people paste them, as axes of cells. Pure; it lists every key that it used."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case.matrix import Cell
from reprokit.environment import versions, wording
from reprokit.environment.axes import AXES, BY_NAME, READERS
from reprokit.environment.catalog import OURS


@dataclass(frozen=True, kw_only=True)
class Reported:
    """One environment. ``cell``: its axes. ``used``: key -> what it was read as. ``unused``: the other keys."""

    cell: Cell
    used: Mapping[str, str]
    unused: tuple[str, ...]


def read(environment: Mapping[str, Any], axes: Mapping[str, Sequence[str]], names: Collection[str]) -> Reported:
    """The axes that an environment gives: known ones, and those that the case has or its templates use (``names``).

    ``environment``: one entry of ``report.environments``. ``axes``: the case's own with their values; a version is cut
    to as many parts as those have.
    """
    cell: Cell = {}
    used: dict[str, str] = {}
    for key, value in environment.items():
        folded = wording.folded(str(key))
        text = str(value).strip()
        for axis in _meant(folded, {*axes, *names}):
            if axis not in cell and (found := _read(axis, text, axes.get(axis, ()))):
                cell[axis] = found
                used[str(key)] = f"{axis} {found}"
                break
        else:
            axis = next(
                (name for name in (*axes, *names) if name.lower() in (folded, wording.PROJECTS.get(folded))), ""
            )
            if axis and axis not in cell and (found := _free(axis, text, axes.get(axis, ()))):
                cell[axis] = found
                used[str(key)] = f"{axis} {found}"
    unused = tuple(str(key) for key in environment if str(key) not in used)
    order = [name for name in (*axes, *cell) if name in cell]
    return Reported(cell={name: cell[name] for name in order}, used=used, unused=unused)


def _meant(key: str, own: Collection[str]) -> list[str]:
    """The known axes that a key speaks of. ``own``: those that the case has or uses."""
    among = [axis for axis in AXES if axis.name in own or not axis.wording.incidental]
    return [axis.name for axis in among if key in axis.wording.keys]


def _read(axis: str, text: str, own: Sequence[str]) -> str:
    """The value of a known axis in a text, in the spelling of the case's own values; '' for none."""
    if axis == "os":
        return _release(text, own)
    version = READERS[axis](text)
    if not version:
        return ""
    fitting = next((value for value in own if versions.matches(value, version)), "")
    precise = max(
        (len(versions.parts(value)) for value in own if value != versions.NONE), default=BY_NAME[axis].precision
    )
    return fitting or ".".join(versions.parts(version)[:precise])


def _release(text: str, own: Sequence[str]) -> str:
    """The release that a text names, else one that has the glibc that it names: the case's own, else the newest."""
    named = wording.os(text, own)
    if named in own or named in OURS.releases():
        return named
    fitting = wording.with_glibc(wording.glibc(text))
    return next((name for name in (*own, *reversed(fitting)) if name in fitting), "")


def _free(axis: str, text: str, own: Sequence[str]) -> str:
    if text in own or axis in READERS:  # what the reader of a known axis refused says something else
        return text if text in own else ""
    found = re.match(rf"v?({wording.VERSION}\S*)", text)
    return found[1] if found and "," not in text else ""


def hidden(environments: Sequence[Mapping[str, Any]], found: Sequence[Reported]) -> list[str]:
    """Keys whose texts differ although they are read as the same value, in words: differences that are not tested."""
    words = []
    for key in dict.fromkeys(key for one in found for key in one.used):
        read_as = {one.used[key] for one in found if key in one.used}
        texts = dict.fromkeys(str(environment[key]) for environment in environments if key in environment)
        if len(read_as) == 1 and len(texts) > 1:
            shown = " and ".join(repr(text.split(" (")[0]) for text in texts)
            words.append(f"{key} is {shown}, both read as {next(iter(read_as))}: this difference is not tested")
    return words
