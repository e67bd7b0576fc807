"""Which environment blocks of a report describe the same environment, and in which of them it failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reprokit.intake.environments import Claim, Found, Rank, together
from reprokit.intake.failure import Shown

MOST = 200
"""Environment blocks of one report that are read."""


def grouped(found: Sequence[Found]) -> list[list[Found]]:
    """The blocks of each environment (:func:`environments.together`).

    Of more than ``MOST`` blocks, which is no report of one bug, only the first are read.
    """
    return together(found[:MOST])


def from_paths(shown: Shown | None, groups: Sequence[Sequence[Found]], system: str) -> Found | None:
    """What the paths of a traceback tell of its environment where nothing else does: the Python, the ``system``."""
    paths = [frame.file.replace("\\", "/") for frame in (shown.frames if shown else ())]
    python = next((hit[1] for path in paths if (hit := re.search(r"/python(\d\.\d{1,2})/", path))), "")
    told = {axis for group in groups for found in group for axis in found.axes}
    if shown is None or any(found.system for group in groups for found in group):
        system = ""
    if shown is None or not ((python and "python" not in told) or system):
        return None
    where = f"lines {shown.line} to {shown.last}"
    claims = (
        [Claim(axis="python", version=python, rank=Rank.STATED, said=where)] if python and "python" not in told else []
    )
    remarks = [f"python {python} is what the paths in the traceback say ({where})"] if claims else []
    return Found(
        kind="paths", first=shown.line, last=shown.last, claims=tuple(claims), system=system, remarks=tuple(remarks)
    )


def system_of(text: str) -> str:
    """``windows`` or ``macos`` where the paths in a text, before home directories are taken out of it, are of those."""
    if re.search(r"(?<![\w/])/Users/\w", text):
        return "macos"
    return "windows" if re.search(r"(?<!\w)[A-Z]:\\\w[^\n]{0,200}?\\", text) else ""


def failing(groups: Sequence[Sequence[Found]], shown: Shown | None, said: Sequence[Told | None]) -> int:
    """The environment in which it failed: the one told of last before the failure, else the first.

    Of those that are said to fail, or else of those that are not said to be fine (``said``, as :func:`told` has it).
    """
    numbers = range(len(groups))
    fail = [number for number in numbers if (one := said[number]) and one.fails]
    fine = {number for number in numbers if (one := said[number]) and not one.fails}
    of = fail or [number for number in numbers if number not in fine] or list(numbers)
    before = [number for number in of if shown and groups[number][0].first <= shown.line]
    return next(iter(before[-1:] or of), 0)


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the words above an environment say of it. ``fails``: None where they say neither, or both."""

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
"""Words that say whether it fails somewhere, those that would be misread as others first."""
_NEAR = 4
"""Lines above an environment in which the words about it stand."""


def told(lines: Sequence[str], groups: Sequence[Sequence[Found]]) -> list[Told | None]:
    """What the line above each environment says: that it fails there, or that it does not; None where it says neither.

    Only the nearest line with words counts, and not where it says both, asks, or belongs to another environment.
    """
    spans = [(found.first, found.last) for group in groups for found in group]
    return [_told(lines, group[0].first, spans) for group in groups]


def _told(lines: Sequence[str], first: int, spans: Sequence[tuple[int, int]]) -> Told | None:
    for number in range(first - 1, max(0, first - 1 - _NEAR), -1):
        text = lines[number - 1].strip().strip("*#`~-_: ：>")
        if any(begin <= number <= end for begin, end in spans):
            return None
        if not re.search(r"\w{3}|[\u4e00-\u9fff]{2}", text) or re.fullmatch(r"\w+", text, re.ASCII):
            continue
        fails = _fails(text[:400])
        return None if fails is None else Told(line=number, words=text, fails=fails)
    return None


def _fails(text: str) -> bool | None:
    if text.endswith(("?", "？")):
        return None
    said = set()
    for fails, pattern in _HOLDS:
        text, count = re.subn(pattern, " ", text, flags=re.IGNORECASE)
        said |= {fails} if count else set()
    return said.pop() if len(said) == 1 else None


def comments(groups: Sequence[Sequence[Found]], said: Sequence[Told | None]) -> list[str]:
    """What the report says of each environment, in its own words; nothing where there is but one that fails."""
    if len(groups) < 2 and not any(one and not one.fails for one in said):
        return []
    return [
        f"line {one.line} says of the environment in line {group[0].first}: {one.words}"
        for group, one in zip(groups, said, strict=True)
        if one
    ]


def reproduces(cells: Sequence[Mapping[str, str]], said: Sequence[Told | None]) -> str:
    """``expect.reproduces`` as the report has it: the cells that are said to fail, where the others are said not to.

    Written with the axes in which cells differ; '' where the report does not say it of every one, or says both of one.
    """
    fail = [cell for cell, one in zip(cells, said, strict=True) if one and one.fails]
    fine = [cell for cell, one in zip(cells, said, strict=True) if one and not one.fails]
    if not fail or not fine or len(fail) + len(fine) < len(cells) or any(cell in fine for cell in fail):
        return ""
    names = [name for name in fail[0] if len({cell.get(name) for cell in cells}) > 1]
    short = [{name: cell[name] for name in names if name in cell} for cell in fail]
    return f"[{', '.join('{' + ', '.join(f'{k}: {v!r}' for k, v in cell.items()) + '}' for cell in short)}]"
