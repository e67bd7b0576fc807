"""The content of an environment block, and how several blocks become one environment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import reduce

from reprokit.environment import versions


class Rank(IntEnum):
    """How a block knows the version of an axis; where two disagree, the higher rank wins."""

    BUILT = 1
    """What a framework or a compiler's package was built for, which may differ from what is installed beside it."""
    STATED = 2
    """A person, a path or an image's tag says so."""
    MEASURED = 3
    """The output of the program itself (``nvcc --version``)."""


@dataclass(frozen=True, kw_only=True)
class ReportedValue:
    """A version of an axis, as written, with the text that it comes from."""

    axis: str
    version: str
    rank: Rank
    quote: str


@dataclass(frozen=True, kw_only=True)
class EnvironmentBlock:
    """One environment block, or several that describe one environment (:func:`merge`). Texts are as reported."""

    kind: str
    first: int
    """Its first line in the text, counted from 1."""
    last: int
    values: Mapping[str, str] = field(default_factory=dict)
    """The block's own keys."""
    claims: tuple[ReportedValue, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    """Canonical name -> version."""
    requirements: tuple[str, ...] = ()
    """Lines of pip."""
    gpus: tuple[str, ...] = ()
    driver: str = ""
    driver_cuda: str = ""
    """The highest CUDA that the driver supports, never what is installed."""
    system: str = ""
    """``linux``, ``windows``, ``macos`` or ''."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables, as `reprokit collect` prints them."""
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
        return (*self.remarks, *_doubts(self))


def _doubts(block: EnvironmentBlock) -> Iterator[str]:
    words = {"windows": "Windows", "macos": "macOS"}
    if block.system in words:
        yield f"the report is from {words[block.system]}: a container runs Linux, so its system is not an axis"
    for axis in block.axes:
        taken = block.claim(axis)
        listed = {taken.version}
        for one in block.claims:
            if one.axis == axis and one.version not in listed and not same_version(taken.version, one.version):
                listed.add(one.version)
                yield f"{axis} {taken.version} ({taken.quote}), but {one.version} ({one.quote})"
    most = block.driver_cuda
    if most and "cuda" not in block.axes:
        yield f"the driver supports CUDA up to {most}; the report does not say which CUDA was installed"
    elif most and block.claim("cuda").rank is Rank.STATED and block.axes["cuda"] == most:
        yield f"cuda {most} is also the highest that the driver supports, so it may not be the toolkit's"


def merge(blocks: Sequence[EnvironmentBlock]) -> EnvironmentBlock:
    """One environment from blocks that all describe it.

    Where two have the same key, package, variable or option, the first wins; a package whose versions differ is
    noted. Axes follow :class:`Rank`. The lines span all blocks. Raises ValueError for an empty sequence.
    """
    if not blocks:
        raise ValueError("merge of no environment block")
    return reduce(_merge_two, blocks)


def _merge_two(one: EnvironmentBlock, other: EnvironmentBlock) -> EnvironmentBlock:
    differing = (
        f"{name} is {one.packages[name]} ({one.kind}) and {version} ({other.kind})"
        for name, version in other.packages.items()
        if name in one.packages and not same_version(one.packages[name], version)
    )
    return replace(
        one,
        kind="+".join(dict.fromkeys((*one.kind.split("+"), *other.kind.split("+")))),
        first=min(one.first, other.first),
        last=max(one.last, other.last),
        values={**one.values, **{key: text for key, text in other.values.items() if key not in one.values}},
        packages={**one.packages, **{key: text for key, text in other.packages.items() if key not in one.packages}},
        env={**other.env, **one.env},
        claims=tuple(dict.fromkeys((*one.claims, *other.claims))),
        requirements=tuple(dict.fromkeys((*one.requirements, *other.requirements))),
        gpus=one.gpus or other.gpus,  # the same devices in another spelling
        driver=one.driver or other.driver,
        driver_cuda=one.driver_cuda or other.driver_cuda,
        system=one.system or other.system,
        remarks=(*dict.fromkeys((*one.remarks, *other.remarks)), *differing),
    )


def same_version(one: str, other: str) -> bool:
    """Whether two versions agree in all parts that both have; a local suffix (``+cu118``) may be missing in one."""
    if "+" in one and "+" in other:
        return one == other
    parts = (versions.parts(text.partition("+")[0]) for text in (one, other))
    return all(a == b for a, b in zip(*parts, strict=False))


def group_blocks(blocks: Sequence[EnvironmentBlock]) -> list[list[EnvironmentBlock]]:
    """Which blocks of a report describe the same environment: groups, each in the order of the report.

    A block goes to the last group that it does not contradict; one that contradicts all of them is another
    environment. Two blocks contradict each other where both name the system, Python, or (with the same rank) CUDA,
    cuDNN, GCC or any package, with different versions. What a framework was built for never contradicts.
    """
    groups: list[list[EnvironmentBlock]] = []
    for one in blocks:
        fitting = [group for group in groups if not any(_contradict(one, other) for other in group)]
        if fitting:
            fitting[-1].append(one)
        else:
            groups.append([one])
    return groups


def _contradict(one: EnvironmentBlock, other: EnvironmentBlock) -> bool:
    if one.system and other.system and one.system != other.system:
        return True
    for axis in one.axes.keys() & other.axes.keys():
        a, b = one.claim(axis), other.claim(axis)
        exact = axis in ("os", "python") or a.rank is b.rank
        if exact and Rank.BUILT not in (a.rank, b.rank) and not same_version(a.version, b.version):
            return True
    return one.kind == other.kind and any(
        not same_version(one.packages[name], other.packages[name])
        for name in one.packages.keys() & other.packages.keys()
    )
