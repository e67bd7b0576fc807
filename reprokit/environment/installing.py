"""What pip installs while an image is built: in which calls, before or after files of the case, from a lock or not.
Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reprokit.case.cellspec import EnvironmentSpec, PipStepSpec

if TYPE_CHECKING:
    from reprokit.environment.lock import Artefact, Pins
    from reprokit.environment.model import Environment

LARGE = {"jax", "jaxlib", "mxnet", "paddlepaddle", "paddlepaddle-gpu", "tensorflow", "tensorflow-cpu", "torch"}
"""Packages that come as wheels of hundreds of megabytes. Pinned, they get a layer of their own, before GCC and the
distribution's packages: cells that differ in smaller things share it."""

TAKES_VALUE = {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host"}
TAKES_VALUE |= {"--no-binary", "--only-binary", "--config-settings", "--global-option"}
FLAGS = {"--pre", "--no-index", "--prefer-binary", "--no-build-isolation", "--use-pep517"}
FILE_OPTIONS = {"-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-f", "--find-links"}


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of ``pip install`` for the step ``number``, counted from 1: its ``options``, then its ``words``.

    ``group``: the lock file that it installs from, in a locked image, '' where it installs files of the case.
    """

    number: int
    words: tuple[str, ...]
    options: tuple[str, ...]
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class Calls:
    """All calls: for large packages, before the case's files are there, and after. They run in this order."""

    large: tuple[Call, ...] = ()
    early: tuple[Call, ...] = ()
    late: tuple[Call, ...] = ()


def calls(environment: Environment) -> Calls:
    """The calls for the steps of an environment, none of which overtakes another."""
    early: list[Call] = []
    late: list[Call] = []
    for number, step in enumerate(environment.pip, 1):
        options = _words((*environment.pip_options, *step.options))
        waits = bool(late) or _local(options)
        first: list[str] = []
        then: list[str] = []
        for requirement in step.requirements:
            words = split_words(requirement)
            (then if waits or _local(words) else first).extend(words)
        early += [Call(number=number, words=tuple(first), options=tuple(options))] if first else []
        late += [Call(number=number, words=tuple(then), options=tuple(options))] if then else []
    # What precedes all else can only come from the first step.
    large = _large(early[0].words) if early else ()
    if not large:
        return Calls(early=tuple(early), late=tuple(late))
    whole = early[0].words == large
    return Calls(large=(replace(early[0], words=large),), early=tuple(early[1:] if whole else early), late=tuple(late))


def locked_calls(environment: Environment, pins: Pins) -> Calls:
    """The calls that install what a lock holds, in the order of the steps, and then files of the case alone."""
    late = [replace(call, options=tuple(index_options(call.options))) for call in calls(environment).late]
    last_early = late[0].number if late else len(pins.steps)
    steps = environment.pip or (PipStepSpec(requirements=()),)
    found: dict[bool, list[Call]] = {True: [], False: []}
    for number, group in enumerate(_without_parts(pins, environment), 1):
        step = steps[min(number, len(steps)) - 1]
        options = tuple(index_options(_words((*environment.pip_options, *step.options))))
        small = Call(
            number=number,
            words=tuple(one.name for one in group if number > 1 or not one.is_large),
            options=options,
            group=_group(number),
        )
        found[number <= last_early] += [small] if small.words else []
    first = _without_parts(pins, environment)[0]
    options = tuple(index_options(_words((*environment.pip_options, *steps[0].options))))
    words = tuple(one.name for one in first if one.is_large)
    large = (Call(number=1, words=words, options=options, group="pip_large"),) if words else ()
    behind = sorted((*late, *found[False]), key=lambda call: (call.number, not call.group))
    return Calls(large=large, early=tuple(found[True]), late=tuple(behind))


def common_options(environment: Environment, *, locked: bool) -> list[str]:
    """The options of every call, as words; of a locked one, which installs named files, only what it needs."""
    words = _words(environment.pip_options)
    return index_options(words) if locked else words


def lock_files(pins: Pins, environment: Environment) -> dict[str, list[str]]:
    """The files that locked calls install from, by name in the context's folder reprokit/, as lines."""
    steps = _without_parts(pins, environment)
    groups: dict[str, Sequence[Artefact]] = {name: pins.group(name) for name in ("pip_itself", "cuda", "cudnn")}
    groups["pip_large"] = [one for one in steps[0] if one.is_large]
    for number, group in enumerate(steps, 1):
        groups[_group(number)] = [one for one in group if number > 1 or not one.is_large]
    for axis, part in environment.parts.items():
        own = [one for step in pins.steps for one in step if _part_of(one, environment) == axis]
        groups[part.group] = (*pins.trees.get(axis, ()), *own)
    files = {f"{name}.lock": [one.requirement for one in group] for name, group in groups.items()}
    return {**files, "apt.lock": [f"{name}={version}" for name, version in sorted(pins.apt.items())]}


def _group(number: int) -> str:
    return "pip_small" if number == 1 else f"pip_small_{number}"


def _without_parts(pins: Pins, environment: Environment) -> list[list[Artefact]]:
    """The files of each step without the wheels of axes, which have calls of their own."""
    return [[one for one in step if not _part_of(one, environment)] for step in pins.steps]


def _part_of(one: Artefact, environment: Environment) -> str:
    """The axis whose wheel a file is, '' for one that is of none."""
    from packaging.utils import canonicalize_name

    for part in environment.parts.values():
        if canonicalize_name(one.name) in {canonicalize_name(wheel.partition("==")[0]) for wheel in part.wheels}:
            return part.axis
    return ""


def index_options(words: Sequence[str]) -> list[str]:
    """Of pip's arguments those that say where distribution files come from, and how they are built."""
    kept: list[str] = []
    for place, word in enumerate(words):
        if word in FLAGS or word.partition("=")[0] in TAKES_VALUE:
            kept += [word] if word in FLAGS or "=" in word else list(words[place : place + 2])
    return kept


def reads_files(asked: EnvironmentSpec) -> bool:
    """Whether pip installs something that is a file of the case."""
    options = _local(_words((*asked.pip_options, *(text for step in asked.pip_steps for text in step.options))))
    return bool(asked.requirements) and (options or any(_local(split_words(text)) for text in asked.requirements))


def _large(early: Sequence[str]) -> tuple[str, ...]:
    """The requirements of the layer of large packages: exact pins, which nothing that follows can move.

    ``early``: the arguments that wait for no file. None where an option is among them: an index, say, may be what
    the pins need.
    """
    if any(word.startswith("-") for word in early):
        return ()
    pinned = (re.match(r"([A-Za-z0-9._-]+)(\[[^]]*\])?==[^*,;\s]+$", word) for word in early)
    return tuple(pin[0] for pin in pinned if pin and re.sub(r"[-_.]+", "-", pin[1]).lower() in LARGE)


def _words(options: Sequence[str]) -> list[str]:
    return [word for option in options for word in shlex.split(option)]


def split_words(argument: str) -> list[str]:
    """pip's words in one item of ``environment.pip`` or ``pip_options``; a requirement is one word."""
    return shlex.split(argument) if argument.startswith("-") else [argument.strip()]


def _local(words: Sequence[str]) -> bool:
    """Whether pip would look for a file of the case: a relative path, or an option's value that is not a URL."""
    for place, word in enumerate(words):
        option, given, value = word.partition("=") if word.startswith("-") else ("", "", word)
        if not given and option:
            value = words[place + 1] if option in FILE_OPTIONS and place + 1 < len(words) else ""
        names_file = option in FILE_OPTIONS or value.startswith(".") or "/" in value
        if value and names_file and "://" not in value:
            return True
    return False
