"""The environments of a report, as people paste them, as axes of cells. Pure; every key that is read is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.environment import catalog, versions
from reprokit.matrix import Cell

PROJECTS = {
    "paddlepaddle": "paddle",
    "paddlepaddle-gpu": "paddle",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "opencv": "opencv",
}
"""What reports call a framework -> the axis that cases name it by."""

PRECISE = {"python": 2, "gcc": 1, "cuda": 2, "cudnn": 2}
"""Parts of a version that an axis gets where the case's own values do not tell."""

_VERSION = r"\d+(?:\.\d+)*"
_VERSION_OF = re.compile(r"\s*(?:version|版本)$")
_OTHER_COMPILER = re.compile(r"clang|msvc|visual|\bcl\b|\bic[cpx]+\b|intel|nvcc", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Reported:
    """One environment. ``cell``: its axes. ``used``: key -> what it was read as. ``unused``: the other keys."""

    cell: Cell
    used: Mapping[str, str]
    unused: tuple[str, ...]


def read(environment: Mapping[str, Any], axes: Mapping[str, Sequence[str]], names: Collection[str]) -> Reported:
    """The axes that an environment speaks of: known ones, and those that the case has or its templates use (``names``).

    ``axes``: the case's own with their values; a version is cut to the parts that those have.
    """
    cell: Cell = {}
    used: dict[str, str] = {}
    for key, value in environment.items():
        folded = _VERSION_OF.sub("", str(key).strip().lower())
        text = str(value).strip()
        for axis, reader in _READERS.items():
            if axis not in cell and folded in _KEYS[axis] and (found := reader(text, axes.get(axis, ()))):
                cell[axis] = found
                used[str(key)] = f"{axis} {found}"
                break
        else:
            axis = next((name for name in (*axes, *names) if name.lower() in (folded, PROJECTS.get(folded))), "")
            if axis and axis not in cell and (found := _free(axis, text, axes.get(axis, ()))):
                cell[axis] = found
                used[str(key)] = f"{axis} {found}"
    unused = tuple(str(key) for key in environment if str(key) not in used)
    order = [name for name in (*axes, *cell) if name in cell]
    return Reported(cell={name: cell[name] for name in order}, used=used, unused=unused)


def _python(text: str, own: Sequence[str]) -> str:
    """``3.11.3 (main, Apr  5 2023, 14:15:06) [GCC 9.4.0]``."""
    return _cut("python", re.match(rf"(?:python )?v?({_VERSION})", text, re.IGNORECASE), own)


def _cuda(text: str, own: Sequence[str]) -> str:
    """``Build cuda_11.8.r11.8/compiler...`` as nvcc --version ends, ``release 11.8, V11.8.89``, or a bare version."""
    found = re.search(rf"cuda_({_VERSION})\.r|release ({_VERSION})", text) or re.fullmatch(
        rf"(?:cuda )?v?({_VERSION})", text, re.I
    )
    return _cut("cuda", found, own)


def _cudnn(text: str, own: Sequence[str]) -> str:
    """``8.9``, ``8.9.7``; ``8907`` or ``90100`` as torch.backends.cudnn.version() says."""
    if re.fullmatch(r"\d{4,5}", text):
        number = int(text)
        major, rest = divmod(number, 10_000) if number >= 90_000 else divmod(number, 1000)
        text = f"{major}.{rest // 100}.{rest % 100}"
    return _cut("cudnn", re.match(rf"v?({_VERSION})", text), own)


def _gcc(text: str, own: Sequence[str]) -> str:
    """``gcc (Debian 12.2.0-14) 12.2.0``, ``x86_64-linux-gnu-gcc-12``: what the brackets hold is the packager's."""
    if _OTHER_COMPILER.search(text):
        return ""
    bare = re.sub(r"\([^)]*\)", "", text)
    found = re.search(rf"(?<![\w.-])v?({_VERSION})", bare) or re.search(
        rf"g(?:cc|\+\+)-({_VERSION})", bare, re.IGNORECASE
    )
    return _cut("gcc", found, own)


def _os(text: str, own: Sequence[str]) -> str:
    """``Ubuntu 20.04.6 LTS``, ``Debian GNU/Linux 12 (bookworm)``, or the glibc of ``platform.platform()``."""
    releases = catalog.releases()
    for name in (*own, *releases):
        family, _, version = name.partition("-")
        if version and re.search(rf"\b{re.escape(family)}\D{{0,12}}{re.escape(version)}\b", text, re.IGNORECASE):
            return name
    glibc = re.search(rf"glibc[- ]?({_VERSION})", text)
    fitting = [name for name, release in releases.items() if glibc and release.glibc == glibc[1]]
    return next((name for name in (*own, *reversed(fitting)) if name in fitting), "")


def _cut(axis: str, found: re.Match[str] | None, own: Sequence[str]) -> str:
    if found is None:
        return ""
    version = next(group for group in found.groups() if group)
    fitting = next((value for value in own if versions.matches(value, version)), "")
    precise = max((len(versions.parts(value)) for value in own if value != versions.NONE), default=PRECISE[axis])
    return fitting or ".".join(versions.parts(version)[:precise])


def _free(axis: str, text: str, own: Sequence[str]) -> str:
    if text in own or axis in _READERS:  # what the reader of a known axis refused says something else
        return text if text in own else ""
    found = re.match(rf"v?({_VERSION}\S*)", text)
    return found[1] if found and "," not in text else ""


_READERS: Mapping[str, Callable[[str, Sequence[str]], str]] = {
    "python": _python,
    "cuda": _cuda,
    "cudnn": _cudnn,
    "gcc": _gcc,
    "os": _os,
}
_KEYS: Mapping[str, Collection[str]] = {
    "python": {"python", "py"},
    "cuda": {"nvcc", "cuda", "cuda toolkit", "cuda runtime"},
    "cudnn": {"cudnn"},
    "gcc": {"gcc", "g++", "compiler", "编译器"},
    "os": {"platform", "os", "operating system", "system", "distribution", "libc", "glibc", "操作系统", "系统"},
}
"""How reports call the known axes, in small letters, without ``version`` behind."""


def hidden(environments: Sequence[Mapping[str, Any]], found: Sequence[Reported]) -> list[str]:
    """Keys whose texts differ although they are read as the same value, in words: what an axis does not tell apart."""
    words = []
    for key in dict.fromkeys(key for one in found for key in one.used):
        read_as = {one.used[key] for one in found if key in one.used}
        texts = dict.fromkeys(str(environment[key]) for environment in environments if key in environment)
        if len(read_as) == 1 and len(texts) > 1:
            shown = " and ".join(repr(text.split(" (")[0]) for text in texts)
            words.append(f"{key} is {shown}, both read as {next(iter(read_as))}: what differs in that is not looked at")
    return words
