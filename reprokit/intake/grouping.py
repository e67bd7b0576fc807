"""Which environment blocks of a report describe the same environment, and in which of them it failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reprokit.intake.environments import EnvironmentBlock, Rank, ReportedValue, together
from reprokit.intake.failure import Shown

MOST = 64
"""Most environment blocks of one report that are read."""


def grouped(found: Sequence[EnvironmentBlock]) -> list[list[EnvironmentBlock]]:
    """The blocks of each environment (:func:`environments.together`).

    Only the first ``MOST`` blocks are read: a report with more is not about one bug.
    """
    return together(found[:MOST])


def from_paths(
    shown: Shown | None, groups: Sequence[Sequence[EnvironmentBlock]], system: str
) -> EnvironmentBlock | None:
    """The Python version and system in paths of a traceback, where ``groups`` do not give them; None for neither.

    ``system``: what :func:`system_of` found.
    """
    paths = [frame.file.replace("\\", "/") for frame in (shown.frames if shown else ())]
    python = next((hit[1] for path in paths if (hit := re.search(r"/python(\d\.\d{1,2})/", path))), "")
    known = {axis for group in groups for found in group for axis in found.axes}
    if shown is None or any(found.system for group in groups for found in group):
        system = ""
    if shown is None or not ((python and "python" not in known) or system):
        return None
    where = f"lines {shown.line} to {shown.last}"
    claims = (
        [ReportedValue(axis="python", version=python, rank=Rank.STATED, quote=where)]
        if python and "python" not in known
        else []
    )
    remarks = [f"python {python} is from the paths in the traceback ({where})"] if claims else []
    return EnvironmentBlock(
        kind="paths", first=shown.line, last=shown.last, claims=tuple(claims), system=system, remarks=tuple(remarks)
    )


def system_of(text: str) -> str:
    """``windows`` or ``macos`` where a text, with its home directories, has paths of such a system, else ''."""
    if re.search(r"(?<![\w/])/Users/\w", text):
        return "macos"
    return "windows" if re.search(r"(?<!\w)[A-Z]:\\\w[^\n]{0,200}?\\", text) else ""


def failing(
    groups: Sequence[Sequence[EnvironmentBlock]], shown: Shown | None, statements: Sequence[GroupReading | None]
) -> int:
    """The index of the environment in which it failed: the last one before the failure in the text, else the first.

    Among those that the report says fail, or else among those that it does not say work. ``statements``: the result of
    :func:`statements`.
    """
    numbers = range(len(groups))
    fail = [number for number in numbers if (one := statements[number]) and one.fails]
    fine = {number for number in numbers if (one := statements[number]) and not one.fails}
    of = fail or [number for number in numbers if number not in fine] or list(numbers)
    before = [number for number in of if shown and groups[number][0].first <= shown.line]
    return next(iter(before[-1:] or of), 0)


@dataclass(frozen=True, kw_only=True)
class GroupReading:
    """A statement of the report about an environment. ``words``: the text; ``fails``: whether it says that it fails."""

    line: int
    words: str
    fails: bool


_NOT_FAILING = (
    r"\b(?:does|do|did)(?:n['’]?t| not) (?:happen|occur|fail|crash|appear|show|reproduce)\b|\bnot affected\b"
    r"|\b(?:can(?:no|['’])t|could(?: not|n['’]t)|unable to) (?:be )?reproduced?\b|\bno (?:errors?|problems?|crash)\b"
    r"|\b(?:never|without) (?:failed|failing|crashed|errors?|problems?)\b|不会?(?:报错|出错|出现|崩溃)|复现失败"
    r"|没有?(?:报错|出错|出现|错误|问题|异常)|无(?:报错|错误|异常|问题)|未(?:报错|出错|出现)|(?:无法|未能?)复现"
)
_NOT_WORKING = (
    r"\b(?:does|do|did|is|are)(?:n['’]?t| not) (?:work(?:ing)?|run|ok)\b|\bno longer (?:works?|runs?)\b"
    r"|\b(?:stopped|stops) working\b|\bnot working\b|不正常|不工作|跑不(?:通|起来)"
    r"|(?:不能|无法)(?:正常)?(?:运行|使用|工作|训练)"
)
_WORKING = r"\b(?:work(?:s|ed|ing)?|(?:runs?|ran|is|was|are) (?:fine|ok|good))\b|正常|可以(?:运行|跑)"
_FAILING = r"\bfail(?:s|ed|ing)?\b|\bcrash(?:es|ed|ing)?\b|\bbroken\b|报错|出错|失败|崩溃|有问题"
_HOLDS = ((False, _NOT_FAILING), (True, _NOT_WORKING), (False, _WORKING), (True, _FAILING))
"""Phrases that say whether it fails; longer phrases before those that they contain."""
_NEAR = 4
"""Most lines above an environment that are searched for words about it."""


def statements(lines: Sequence[str], groups: Sequence[Sequence[EnvironmentBlock]]) -> list[GroupReading | None]:
    """For each environment, what the line above it says: that it fails there, or that it does not; None for neither.

    Only the nearest line with words counts, unless it says both, is a question, or belongs to another environment.
    """
    spans = [(found.first, found.last) for group in groups for found in group]
    return [_statement(lines, group[0].first, spans) for group in groups]


def _statement(lines: Sequence[str], first: int, spans: Sequence[tuple[int, int]]) -> GroupReading | None:
    for number in range(first - 1, max(0, first - 1 - _NEAR), -1):
        text = lines[number - 1].strip().strip("*#`~-_: ：>")
        if any(begin <= number <= end for begin, end in spans):
            return None
        if not re.search(r"\w{3}|[\u4e00-\u9fff]{2}", text) or re.fullmatch(r"\w+", text, re.ASCII):
            continue
        fails = _fails(text[:400])
        return None if fails is None else GroupReading(line=number, words=text, fails=fails)
    return None


def _fails(text: str) -> bool | None:
    if text.endswith(("?", "？")):
        return None
    found = set()
    for fails, pattern in _HOLDS:
        text, count = re.subn(pattern, " ", text, flags=re.IGNORECASE)
        found |= {fails} if count else set()
    return found.pop() if len(found) == 1 else None


def comments(groups: Sequence[Sequence[EnvironmentBlock]], statements: Sequence[GroupReading | None]) -> list[str]:
    """What the report says about each environment, in its own words; [] for a single environment that fails."""
    if len(groups) < 2 and not any(one and not one.fails for one in statements):
        return []
    return [
        f"line {one.line} about the environment in line {group[0].first}: {one.words}"
        for group, one in zip(groups, statements, strict=True)
        if one
    ]


def reproduces(cells: Sequence[Mapping[str, str]], statements: Sequence[GroupReading | None]) -> str:
    """``expect.reproduces`` according to the report: the failing cells, where it says of all others that they work.

    Written with the axes in which cells differ; '' where the report leaves a cell out, or says both about one.
    """
    fail = [cell for cell, one in zip(cells, statements, strict=True) if one and one.fails]
    fine = [cell for cell, one in zip(cells, statements, strict=True) if one and not one.fails]
    if not fail or not fine or len(fail) + len(fine) < len(cells) or any(cell in fine for cell in fail):
        return ""
    names = [name for name in fail[0] if len({cell.get(name) for cell in cells}) > 1]
    short = [{name: cell[name] for name in names if name in cell} for cell in fail]
    return f"[{', '.join('{' + ', '.join(f'{k}: {v!r}' for k, v in cell.items()) + '}' for cell in short)}]"
