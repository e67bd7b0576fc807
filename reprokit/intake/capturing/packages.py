"""What the image of a captured case installs: the packages that the program uses, and their dependencies. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit.core.redaction import scrub
from reprokit.environment.catalog import OURS
from reprokit.intake.capturing.interpreter import CapturedPython, Distribution

_INSTALLED = re.compile(r"(?:^|/)(?:site|dist)-packages/(?P<module>[A-Za-z_]\w*)")
_TORCH = frozenset({"torch", "torchvision", "torchaudio", "torchtext"})
_PYTHON = frozenset({"python", "python3"})
TOOLS = frozenset({"pip", "setuptools", "wheel"})
"""Packages of every environment; pinned only where the program itself imports them."""


@dataclass
class Pinned:
    """Requirements. ``direct``: of the program's imports and frames; ``needed``: what those need; ``options``: of pip.

    ``missing``: installed packages that no index has, in words.
    """

    direct: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def modules_of(files: Iterable[str]) -> set[str]:
    """The installed modules that contain the files of a traceback."""
    return {found["module"] for file in files if (found := _INSTALLED.search(file))}


def pinned(interpreter: CapturedPython, modules: Iterable[str], words: Iterable[str] = ()) -> Pinned:
    """The distributions that contain ``modules``, and their dependencies, pinned to the installed versions.

    ``words``: of the command; its programs and the modules after ``-m`` count, too.
    """
    installed: dict[str, Distribution] = {canonicalize_name(one.name): one for one in interpreter.distributions}
    wanted = set(modules)
    words = list(words)
    programs = {PurePath(word).name for word in words}
    wanted |= {word.partition(".")[0] for before, word in pairwise(words) if before == "-m"}
    direct = [
        name for name, one in installed.items() if wanted & set(one.modules) or programs & set(one.scripts) - _PYTHON
    ]
    found = Pinned()
    for name in sorted(direct):
        _pin(installed[name], found.direct, found)
    for name in sorted(_closure(direct, installed, interpreter.version) - set(direct) - TOOLS):
        _pin(installed[name], found.needed, found)
    return found


def _pin(one: Distribution, pins: list[str], found: Pinned) -> None:
    url = str(one.direct.get("url", ""))
    remote = url.startswith(("https://", "http://", "ssh://"))
    if remote and scrub(url).omitted:
        found.missing.append(f"{one.name} {one.version} is installed from an address that contains something secret")
        pins.append(f"{one.name}=={one.version}")
        return
    vcs = one.direct.get("vcs_info")
    if isinstance(vcs, Mapping) and remote:
        pins.append(f"{one.name} @ {vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', '')}")
        return
    if one.direct.get("archive_info") is not None and url.startswith(("https://", "http://")):
        pins.append(f"{one.name} @ {url}")
        return
    if one.direct.get("archive_info") is not None:
        found.missing.append(f"{one.name} {one.version} is installed from a file of this machine; an index may lack it")
    if one.direct.get("dir_info") is not None:
        found.missing.append(f"{one.name} {one.version} is installed from a folder of this machine: add it as a source")
        return
    public, _, local = one.version.partition("+")
    option = _option(one, local)
    if option:
        found.options += [option] if option not in found.options else []
    elif local:
        found.missing.append(f"{one.name} {one.version} is a local build: the index may only have {public}")
    pins.append(f"{one.name}=={one.version}")


def _option(one: Distribution, local: str) -> str:
    """The pip option to find a build for a CUDA version; '' where PyPI has it, or the place is not known."""
    name = canonicalize_name(one.name)
    if local and name in _TORCH:
        return f"--extra-index-url https://download.pytorch.org/whl/{local}"
    return OURS.option_for(name, one.version)


def _closure(direct: Iterable[str], installed: Mapping[str, Distribution], python: str) -> set[str]:
    """The installed packages that ``direct`` require, directly or indirectly, with the requested extras."""
    seen: set[tuple[str, str]] = set()
    waiting = [(name, "") for name in direct]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen or name not in installed:
            continue
        seen.add((name, extra))
        for requirement in _required(installed[name], extra, python):
            needed = canonicalize_name(requirement.name)
            waiting += [(needed, ""), *((needed, more) for more in requirement.extras)]
    return {name for name, _ in seen}


def _required(one: Distribution, extra: str, python: str) -> Iterator[Requirement]:
    environment = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python, "extra": extra}
    for text in one.requires:
        try:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate(environment):
                yield requirement
        except (InvalidRequirement, UndefinedEnvironmentName):
            continue
