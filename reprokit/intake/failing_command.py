"""Which of the commands that a report shows is the one that failed, with the steps that prepare it. Pure."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left as bisect
from collections.abc import Sequence
from dataclasses import replace

from reprokit.intake import commands, installing
from reprokit.intake.commands import CommandLine, Shell
from reprokit.intake.pieces import ReportPiece
from reprokit.intake.scripts import languages
from reprokit.intake.shown import Shown

REPRODUCE = re.compile(
    r"reproduc|repro\b|command|to run|how to|steps|script|run\b|ran\b|launch|train|invoke|execut|复现|重现|命令"
    r"|指令|运行"
    r"|执行|训练|启动|尝试",
    re.IGNORECASE,
)
_INSTALLS = re.compile(r"\binstall\b|setup\.py\s+\w+|^(?:make|cmake|ninja|bazel|meson|uv|conda|mamba)\b|\bbuild")
_MOST = 200
"""Most lines of one command."""
SURE = 10
"""The score of a shell whose command failed for sure: it starts the traceback's script, or prints the failure."""
FINE = re.compile(
    r"(?<!not )(?<!n't )(?<!n’t )(?<!ever )(?<!longer )(?<!sometimes )(?<!occasionally )\b"
    r"(?:works?|worked|fine|fix(?:e[ds])?|solve[ds]?|workaround|resolved?|instead|succeeds?|expected"
    r"|(?:without|no|not have (?:this|the|that)) (?:error|problem|issue)s?)\b|正常|可以|解决|没有?问题|成功",
    re.IGNORECASE,
)
"""Words around a command that does not fail."""
_BLANK = re.compile(
    r"\[[A-Z][A-Z_]{3,}\]|\s\.{3}(?:\s|$)|/?path/to/|<(?:your|path|model|script|file)[\w -]*>", re.IGNORECASE
)
"""What a command has where the reader is to fill in something."""
OR = re.compile(r"\b(?:or|alternatively|either|otherwise|if)\b|或者|否则|如果", re.IGNORECASE)


def _failing(shell: Shell, shown: Shown | None, only: bool) -> bool:
    """Whether a shell has a line that may be what failed: an installation where that failed, or nothing else runs."""
    installs = shell.of("setup") and not _works(shell) and (only or (shown and shown.building))
    return bool(shell.of("run") or installs)


def chosen(found: Sequence[Shell], shown: Shown | None) -> Shell | None:
    """The shell whose command failed, the first of the most likely ones; an installation only where nothing runs."""
    only = not any(shell.of("run") for shell in found) and (shown is None or shown.building or not shown.frames)
    candidates = [shell for shell in found if _failing(shell, shown, only)]
    before = [shell for shell in candidates if shown and shell.lines[0].line <= shown.line]
    scores = [score(shell, shown) + 2 * bool(before and shell is before[-1]) for shell in candidates]
    texts = sorted(line.text for shell in candidates for line in shell.of("run"))
    scores = [one - 5 * _shorter(shell, texts) for one, shell in zip(scores, candidates, strict=True)]
    best = candidates[scores.index(max(scores))] if candidates else None
    return None if best and _works(best) and max(scores) < 0 else best


def _shorter(shell: Shell, texts: Sequence[str]) -> bool:
    """Whether other commands are those of a shell with more arguments, so that the shell only mentions them.

    ``texts``: the commands of all shells, in order.
    """
    own = [f"{line.text} " for line in shell.of("run")]
    return bool(own) and all("".join(texts[at : at + 1]).startswith(one) for one in own for at in [bisect(texts, one)])


def _works(shell: Shell) -> bool:
    """Whether the words around a command say that it does not fail."""
    return bool(FINE.search(shell.piece.lead))


def score(shell: Shell, shown: Shown | None) -> int:
    """How likely a shell has the command that failed."""
    texts = [line.text for line in shell.of("run", "setup")]
    script = posixpath.basename(shown.frames[0].file.replace("\\", "/")) if shown and shown.frames else ""
    building = bool(shown and shown.building)
    prints = shown is not None and shell.lines[0].line < shown.line <= shell.piece.last
    return (
        12 * (script.endswith(".py") and any(script in text for text in texts))
        + 10 * (prints and shell.piece.kind != "prose")
        + 6 * (building and any(_INSTALLS.search(text) for text in texts))
        + 4 * bool(REPRODUCE.search(shell.piece.under))
        + 3
        - 8 * _works(shell)
    )


