"""How two environments differ, in the order in which it is likely to matter. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from packaging.utils import canonicalize_name

from reprokit.core.json_record import JsonDocument, JsonRecord
from reprokit.environment.lock import GROUPS, LockEntry
from reprokit.environment.measured import FURTHER, Measured
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.labels import cell_name, verdict_words
from reprokit.store.joining import CellKey

FRAMEWORKS = re.compile(
    r"(torch(vision|audio|text)?|triton|paddle\w*(-gpu)?|tensorflow(-\w+)?|jax(lib)?|mxnet(-.*)?|keras|onnx(runtime.*)?)$"
)
"""The frameworks, whose own builds matter most of what pip installs."""
BENEATH = re.compile(
    r"(numpy|scipy|pandas|protobuf|pillow|opencv-.*|scikit-.*|nvidia-.*|jax-cuda.*|mkl|h5py|cython|numba|llvmlite|cupy.*)$"
)
"""What frameworks and their data pass through: compiled packages, CUDA's own wheels among them."""
ORDER = (
    "engine",
    "operating system",
    "GPU",
    "CUDA",
    "cuDNN",
    "frameworks",
    "Python",
    "GCC",
    *(axis.title for axis in FURTHER),
    "environment variables",
    "packages beneath the frameworks",
    "sources",
    "command",
    "other pip packages",
    "libraries (apt)",
    "other packages (apt)",
    "libraries (rpm)",
    "other packages (rpm)",
    "kernel",
    "limits",
    "case",
    "reprokit",
)
"""Concerns in the order in which they tend to be behind "it fails here and not there"."""

ASKED = ("engine", "environment variables", "command", "limits", "kernel", "case", "reprokit")
"""What is known of a cell without measuring its image."""

LOCKED = (
    "frameworks",
    "packages beneath the frameworks",
    "sources",
    "other pip packages",
    "libraries (apt)",
    "other packages (apt)",
    "libraries (rpm)",
    "other packages (rpm)",
)
"""What a lock and a measured image both know, so that the two can be compared."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentFacts:
    """What is known of one environment, by concern and name."""

    name: str  # as the user named it
    title: str
    verdict: str = ""  # in words
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    measured: bool = True  # an image was measured; without one, only what was asked can be compared
    locked: bool = False  # it is a lock's, which knows packages and sources


@dataclass(frozen=True, kw_only=True)
class Difference(JsonRecord):
    """A fact that differs; null on the side that lacks it."""

    concern: str
    name: str
    before: str | None
    after: str | None


def read_cell(name: str, run: RunRecord, cell: CellRecord, asked: Mapping[str, Mapping[str, str]]) -> EnvironmentFacts:
    """A recorded cell. ``asked``: what its case says of variables, command and limits, by concern."""
    measured = cell.environment or Measured()
    details = cell.details
    host = details.job.host if details.job else run.host  # a run that was merged has a host for each job
    facts: dict[str, dict[str, Any]] = {
        "engine": {"engine": host.engine_kind or ""},
        "operating system": {"os": measured.os, "glibc": measured.glibc},
        "GPU": {"gpu": ", ".join(measured.gpu), "driver": measured.driver},
        "CUDA": {
            "release": measured.cuda,
            "compiler build": measured.cuda_build,
            "libraries": ", ".join(name for name, opens in measured.cuda_libraries.items() if opens) or None,
        },
        "cuDNN": {"version": measured.cudnn},
        "frameworks": _builds(measured.frameworks),
        "Python": {"version": measured.python, "build": measured.python_words},
        "GCC": {"version": measured.gcc, "build": measured.gcc_words},
        **{axis.title: {"version": measured.further.get(axis.name)} for axis in FURTHER},
        "sources": {source: tree.commit or tree.digest for source, tree in details.sources.items()},
        "kernel": {"release": host.kernel, "engine version": host.engine},
    }
    for concern, values in asked.items():
        facts.setdefault(concern, {}).update(values)
    return EnvironmentFacts(
        name=name,
        title=f"{cell.case_id}: {cell_name(cell)}",
        verdict=verdict_words(cell),
        facts=_with(_known(facts), measured.packages),
        measured=cell.environment is not None,
    )


def read_entry(name: str, entry: LockEntry) -> EnvironmentFacts:
    """An environment of a lock."""
    pins = entry.pins
    facts: dict[str, dict[str, Any]] = {
        "operating system": {"base": pins.base.reference},
        "Python": {"served by": entry.served_by.get("python")},
        "GCC": {"served by": entry.served_by.get("gcc")},
        "CUDA": {"served by": entry.served_by.get("cuda")},
        "cuDNN": {"served by": entry.served_by.get("cudnn")},
        **{axis.title: {"served by": entry.served_by.get(axis.name)} for axis in FURTHER},
        "sources": {source: tree.commit or tree.digest for source, tree in entry.sources.items()},
    }
    pip = {one.name: one.version for group in GROUPS for one in pins.group(group)} | dict(pins.installed)
    packages = {"pip": pip, "apt": {**pins.base.packages, **pins.apt}}
    cells = ", ".join(" ".join(f"{key}={value}" for key, value in one.cell.items()) for one in entry.cells)
    return EnvironmentFacts(name=name, title=cells, facts=_with(_known(facts), packages), locked=True)


def _builds(frameworks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a framework was built for, which its package's version need not tell."""
    names = ("cuda", "cuda_version", "cudnn_version", "git_version", "commit", "debug")
    return {
        f"{framework} {name}": values[name]
        for framework, values in frameworks.items()
        for name in names
        if name in values
    }


