"""The content of an environment block, and how several blocks become one environment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import reduce
from typing import Any

from reprokit.environment import versions


class Rank(IntEnum):
    """How a block knows the version of an axis; where two disagree, the higher rank wins.

    ``BUILT``: what a framework was built for or contains, which may differ from what is installed beside it; or the
    release for which a compiler's package was built. ``STATED``: a person, a path or an image's tag says so.
    ``MEASURED``: the output of the program itself (``nvcc --version``).
    """

    BUILT = 1
    STATED = 2
    MEASURED = 3


@dataclass(frozen=True, kw_only=True)
class ReportedValue:
    """A version of an axis, as written. ``quote``: the text it comes from (``NVCC: Build cuda_12.0.r12.0/...``)."""

    axis: str
    version: str
    rank: Rank
    quote: str


@dataclass(frozen=True, kw_only=True)
class EnvironmentBlock:
    """One environment block, or several of them that describe one environment (:func:`merge`).

    ``first`` and ``last`` are its lines in the text, counted from 1. ``values`` are the block's own keys, unchanged (a
    list of packages has none). ``packages``: canonical pip name -> version; ``requirements``: lines of pip, as written.
    ``env``: variables, as `reprokit collect` prints them. ``driver_cuda`` is the highest CUDA that the driver supports,
    never what is installed. ``system`` is ``linux``, ``windows``, ``macos`` or "". Texts are as reported: only the name
    of the host in ``uname -a`` is removed.
    """

    kind: str
    first: int
    last: int
    values: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[ReportedValue, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    driver: str = ""
    driver_cuda: str = ""
    system: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def axes(self) -> Mapping[str, str]:
        """Axis -> version as written: of the claims with the highest rank the most precise, else the first."""
        return {axis: self.claim(axis).version for axis in dict.fromkeys(one.axis for one in self.claims)}

    def claim(self, axis: str) -> ReportedValue:
        """The claim that gives the value of an axis. Raises KeyError where there is none."""
        claims = [one for one in self.claims if one.axis == axis]
        if not claims:
            raise KeyError(axis)
        best = max(claims, key=lambda one: one.rank)
        same = (one for one in claims if one.rank is best.rank and one.version.startswith(best.version))
        return max(same, key=lambda one: len(versions.parts(one.version)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about it, one sentence each: remarks, then contradictions within the block."""
        return (*self.remarks, *_system(self), *_contradictions(self), *_driver(self))


def merge(founds: Sequence[EnvironmentBlock]) -> EnvironmentBlock:
    """One environment from blocks that all describe it.

    Where two have the same key, package, variable or option, the first wins; a package whose versions differ is
    noted. Axes follow :class:`Rank`: nvcc before an image's tag before what a framework was built for. The lines span
    all blocks. Raises ValueError for an empty sequence.
    """
    if not founds:
        raise ValueError("merge of no environment block")
    return reduce(_merged, founds)


def _merged(one: EnvironmentBlock, other: EnvironmentBlock) -> EnvironmentBlock:
    both: dict[str, Any] = {"kind": "+".join(dict.fromkeys((*one.kind.split("+"), *other.kind.split("+"))))}
    for name in ("values", "packages", "env"):
        both[name] = {**getattr(other, name), **getattr(one, name)}
        both[name] = {key: both[name][key] for key in (*getattr(one, name), *getattr(other, name))}
    for name in ("claims", "requirements", "remarks"):
        both[name] = tuple(dict.fromkeys((*getattr(one, name), *getattr(other, name))))
    both["gpus"] = one.gpus or other.gpus  # the same devices in another spelling
    for name in ("driver", "driver_cuda", "system"):
        both[name] = getattr(one, name) or getattr(other, name)
    both["remarks"] += tuple(
        f"{name} is {one.packages[name]} ({one.kind}) and {version} ({other.kind})"
        for name, version in other.packages.items()
        if name in one.packages and not same_version(one.packages[name], version)
    )
    return replace(one, **both, first=min(one.first, other.first), last=max(one.last, other.last))


def same_version(one: str, other: str) -> bool:
    """Whether two versions agree in all parts that both have; a local suffix (``+cu118``) may be missing in one."""
    a, b = ("" if "+" not in one or "+" not in other else text for text in (one, other))
    if a and b:
        return one == other
    return all(
        x == y for x, y in zip(versions.parts(one.split("+")[0]), versions.parts(other.split("+")[0]), strict=False)
    )


def _contradictions(found: EnvironmentBlock) -> Iterator[str]:
    for axis in found.axes:
        taken = found.claim(axis)
        for other in _others(found.claims, taken):
            yield f"{axis} {taken.version} ({taken.quote}), but {other.version} ({other.quote})"


def _others(claims: Iterable[ReportedValue], taken: ReportedValue) -> Iterator[ReportedValue]:
    listed = {taken.version}
    for one in claims:
        if one.axis == taken.axis and one.version not in listed and not same_version(taken.version, one.version):
            listed.add(one.version)
            yield one


def _system(found: EnvironmentBlock) -> Iterator[str]:
    words = {"windows": "Windows", "macos": "macOS"}
    if found.system in words:
        yield f"the report is from {words[found.system]}: a container runs Linux, so its system is not an axis"


def _driver(found: EnvironmentBlock) -> Iterator[str]:
    if found.driver_cuda and "cuda" not in found.axes:
        yield f"the driver supports CUDA up to {found.driver_cuda}; the report does not say which CUDA was installed"
    elif found.driver_cuda and found.claim("cuda").rank is Rank.STATED and found.axes["cuda"] == found.driver_cuda:
        yield f"cuda {found.driver_cuda} is also the highest that the driver supports, so it may not be the toolkit's"


def together(founds: Sequence[EnvironmentBlock]) -> list[list[EnvironmentBlock]]:
    """Which blocks of a report describe the same environment: groups, each in the order of the report.

    A block goes to the last group that it does not contradict, looking from the nearest back; one that contradicts all
    of them is another environment. Two blocks contradict each other where both name the system, Python, a framework,
    or (with the same rank) CUDA, cuDNN, GCC or any package, with different versions. What a framework was built for
    never contradicts: it is noted in the merged block.
    """
    groups: list[list[EnvironmentBlock]] = []
    for one in founds:
        fitting = next(
            (group for group in reversed(groups) if not any(contradict(one, other) for other in group)), None
        )
        if fitting is None:
            groups.append([one])
        else:
            fitting.append(one)
    return groups


def contradict(one: EnvironmentBlock, other: EnvironmentBlock) -> bool:
    """Whether two blocks cannot describe the same environment (see :func:`together`)."""
    if one.system and other.system and one.system != other.system:
        return True
    for axis in one.axes.keys() & other.axes.keys():
        a, b = one.claim(axis), other.claim(axis)
        exact = axis in ("os", "python") and Rank.BUILT not in (a.rank, b.rank)
        if (exact or (a.rank is b.rank and a.rank is not Rank.BUILT)) and not same_version(a.version, b.version):
            return True
    return one.kind == other.kind and any(
        not same_version(one.packages[name], other.packages[name])
        for name in one.packages.keys() & other.packages.keys()
    )
