"""Lists of packages: pip list, pip freeze, requirements.txt, conda list. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from reprokit.intake.environments.forms import PACKAGES, BlockReader
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,80}[A-Za-z0-9])?"
_PINNED = re.compile(rf"({_NAME})(?:\[[\w, -]{{0,80}}\])?===?([\w.!+*-]{{1,60}})(?:\s*;.*|\s+#.*|\s+--hash.*|\s*\\)?$")
_SOURCE = re.compile(rf"(?:-e\s+\S+#egg=({_NAME})\S*|({_NAME})\s+@\s+\S+|-e\s+\S+)$")
_ASKED = re.compile(
    rf"({_NAME})(?:\[[\w, -]{{0,80}}\])?\s*(?:(?:[<>]=?|[=!~]==?)\s*[\w.*+!-]{{1,40}}\s*,?\s*){{0,4}}"
    r"(?:\s*;.*|\s+#.*)?$"
)
_LIST_HEAD = re.compile(r"Package\s+Version(?:\s+\S.*)?$")
_LIST_ROW = re.compile(rf"({_NAME})\s+(\d[\w.!+*-]{{0,60}})(?:\s+\S.*)?$")
_RULE = re.compile(r"-{3,}[ -]*$")
_CONDA_HEAD = re.compile(r"# packages in environment at|#?\s*Name\s+Version\s+Build")
_CONDA_ROW = re.compile(r"([A-Za-z0-9_][\w.-]{0,80})\s+(\d\S{0,60})\s+(\w[\w.+-]{0,80})(?:\s+(\S{1,120}))?$")
_CONDA_BUILD = re.compile(r"(?:\w*_)?\d+$|\w*h[0-9a-f]{7}_\w+$|py")
_CONDA_PYTHON = re.compile(r"(?:^|_|cuda\d+|cpu)py(?:\d|h|_|$)|pyhd|pypi")
_CONDA_TO_PIP = {"pytorch": "torch", "py-opencv": "opencv-python", "opencv": "opencv-python"}
_LEAST = 3
"""Fewest lines of a list without a heading."""


def find(lines: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    """Every list of packages in the lines, in order."""
    at = 0
    while at < len(lines):
        ends = [at + 1]
        for reader in (_pip_list, _conda_list, _freeze):
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


def _freeze(lines: Sequence[ReportLine], at: int) -> _Result:
    """The lines of ``pip freeze`` or of a file of requirements: most of them have a version."""
    if lines[at].edge or not _freezing(lines[at]) or lines[at].text.startswith("#"):
        return at, None
    rows = _take(lines, at, _freezing)
    into = BlockReader(Rank.MEASURED)
    kept, bounded = [], 0
    for line in rows:
        if pinned := _PINNED.match(line.text):
            into.package(pinned[1], pinned[2], f"pip: {pinned[1]}=={pinned[2]}")
        elif not line.text.startswith("#"):
            kept.append(line.text)
            bounded += bool(_SOURCE.match(line.text) or re.search(r"[<>=~]", line.text))
    counts = not any("." in version for version in into.packages.values()) and not kept
    counts = counts or bool({"python", "cuda", "cudnn", "gcc"} & set(into.packages))
    if len(rows) < _LEAST or counts or (len(into.packages) + bounded) * 2 < len(rows):
        return at + max(len(rows), 1), None
    asked = any(not _SOURCE.match(text) for text in kept)
    end, found = _made("requirements" if asked else "pip", lines, at, rows, into)
    # Packages of pip freeze are installed; a requirements file, and packages from elsewhere, are kept as written.
    texts = [line.text for line in rows if not line.text.startswith("#")] if asked else kept
    return (end, replace(found, requirements=tuple(texts))) if found else (at + len(rows), None)


def _freezing(line: ReportLine) -> bool:
    return line.text.startswith("# ") or any(one.match(line.text) for one in (_PINNED, _SOURCE, _ASKED))


def _conda_list(lines: Sequence[ReportLine], at: int) -> _Result:
    headed = bool(_CONDA_HEAD.match(lines[at].raw.strip()))
    row = _CONDA_ROW.match(lines[at].text)
    if not headed and not (row and _CONDA_BUILD.match(row[3])):
        return at, None
    rows = _take(lines, at, lambda line: line.raw.strip().startswith(("#", "──")) or bool(_CONDA_ROW.match(line.text)))
    into = BlockReader(Rank.MEASURED)
    listed = 0
    for line in rows:
        if (row := _CONDA_ROW.match(line.text)) and not line.raw.strip().startswith("#"):
            listed += 1
            of_conda(into, row[1], row[2], row[3], row[4] or "")
    if not headed and listed <= _LEAST:
        return at + max(len(rows), 1), None
    return _made("conda", lines, at, rows, into)


def of_conda(into: BlockReader, name: str, version: str, build: str, channel: str = "") -> None:
    """Read a conda package: a toolkit, a compiler, an interpreter, or a Python package."""
    quote = " ".join(("conda:", name, version, build)).strip()
    if name in ("cudatoolkit", "pytorch-cuda", "cuda-version", "cuda-runtime", "cuda-cudart"):
        into.claim("cuda", version, quote, Rank.BUILT)
    elif name in ("cuda-nvcc", "cuda-toolkit", "cudatoolkit-dev", "cuda"):
        into.claim("cuda", version, quote, Rank.STATED)
    elif name == "cudnn":
        into.claim("cudnn", version, quote, Rank.BUILT)
    elif name == "python":
        into.claim("python", version, quote)
    elif re.fullmatch(r"gcc(?:_(?:impl_)?linux-64)?", name):
        into.claim("gcc", version, quote, Rank.STATED)
    elif name.startswith(("lib", "mkl")) or name.endswith("-base"):
        return  # Anaconda's own builds, which nothing from Python's index loads
    elif name in _CONDA_TO_PIP or name in PACKAGES or "pypi" in (channel, build) or _CONDA_PYTHON.search(build):
        into.package(_CONDA_TO_PIP.get(name, name), version, quote)
        if found := re.search(r"cuda(\d+\.\d+)[\d.]*(?:_cudnn(\d+(?:\.\d+)*))?", build):
            into.claim("cuda", found[1], quote, Rank.BUILT)
            into.claim("cudnn", found[2] or "", quote, Rank.BUILT)


def _made(kind: str, lines: Sequence[ReportLine], at: int, rows: Sequence[ReportLine], into: BlockReader) -> _Result:
    """The block of ``rows``, if it has any fact."""
    if not rows or not (into.packages or into.claims):
        return at + 1, None
    end = next(place for place in range(at, len(lines)) if lines[place].number == rows[-1].number) + 1
    return end, into.found(kind, lines[at].number, rows[-1].number, {})