def others(found: Sequence[Shell], chosen: Shell | None, lines: Sequence[CommandLine]) -> list[CommandLine]:
    """What else the report installs and builds, each once; not what it says that solves the problem."""
    builds = any(commands.BUILDS.search(line.text) for line in lines)
    kept: dict[str, CommandLine] = {}
    for shell in found:
        if not _works(shell):
            for line in shell.of("setup", "run"):
                made = line.role == "setup" or (
                    not builds and shell is not chosen and commands.BUILDS.search(line.text)
                )
                if made and not _BLANK.search(line.text) and not any(line.text in one.text for one in lines):
                    kept.setdefault(line.text, line)
    return list(kept.values())


def sequence(
    found: Sequence[Shell], chosen: Shell, shown: Shown | None, pieces: Sequence[ReportPiece] = ()
) -> list[CommandLine]:
    """The lines of the chosen shell, behind those of shells right above it that prepare them, up to the failure.

    Without installations that a case holds elsewhere, unless such a one failed.
    """
    shells = [chosen]
    at = next(number for number, shell in enumerate(found) if shell is chosen)
    for shell in reversed(found[:at]):
        if not _goes_on(shell, shells[0], shown, pieces):
            break
        shells.insert(0, shell)
    for shell in found[at + 1 :]:
        if not _goes_on(shells[-1], shell, shown, pieces):
            break
        shells.append(shell)
    lines = [line for shell in shells for line in shell.lines][:_MOST]
    if shown and lines and lines[0].line < shown.line <= chosen.piece.last:
        lines = [line for line in lines if line.line <= shown.line]
    ran = max((number for number, line in enumerate(lines) if line.role == "run"), default=-1)
    building = bool(shown and shown.building)
    installs = ran < 0 or (building and not chosen.of("run"))
    lines = [
        line
        if line.role != "setup" or _stays(line, installs or (building and number > ran))
        else replace(line, role="elsewhere")
        for number, line in enumerate(lines)
    ]
    while lines and lines[-1].role not in ("run", "setup", "prep"):
        lines.pop()
    entered = (replace(line, role="elsewhere") if _ENTERS.match(line.text) else line for line in lines[:-1])
    return [*entered, *lines[-1:]]


_ENTERS = re.compile(
    r"(?:sudo\s+)?(?:nvidia-)?(?:docker|podman)\s+(?:run|exec|start|attach)\s[^|;&\n]{0,400}?"
    r"(?:(?<=\s)(?:/bin/)?(?:ba|z)?sh|(?<=\s)[\w.-]{1,80}(?:/[\w.-]{1,80}){0,5}:[\w.-]{1,80})\s*$"
)
"""A shell in a container, in which what follows is typed: a case runs in one."""


def _goes_on(shell: Shell, below: Shell, shown: Shown | None, pieces: Sequence[ReportPiece]) -> bool:
    """Whether the commands of one shell are the next steps after those of another, with no failure between them.

    Programs that the report shows between them do not count.
    """
    first, last = shell.lines[-1].line, below.lines[0].line
    gap = last - first
    if gap > _NEAR:
        between = [piece for piece in pieces if first < piece.line and piece.last < last and piece.info in languages()]
        gap -= sum(piece.last - piece.line + 3 for piece in between)
    near = gap <= _NEAR and shell.piece.heading == below.piece.heading
    text = below.piece.lead
    if not near or OR.search(text) or FINE.search(text) or _works(shell) or _same(shell, below):
        return False
    return not (shown and shell.lines[-1].line < shown.line < below.lines[0].line)


_NEAR = 8
"""Most lines between two steps."""


def _stays(line: CommandLine, installs: bool) -> bool:
    """Whether an installation is a part of the command: it failed, or it is of a tree. Trees come from ``sources``."""
    return (installs or installing.of_tree(line)) and not re.match(
        r"\s*(?:\w+=\S+ )*(?:git\s+(?:clone|checkout|switch|submodule)|(?:sudo )?docker)", line.text
    )


def _same(one: Shell, other: Shell) -> bool:
    """Whether both run the same kind of program, so that they are two tries rather than two steps."""
    started = [{_started(line.text) for line in shell.of("run")} for shell in (one, other)]
    return started[0] == started[1] and not started[0] <= {"cmake", "make", "ninja"}


def _started(text: str) -> str:
    """The program that a command starts, with the script or the module that it is given."""
    text = commands.assignments(text.strip())[1]
    name = commands.program_of(text)
    script = re.search(r"\s(?:-m\s+\S+|\S+\.(?:py|sh|js)(?=\s|$))", text)
    words = re.match(r"\S+((?:\s+[a-z][a-z-]*(?=\s|$)){0,3})", text.strip())
    return f"{name}{script[0] if script else words[1] if words else ''}"
