"""What stays the same of a failure's words when it happens elsewhere. :func:`essence` takes away what was printed
around the message, :func:`normalise` what differs from run to run. Names, error codes, ``nan`` and ``inf`` stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from reprokit.evidence.frames import LOADER

LONG = 2000
"""Characters of a message that count; behind them come dumps of what the program held."""

_SUMMARY = "Error Message Summary:"
_FILE = re.compile(r'(?P<indent>\s*)File ".+?", line \d+')
_AROUND = re.compile(
    r"-{5,}$|[~^\s]+$"
    r"|(?:\w+ )*Traceback \(most recent call last\):$"
    r"|Exception raised from |frame #\d+: |C\+\+ CapturedTraceback:"  # torch: the C++ stack
    # torch and Paddle: advice, which comes and goes with versions and settings
    r"|Set TORCH\w+|You can suppress this exception|For debugging consider|Compile with [`']TORCH_USE_CUDA_DSA"
    r"|Device-side assertion tracking|CUDA kernel errors might be|from user code:|Search for [`']\w+[`'] in https?://"
    r"|(?:Check the documentation|For more (?:details|information)|See https?://)"
)
"""Lines inside of a message that are not part of what it says."""
_OPERATORS = re.compile(r"\[operator < \w+ > error\]")

_TEMPORARY = re.compile(r"/(?:tmp|var/tmp|dev/shm|var/folders)/")


_GIVEN = re.compile(r"(?!tmp|cc)[A-Za-z]+(?:[._-][A-Za-z]+)*\.[A-Za-z]\w{0,4}")
"""A file's name that someone chose, unlike those that are made up in folders for temporary files."""


def _shorter(match: re.Match[str]) -> str:
    path = match[0].rstrip("/")
    name = path.rpartition("/")[2]
    return "<tmp>" if _TEMPORARY.match(path + "/") and not _GIVEN.fullmatch(name) else name


def _abstract(match: re.Match[str]) -> str:
    return f"{match[1]} with abstract methods {match[2].replace(chr(39), '')}"


def _keep(match: re.Match[str]) -> str:
    return match[0] if match["keep"] else "<n>"


_FUNCTIONS = {"@shorter": _shorter, "@abstract": _abstract, "@keep": _keep}
_DATA = yaml.load((Path(__file__).parent / "data" / "normalise.yaml").read_text("utf-8"), LOADER)
ENFORCE: Sequence[str] = _DATA["enforce"]
_RULES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(pattern.replace("ENFORCE", "|".join(ENFORCE))), _FUNCTIONS.get(put, put))
    for pattern, put in _DATA["rules"]
]

_ROUNDS = 5
"""What one rule takes away may make the next one fit: until nothing changes any more, mostly two rounds."""


def essence(message: str) -> str:
    """Return what ``message`` itself says: without stacks quoted in it and without the advice printed around it."""
    kept = strip_stacks(message.rpartition(_SUMMARY)[2] if _SUMMARY in message else message)
    text = " ".join(_OPERATORS.sub("", "\n".join(kept)).split())
    return text[:LONG]


def strip_stacks(message: str) -> list[str]:
    """Return the lines of ``message`` without frames that it quotes and without the advice printed around it."""
    kept: list[str] = []
    indent = -1  # of the quoted frame whose source lines follow
    for line in message.split("\n"):
        if quoted := _FILE.match(line):
            indent = len(quoted["indent"])
            continue
        if indent >= 0 and line.strip() and (line[:1] == "\t" or len(line) - len(line.lstrip()) > indent):
            continue
        indent = -1
        if not _AROUND.match(line.strip()):
            kept.append(line)
    return kept


def normalise(text: str) -> str:
    """Return ``text`` in one line, without what changes from run to run. Never raises; linear in its length."""
    for _ in range(_ROUNDS):
        before = text
        for pattern, replacement in _RULES:
            text = pattern.sub(replacement, text)
        if text == before:
            break
    return text.strip()
