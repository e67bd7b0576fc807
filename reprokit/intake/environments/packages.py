"""Lists of packages: pip list, pip freeze, requirements.txt, pip's log, conda list. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from packaging.utils import canonicalize_name

from reprokit.environment.axes import BY_NAME
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank
from reprokit.intake.environments.pairs import PACKAGES, role
from reprokit.intake.environments.reading import WHEEL, BlockReader
from reprokit.intake.table import table

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,80}[A-Za-z0-9])?"
_PINNED = re.compile(rf"({_NAME})(?:\[[\w, -]{{0,80}}\])?===?([\w.!+*-]{{1,60}})(?:\s*;.*|\s+#.*|\s+--hash.*|\s*\\)?$")
_SOURCE = re.compile(rf"(?:-e\s+\S+#egg=({_NAME})\S*|({_NAME})\s+@\s+\S+|-e\s+\S+)$")
_ASKED = re.compile(
    rf"({_NAME})(?:\[[\w, -]{{0,80}}\])?\s*(?:(?:[<>]=?|[=!~]==?)\s*[\w.*+!-]{{1,40}}\s*,?\s*){{0,4}}"
    r"(?:\s*;.*|\s+#.*)?$"
)
_CONDA_PIN = re.compile(r"([a-z][a-z0-9._-]{1,60})=(\d[\w.]{0,40})(?:=(\S{1,60}))?$")
_OPTION = re.compile(r"(?:-r|-c|-f|-i|--[a-z-]{3,30})[ =]\S+$")
_LIST_HEAD = re.compile(r"Package\s+Version(?:\s+\S.*)?$")
_LIST_ROW = re.compile(rf"({_NAME})\s+(\d[\w.!+*-]{{0,60}})(?:\s+\S.*)?$")
_BARE_ROW = re.compile(r"([A-Za-z][A-Za-z0-9._-]{1,60})\s+v?(\d{1,4}(?:\.\w+){1,6}(?:\+[\w.]+)?)\+?$")
_RULE = re.compile(r"-{3,}[ -]*$")
_CONDA_HEAD = re.compile(r"# packages in environment at|#?\s*Name\s+Version\s+Build")
_CONDA_ROW = re.compile(
    r"([A-Za-z0-9_][\w.-]{0,80})\s+(\d\S{0,60}|<develop>|dev\S{0,20})\s+(\w[\w.+-]{0,80})(?:\s+(\S{1,120}))?$"
)
_CONDA_BUILD = re.compile(r"(?:\w*_)?\d+$|\w*h[0-9a-f]{7}_\w+$|py")
_CONDA_PYTHON = re.compile(r"(?:^|_|cuda\d+|cpu)py(?:\d|h|_|$)|pyhd|pypi")
_OF_CONDA = frozenset(table()["of_conda"])
_CONDA_TO_PIP = {"pytorch": "torch", "py-opencv": "opencv-python", "opencv": "opencv-python"}
_INSTALLED = re.compile(r"Successfully installed (.+)")
_SATISFIED = re.compile(rf"Requirement already satisfied: ({_NAME})\S* in \S+ .{{0,200}}?\((\d[\w.+]*)\)$")
_ASKS = re.compile(r"\b(?:pip3?|conda|mamba) (?:list|freeze)\b")
LEAST = 3
"""Fewest lines of a list without a heading."""


def find(lines: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    """Every list of packages in the lines, in order."""
    at = 0
    while at < len(lines):
        ends = [at + 1]
        for reader in (_pip_list, _conda_list, _log, _rows, _freeze):
            end, found = reader(lines, at)
            if found:
                yield found
                ends = [end]
                break
            ends.append(end)
        at = max(ends)


def _take(lines: Sequence[ReportLine], start: int, good: Callable[[ReportLine], bool]) -> list[ReportLine]:
    """The lines from ``start`` on that are ``good``, up to the end of their fenced block."""
    taken: list[ReportLine] = []
    for line in (lines[place] for place in range(start, len(lines))):
        if line.edge or line.blank or line.fence != lines[start].fence or not good(line):
            break
        taken.append(line)
    return taken


_Result = tuple[int, "EnvironmentBlock | None"]


def _pip_list(lines: Sequence[ReportLine], at: int) -> _Result:
    if not _LIST_HEAD.match(lines[at].text):
        return at, None
    rows = _take(lines, at + 1, lambda line: bool(_LIST_ROW.match(line.text) or _RULE.match(line.text)))
    into = BlockReader(Rank.MEASURED)
    for line in rows:
        if row := _LIST_ROW.match(line.text):
            into.package(row[1], row[2], f"pip list: {row[1]} {row[2]}")
    return _made("pip", lines, at, rows, into)


def _rows(lines: Sequence[ReportLine], at: int) -> _Result:
    """Lines of ``name  1.2.3`` without a heading."""
    if not _BARE_ROW.match(lines[at].text):
        return at, None
    rows = _take(lines, at, lambda line: bool(_BARE_ROW.match(line.text)))
    into = BlockReader(Rank.MEASURED)
    for line in rows:
        row = _BARE_ROW.match(line.text)
        called = role(row[1]) if row else ""
        if row and called.partition(" ")[0] in ("", "package"):
            into.package(called.removeprefix("package ") or row[1], row[2], line.text)
        elif row and called in BY_NAME and called != "os":
            into.claim(called, row[2], line.text, Rank.STATED)
    if len(rows) < _least(lines, at) or len(into.packages) * 2 <= len(rows):
        return at + len(rows), None
    return _made("pip", lines, at, rows, into)


def _least(lines: Sequence[ReportLine], at: int, least: int = LEAST) -> int:
    """Fewest lines of a list without a heading, of which one may be enough where a command asks for it."""
    above = next((line.text for line in reversed(lines[max(0, at - 2) : at]) if not line.blank), "")
    return 1 if _ASKS.search(above) else least


def _freeze(lines: Sequence[ReportLine], at: int) -> _Result:
    first = lines[at]
    if first.edge or not (
        _PINNED.match(first.text) or _SOURCE.match(first.text) or _ASKED.match(first.text) or _OPTION.match(first.text)
    ):
        return at, None
    rows = _take(lines, at, _freezing)
    into = BlockReader(Rank.MEASURED)
    asked, sources = [], []
    for line in rows:
        if pinned := _PINNED.match(line.text):
            into.package(pinned[1], pinned[2], f"pip: {pinned[1]}=={pinned[2]}")
        elif conda := _CONDA_PIN.match(line.text):
            of_conda(into, conda[1], conda[2], conda[3] or "py")
        elif _SOURCE.match(line.text):
            sources.append(line.text)
            for wheel in WHEEL.finditer(line.text):
                into.package(wheel[1], wheel[2], f"pip: {line.text}")
        elif not line.text.startswith("#"):
            asked.append(line.text)
    # Lines of two words are not requirements: most lines must be pinned or bounded.
    bounded = (
        len(into.packages) + len(into.claims) + len(sources) + sum(1 for text in asked if re.search(r"[<>=~]", text))
    )
    counts = not any("." in version for version in into.packages.values()) and not sources and not asked
    if (
        len(rows) < LEAST
        or counts
        or bounded * 2 < len(rows)
        or {"python", "cuda", "cudnn", "gcc"} & set(into.packages)
    ):
        return at + max(len(rows), 1), None
    end, found = _made("requirements" if asked else "pip", lines, at, rows, into)
    # Packages of pip freeze are installed; a requirements file, and packages from elsewhere, are kept as written.
    texts = [line.text for line in rows if not line.text.startswith("#")] if asked else sources
    # Where these lines give nothing together, the lines from the second on give nothing either.
    return (end, replace(found, requirements=tuple(texts))) if found else (at + len(rows), None)


def _freezing(line: ReportLine) -> bool:
    text = line.text
    patterns = (_PINNED, _CONDA_PIN, _SOURCE, _OPTION, _ASKED)
    return bool(text.startswith("# ") or any(pattern.match(text) for pattern in patterns))


def _log(lines: Sequence[ReportLine], at: int) -> _Result:
    into = BlockReader(Rank.MEASURED)
    rows = _take(lines, at, lambda line: bool(_INSTALLED.match(line.text) or _SATISFIED.match(line.text)))
    for line in rows:
        if installed := _INSTALLED.match(line.text):
            for word in installed[1].split():
                name, _, version = word.rpartition("-")
                if name and version[:1].isdigit():
                    into.package(name, version, f"pip installed {word}")
        elif satisfied := _SATISFIED.match(line.text):
            into.package(satisfied[1], satisfied[2], f"pip: {satisfied[1]} {satisfied[2]}")
    return _made("pip", lines, at, rows, into)


def _conda_list(lines: Sequence[ReportLine], at: int) -> _Result:
    headed = bool(_CONDA_HEAD.match(lines[at].raw.strip()))
    row = _CONDA_ROW.match(lines[at].text)
    if not headed and not (row and _CONDA_BUILD.match(row[3])):
        return at, None
    rows = _take(
        lines,
        at,
        lambda line: bool(
            line.raw.strip().startswith(("#", "──")) or _CONDA_ROW.match(line.text) or _CONDA_HEAD.match(line.text)
        ),
    )
    into = BlockReader(Rank.MEASURED)
    listed = 0
    for line in rows:
        if (row := _CONDA_ROW.match(line.text)) and not line.raw.strip().startswith("#"):
            listed += 1
            of_conda(into, row[1], row[2], row[3], row[4] or "")
    if not headed and listed < _least(lines, at, LEAST + 1):
        return at + max(len(rows), 1), None
    return _made("conda", lines, at, rows, into)


def of_conda(into: BlockReader, name: str, version: str, build: str, channel: str = "") -> None:
    """Read a conda package: a toolkit, a compiler, an interpreter, or a Python package."""
    quote = " ".join(("conda:", name, version, build)).strip()
    if canonicalize_name(name) in _OF_CONDA and "*" not in version:
        into.package(name, version, quote)
    if name in ("cudatoolkit", "pytorch-cuda", "cuda-version", "cuda-runtime", "cuda-cudart"):
        into.claim("cuda", version, quote, Rank.BUILT)
    elif name in ("nvcc_linux-64", "cuda-nvcc", "cuda-toolkit", "cudatoolkit-dev", "cuda"):
        into.claim("cuda", version, quote, Rank.STATED)
    elif name == "cudnn":
        into.claim("cudnn", version, quote, Rank.BUILT)
    elif name == "python":
        into.claim("python", version, quote)
    elif re.fullmatch(r"gcc(?:_(?:impl_)?linux-64)?", name):
        into.claim("gcc", version, quote, Rank.STATED)
    elif "*" in version or name.startswith(("lib", "mkl")) or name.endswith("-base"):
        return  # Anaconda's own builds, which nothing from Python's index loads
    elif (
        name in _CONDA_TO_PIP
        or name in PACKAGES
        or channel == "pypi"
        or build.startswith("pypi")
        or _CONDA_PYTHON.search(build)
    ):
        into.package(_CONDA_TO_PIP.get(name, name), version, quote)
        if found := re.search(r"cuda(\d+\.\d+)[\d.]*(?:_cudnn(\d+(?:\.\d+)*))?", build):
            into.claim("cuda", found[1], quote, Rank.BUILT)
            into.claim("cudnn", found[2] or "", quote, Rank.BUILT)


def _made(
    kind: str,
    lines: Sequence[ReportLine],
    at: int,
    rows: Sequence[ReportLine],
    into: BlockReader,
) -> _Result:
    """The block of ``rows``, if it has any fact."""
    if not rows or not (into.packages or into.claims):
        return at + 1, None
    end = next(place for place in range(at, len(lines)) if lines[place].number == rows[-1].number) + 1
    return end, into.found(kind, lines[at].number, rows[-1].number, {})
