"""What stays the same of a failure's words when it happens elsewhere. :func:`essence` takes away what was printed
around the message, :func:`normalise` what differs from run to run. Names, error codes, ``nan`` and ``inf`` stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from reprokit.evidence.parsers.paddle import ENFORCE

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


_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    # GCC and shells quote as the locale says.
    (re.compile("[‘’“”`´]"), "'"),
    # Python and GCC suggest names, and newer ones more often.
    (
        re.compile(
            r"[\s.;,]{0,3}(?:did you mean|perhaps you|maybe you meant|did you forget)\b[^?\n]{1,200}\?", re.IGNORECASE
        ),
        "",
    ),
    (re.compile(r" ?\(consider renaming [^)\n]{1,500}\)"), ""),
    # What the interpreter says in other words since Python 3.11, or adds by where it noticed.
    (
        re.compile(
            r"\b(?:local|cannot access local) variable ('\w+') (?:referenced before assignment|where it is not .*)"
        ),
        r"local variable \1 referenced before assignment",
    ),
    (
        re.compile(
            r"\b(?:cannot access )?free variable ('\w+') (?:referenced before|where it is not) .* in enclosing scope"
        ),
        r"free variable \1 referenced before assignment in enclosing scope",
    ),
    (re.compile(r"\b(maximum recursion depth exceeded)\b.*"), r"\1"),
    # Since Python 3.12 and 3.14.
    (
        re.compile(
            r"(Can't instantiate abstract class \w+) (?:with|without an implementation for) abstract methods? (.*)"
        ),
        _abstract,
    ),
    (re.compile(r"(too many values to unpack \(expected \d+), got \d+\)"), r"\1)"),
    # Paddle names its class of error in two ways, by FLAGS_call_stack_level.
    (re.compile(rf"\b({'|'.join(ENFORCE)})Error: "), r"(\1) "),
    (re.compile(r"(\b\w+://)(?:[^\s/@'\"]*@)?([\w.-]+)[^\s'\"<>]*"), r"\1\2"),
    (re.compile(r"(?<![\w./:<>~])(?:~|\.{1,2})?(?:/[\w.+@=~-]+)+/?"), _shorter),
    (re.compile(r"(?<![\w./:<>~+-])(?:[\w.+-]+/)+([\w+-]+\.[A-Za-z]\w{0,4})(?![\w/])"), r"\1"),
    # Since Python 3.10 "f() missing ..." says the class too.
    (re.compile(r"(?<![\w.])(?:[A-Za-z_]\w*\.(?:<locals>\.)?)+([A-Za-z_]\w*\(\) (?:missing|got|takes)\b)"), r"\1"),
    # The same on another GPU.
    (re.compile(r"\b(sm|compute)_\d+[af]?\b"), r"\1_<n>"),
    # Positions: file.cpp:3:5, file.cu(12), file.h:53
    (re.compile(r"(\.[A-Za-z]\w{0,4})(?:\(\d+(?:,\d+)?\)|(?::\d+){1,2}(?!\w))"), r"\1"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<n>"),
    (re.compile(r"\b0x[0-9a-fA-F]{5,}\b"), "<address>"),
    # Names that tempfile, GCC and nvcc make up.
    (re.compile(r"\b(?:tmp[a-z0-9_]{8}|tmpxft_[\w-]+|cc[A-Za-z0-9]{6}(?=\.(?:o|s|c|res)\b))(?!\w)"), "<tmp>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?!\w)"), "<n>"),
    (
        re.compile(
            r"(?P<keep>(?i:\b(?:errno|code|status|signal|exit|response|http(?:/[\d.]{1,3})?)\W{1,2}"
            r"|\berror[ #(]{1,2}))?"
            r"(?<![\w.])[-+]?\d+(?:[._x:+-]\d+)*(?:(?:e[-+]?|rc|a|b|\.?post|\.?dev|\+cu)\d+)*"
            r"(?: ?(?:[KMGT]i?B|bytes?|[mun]?s|%))?(?!\w|\.\w)"
        ),
        lambda match: match[0] if match["keep"] else "<n>",
    ),
    (re.compile(r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8,}\b"), "<n>"),
    # A list of numbers is as long as its data.
    (re.compile(r"<n>(?:(?:, ?| x | )<n>)+"), "<n>"),
    (re.compile(r"\s+"), " "),
)

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
