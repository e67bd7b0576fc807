"""How likely a text is a command line, by evidence that adds up: how it looks, and where it stands. Pure.

Programs that no table names are found so. What a text has is weighed by ``data/commands.yaml`` (``shapes``), and where
it stands by :data:`PLACES`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from reprokit.intake.pieces import ReportPiece
from reprokit.intake.table import table

ASKED = re.compile(r"\bcommand(?:s|[- ]?line)?\b|命令|指令", re.IGNORECASE)
STEPS = re.compile(r"\bsteps\b|reproduc|复现|重现|步骤", re.IGNORECASE)
_RUN = re.compile(
    r"\b(?:ran|run(?:ning)?|execut\w+|launch\w*|start\w*|tr(?:y|ied)|invok\w+)\b|运行|执行|启动", re.IGNORECASE
)
_SHOWN = re.compile(
    r"(?:errors?|output|traceback|logs?|messages?|results?|报错|错误|输出|日志|信息|结果)\W{0,3}$", re.IGNORECASE
)
"""The end of a line below which stands what was printed."""
ENOUGH = 4
"""From this sum on, a text is a command."""
PLACES = {
    "prompt": 4,  # behind what a shell prints before a command
    "mark": 2,  # behind some other mark, or what a log prints before commands
    "shell": 2,  # in a fence of a shell
    "alone": 1,  # all of a line, an item or a fence
    "verb": 3,  # behind a word such as "run"
    "asked": 3,  # behind "Command:", or below a heading that asks for it
    "steps": 1,  # below a heading that asks for steps
    "fails": 3,  # before a word such as "fails"
    "led": 1,  # below a line that ends in a colon
}
_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_STARTS = re.compile(
    r"(?:[A-Z][A-Z0-9_]*=\S+ +)*(?:sudo +)?(?P<name>\$\{?\w+\}?|(?:[A-Za-z]:)?[\w.~/\\][\w.+/\\-]*)(?=\s|$)"
)
_VERBS = frozenset(
    {"install", "create", "open", "click", "select", "enter", "load", "download", "build", "clone", "launch", "start"}
)
"""Words that begin a step in a list, and name a program only behind a path or a prompt."""
_CONTINUED = re.compile(r"[ \t]*\\\n[ \t]*")
_MOST = 2000
"""Most characters that are weighed."""


@cache
def _shapes() -> Sequence[tuple[int, re.Pattern[str]]]:
    return [(int(weight), re.compile(sign)) for weight, signs in table("commands")["shapes"].items() for sign in signs]


@cache
def words() -> frozenset[str]:
    """Words of sentences, none of which is the name of a program."""
    return frozenset(table("commands")["words"].split())


def subjects(title: str) -> frozenset[str]:
    """The names that a report may be about: words of its title."""
    return frozenset(re.findall(r"[a-z][a-z0-9_+-]+", title.lower())) - words()


def weight(text: str, *places: str, subjects: frozenset[str] = frozenset()) -> int:
    """How much speaks for a text being a command line. ``places``: of :data:`PLACES`."""
    first = _CONTINUED.sub(" ", text[:_MOST]).split("\n", 1)[0].strip()
    starts = _STARTS.match(first)
    name = starts["name"].rpartition("/")[2] if starts else ""
    if not starts or name.lower() in words() or name.lower() in _VERBS or not re.search(r"[A-Za-z]", name):
        return 0
    plain = _QUOTED.sub("''", first)
    total = sum(PLACES[place] for place in places)
    total += sum(points for points, sign in _shapes() if sign.search(plain))
    total += 2 * (name.lower().removesuffix(".exe") in subjects)
    rest = plain[starts.end() :].split()
    return (
        total
        - min(6, sum(word in words() for word in rest[rest[:1] == ["run"] :]))
        - 4 * (len(rest) > 30 and " -" not in plain)
    )


def likely(text: str, *places: str, subjects: frozenset[str] = frozenset()) -> bool:
    """Whether a text is a command line."""
    return weight(text, *places, subjects=subjects) >= ENOUGH


def printed(piece: ReportPiece) -> bool:
    """Whether the words around a piece call it output."""
    return piece.code and bool(_SHOWN.search(piece.lead or piece.heading)) and not STEPS.search(piece.lead)


def around(piece: ReportPiece) -> list[str]:
    """The places in which all of a piece stands, by its heading and by the line before it."""
    if printed(piece):
        return []
    asked = ASKED.search(piece.heading) or (piece.code and ASKED.search(piece.lead))
    led = ["led"] if piece.code and _RUN.search(piece.lead) else []
    return [*led, *(["asked"] if asked else ["steps"] if STEPS.search(piece.under) else [])]


def spoken(text: str) -> bool:
    """Whether a text is a person's words: most of its tokens are plain words, and one is a common one."""
    tokens = text.split()
    plain = [one for one in tokens if re.fullmatch(r"[^\W\d_]+", one)]
    return len(plain) > max(1, len(tokens) // 2) and any(one.lower() in words() for one in plain)