@dataclass(frozen=True, eq=False)
class _Same:
    """Packages, the key of what is made of them: cells of an image share them."""

    packages: Mapping[str, Mapping[str, str]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.packages is self.packages

    def __hash__(self) -> int:
        return id(self.packages)


def _with(facts: dict[str, dict[str, str]], packages: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """The facts and these packages, by concern."""
    for concern, values in _sorted_packages(_Same(packages)).items():
        facts[concern] = {**facts[concern], **values} if facts.get(concern) else values
    return facts


@lru_cache(maxsize=256)
def _sorted_packages(of: _Same) -> dict[str, dict[str, str]]:
    facts: dict[str, dict[str, Any]] = {}
    packages = of.packages
    for name, version in packages.get("pip", {}).items():
        concern, plain = _of_pip(name)
        facts.setdefault(concern, {})[plain] = version
    for kind in ("apt", "rpm"):
        for name, version in packages.get(kind, {}).items():
            concern = f"libraries ({kind})" if name.startswith("lib") else f"other packages ({kind})"
            facts.setdefault(concern, {})[name] = version
    return _known(facts)


@lru_cache(maxsize=4096)
def _of_pip(name: str) -> tuple[str, str]:
    """The concern of a package of pip, and its name as all write it."""
    plain = canonicalize_name(name)
    beneath = "packages beneath the frameworks" if BENEATH.match(plain) else "other pip packages"
    return "frameworks" if FRAMEWORKS.match(plain) else beneath, plain


def _known(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    return {
        concern: {name: str(value) for name, value in values.items() if value not in (None, "")}
        for concern, values in facts.items()
    }


def compare(before: EnvironmentFacts, after: EnvironmentFacts) -> tuple[Difference, ...]:
    """Every fact that differs, what is likely to matter most first; within a concern by name."""
    found = []
    both = before.measured and after.measured
    for concern in (*ORDER, *sorted({*before.facts, *after.facts} - set(ORDER))):
        if (not both and concern not in ASKED) or (before.locked != after.locked and concern not in LOCKED):
            continue
        old, new = before.facts.get(concern, {}), after.facts.get(concern, {})
        for name in sorted({*old, *new}, key=lambda name: (name not in _FIRST, name)):
            if old.get(name) != new.get(name):
                found.append(Difference(concern=concern, name=name, before=old.get(name), after=new.get(name)))
    return tuple(found)


_FIRST = frozenset({"libc6", "libstdc++6", "libgcc-s1", "libgomp1"})  # the C and C++ libraries


@dataclass(frozen=True, kw_only=True)
class CellPair:
    """The same cell in two runs; None in the one that lacks it."""

    before: EnvironmentFacts | None
    after: EnvironmentFacts | None
    differences: tuple[Difference, ...] = ()

    @property
    def verdicts_differ(self) -> bool:
        """Whether the two came to different verdicts."""
        return self.before is not None and self.after is not None and self.before.verdict != self.after.verdict


def pairs(before: Mapping[CellKey, EnvironmentFacts], after: Mapping[CellKey, EnvironmentFacts]) -> list[CellPair]:
    """The cells of two runs, by what names them, in the order of the first, those that only the second has behind."""
    found = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        differences = compare(old, new) if old is not None and new is not None else ()
        found.append(CellPair(before=old, after=new, differences=differences))
    return found


def table(differences: Sequence[Difference], indent: str = "") -> Iterable[str]:
    """Differences as aligned lines below their concerns: ``name  - before  + after``."""
    for concern, group in itertools.groupby(differences, lambda one: one.concern):
        rows = [(one.name, one.before or NONE, one.after or NONE) for one in group]
        width = max(len(name) for name, _, _ in rows)
        left = max((len(old) for _, old, new in rows if _short(old, new)), default=0)
        yield f"{indent}{concern}"
        for name, old, new in rows:
            if _short(old, new):
                yield f"{indent}  {name:<{width}}  - {old:<{left}}  + {new}"
            else:
                yield f"{indent}  {name}"
                yield from (f"{indent}    - {line}" for line in old.splitlines())
                yield from (f"{indent}    + {line}" for line in new.splitlines())


def _short(old: str, new: str) -> bool:
    return max(len(old), len(new)) <= LONG and "\n" not in old + new


NONE = "(none)"
LONG = 60
"""Characters from which on a value gets a line of its own."""


def cell_text(before: EnvironmentFacts, after: EnvironmentFacts) -> Iterable[str]:
    """Two environments side by side, for people."""
    differences = compare(before, after)
    for mark, side in (("-", before), ("+", after)):
        verdict = f": {side.verdict}" if side.verdict else ""
        yield f"{mark} {side.name}  {side.title}{verdict}"
    yield ""
    for side in (before, after):
        if not side.measured:
            yield f"{side.name} has no image that was measured: only what was asked for is compared"
    if not differences:
        yield "the environments are the same, as far as they were measured"
    yield from table(differences)


def run_text(before: str, after: str, found: Sequence[CellPair]) -> Iterable[str]:
    """Two runs, cell by cell, for people: verdicts that differ first, then environments, the same differences once."""
    yield f"- {before}"
    yield f"+ {after}"
    alone = [pair for pair in found if pair.before is None or pair.after is None]
    both = [pair for pair in found if pair not in alone]
    changed = [pair for pair in both if pair.verdicts_differ]
    if changed:
        yield ""
        yield "verdicts"
    for pair in changed:
        if pair.before and pair.after:
            yield f"  {pair.before.title}"
            yield f"    - {pair.before.verdict}"
            yield f"    + {pair.after.verdict}"
    groups: dict[tuple[Difference, ...], list[CellPair]] = {}
    for pair in both:
        if pair.differences:
            groups.setdefault(pair.differences, []).append(pair)
    for differences, sharing in groups.items():
        yield ""
        yield from (pair.before.title for pair in sharing if pair.before is not None)
        yield from table(differences, "  ")
    for pair in alone:
        side, mark = (pair.before, "-") if pair.before is not None else (pair.after, "+")
        assert side is not None
        yield f"{mark} only here: {side.title}: {side.verdict}"
    same = sum(not pair.differences and not pair.verdicts_differ for pair in both)
    yield ""
    elsewhere = sum(bool(pair.differences) for pair in both)
    yield (
        f"{len(both)} cell{'s' if len(both) != 1 else ''} in both: {same} the same, "
        f"{len(changed)} with another verdict, {elsewhere} with another environment"
    )


@dataclass(frozen=True, kw_only=True)
class DiffSide(JsonRecord):
    """A cell of a run, or an environment of a lock."""

    name: str
    title: str
    verdict: str


@dataclass(frozen=True, kw_only=True)
class DiffPair(JsonRecord):
    """Two sides and what differs; a side is null where only the other has the cell."""

    before: DiffSide | None
    after: DiffSide | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True, kw_only=True)
class Diff(JsonDocument):
    """What `diff` compared."""

    FORMAT = "reprokit-diff/v1"

    pairs: tuple[DiffPair, ...]


def describe_pairs(found: Sequence[CellPair]) -> Diff:
    """The pairs without the facts that are the same, for ``--json``."""

    def side(facts: EnvironmentFacts | None) -> DiffSide | None:
        return None if facts is None else DiffSide.pick(facts)

    return Diff(pairs=tuple(DiffPair.pick(one, before=side(one.before), after=side(one.after)) for one in found))
