"""Sizes, durations, counts and names that the format spells as text. Each raises ValueError saying what it expects.
Sizes and durations are Compose's: https://docs.docker.com/reference/compose-file/extension/#specifying-byte-values
"""

from __future__ import annotations

import math
import posixpath
import re
import shlex
import signal
from datetime import datetime, timezone
from functools import lru_cache
from typing import Literal, TypeVar, get_args
from unicodedata import normalize

from reprokit.case.cellspec import SanitizerKind
from reprokit.core import patterns
from reprokit.core.near_match import near

_Word = TypeVar("_Word", bound=str)

_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*(?:([kmgt]?)(?:i?b)?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

_DURATION = re.compile(
    r"(?:(?P<d>[0-9]{1,9}(?:\.[0-9]{1,9})?)d)?(?:(?P<h>[0-9]{1,9}(?:\.[0-9]{1,9})?)h)?(?:(?P<m>[0-9]{1,9}(?:\.[0-9]{1,9})?)m(?:in)?)?"
    r"(?:(?P<s>[0-9]{1,9}(?:\.[0-9]{1,9})?)s?)?"
)
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}

_INSTANT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?(?P<offset>[Zz]|[+-][0-9]{2}:[0-9]{2}))?"
)
"""A date, or a date-time of RFC 3339. Fractions of a second do not count."""
_USER = re.compile(r"(?:[a-z_][a-z0-9_-]{0,31}|[0-9]{1,10})(?::(?:[a-z_][a-z0-9_-]{0,31}|[0-9]{1,10}))?")
_GIT_URL = re.compile(r"(?:https?|ssh|git|file)://(?!-)\S+|\w[\w.-]*@[\w.][\w.-]*:(?!-)\S+|(?:\.{0,2}|~)/[^\0\n]*")

MOST_SIZE = 64 * 1024**4
"""More memory than any one machine has; what a case or a site writes beyond it is a mistake."""

MOST_SECONDS = 30 * 86400.0
MOST_PIDS = 65536
MOST_CORES = 4096
MOST_TRIALS = 10_000

MINIMUM_MEMORY = 6 * 1024**2
"""Docker's smallest memory limit (https://docs.docker.com/engine/containers/resource_constraints/)."""


def size(text: str) -> int:
    """Bytes of ``64m``, ``1g``, ``1.5GiB`` or ``1048576``; units count by 1024, as in Compose."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError("a size such as 64m, 1g or 1.5GiB")
    value = float(match[1]) * 1024 ** _POWERS[match[2].lower()]
    if value < 1:
        raise ValueError("a size above zero, such as 64m or 1g")
    if value > MOST_SIZE:
        raise ValueError("a size of at most 64t")
    return int(value)


def memory(text: str) -> int:
    """Bytes of a memory limit; at least Docker's minimum of 6m."""
    value = size(text)
    if value < MINIMUM_MEMORY:
        raise ValueError("at least 6m, the engine's smallest memory limit (a bare number counts bytes)")
    return value


def duration(text: str) -> float:
    """Seconds of ``30m``, ``1h30m``, ``90s`` or ``90``."""
    stripped = text.strip()
    match = _DURATION.fullmatch(stripped)
    if not match or not stripped:
        raise ValueError("a duration such as 30m, 1h30m, 90s or 90 (seconds)")
    seconds = sum(float(match[unit]) * factor for unit, factor in _SECONDS.items() if match[unit])
    if seconds <= 0:
        raise ValueError("a duration above zero, such as 30m or 90s")
    if seconds > MOST_SECONDS:
        raise ValueError("a duration of at most 30d")
    return seconds


def count(text: str) -> int:
    """A whole number, zero or more, in plain digits."""
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise ValueError("a whole number such as 3")
    return int(text)


def positive(text: str) -> int:
    """A whole number above zero."""
    value = count(text)
    if value < 1:
        raise ValueError("a whole number, at least 1")
    return value


def pids(text: str) -> int:
    """A number of processes and threads."""
    return _at_most(positive(text), MOST_PIDS)


def trials(text: str) -> int:
    """A number of trials of one cell."""
    return _at_most(positive(text), MOST_TRIALS)


def _at_most(value: int, most: int) -> int:
    if value > most:
        raise ValueError(f"a whole number, at most {most}")
    return value


def rate(text: str) -> float:
    """A share above 0 and below 1, such as ``0.1``."""
    value = _share(text)
    if not 0 < value < 1:
        raise ValueError("a rate above 0 and below 1 such as 0.1")
    return value


def tolerance(text: str) -> float:
    """A number of at least 0, such as ``1e-5``."""
    value = float(text) if re.fullmatch(r"[0-9]{1,40}(\.[0-9]{0,40})?([eE][-+]?[0-9]{1,3})?", text) else -1.0
    if not 0 <= value < float("inf"):
        raise ValueError("a number of at least 0 such as 1e-5")
    return value


def times(text: str) -> float:
    """How many times as much, such as ``1.3``: above 1 and at most 1000."""
    value = float(text) if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,10})?", text) else 0.0
    if not 1 < value <= 1000:
        raise ValueError("a number above 1 and at most 1000 such as 1.3")
    return value


def confidence(text: str) -> float:
    """How sure to be: at least 0.5 and below 1, such as ``0.95``."""
    value = _share(text)
    if not 0.5 <= value < 1:
        raise ValueError("a confidence of at least 0.5 and below 1 such as 0.95")
    return value


def _share(text: str) -> float:
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,15})?|\.[0-9]{1,15}", text.strip()) else math.nan


def cores(text: str) -> float:
    """A number of CPU cores, such as ``4`` or ``0.5``."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}", text.strip()):
        raise ValueError("a number of cores such as 4 or 0.5")
    value = float(text)
    if not 0.01 <= value <= MOST_CORES:
        raise ValueError(f"a number of cores, at least 0.01 and at most {MOST_CORES}")
    return value


def _one_of(text: str, *words: _Word) -> _Word:
    for word in words:
        if text == word:
            return word
    raise ValueError(" or ".join(words) + near(text, words, prefix="; "))


def network(text: str) -> Literal["none", "bridge"]:
    """``none`` or ``bridge``."""
    return _one_of(text, "none", "bridge")


def ipc(text: str) -> Literal["private", "host"]:
    """``private`` or ``host``."""
    return _one_of(text, "private", "host")


ULIMITS = ("as", "cpu", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "sigpending", "stack")
"""Limits of a process that a case sets: those that hold it alone, rather than give it a share of the host's processors
(nice, rtprio). ``core`` is what a run asks for (``--core-dumps``)."""
_SIZED = ("as", "data", "fsize", "memlock", "msgqueue", "stack")
MOST_FILES = 1048576
"""The kernel's own upper limit of ``nofile`` (fs.nr_open)."""


def ulimit_name(text: str) -> str:
    """``memlock``, ``stack``, ``nofile`` ..., as ``docker run --ulimit`` calls them."""
    return _one_of(text, *ULIMITS)


def ulimit(name: str, text: str) -> str:
    """``memlock=-1:-1``, soft and hard limit as ``docker run --ulimit`` has them, of ``unlimited`` or ``64m``."""
    soft, _, hard = text.partition(":")
    values = [_ulimit(name, value.strip()) for value in ((soft, hard) if hard else (soft, soft))]
    if values[1] != -1 and not -1 < values[0] <= values[1]:
        raise ValueError("a soft limit that is not above the hard one")
    return f"{name}={values[0]}:{values[1]}"


def _ulimit(name: str, text: str) -> int:
    if text in ("-1", "unlimited") and name != "nofile":
        return -1
    expected = f"a number{', a size such as 64m' if name in _SIZED else ''}, or unlimited"
    if name == "nofile":
        expected = f"a number of at most {MOST_FILES}"
    try:
        value = size(text) if name in _SIZED and text != "0" else count(text)
    except ValueError:
        raise ValueError(f"{expected}; or SOFT:HARD") from None
    if name == "nofile" and value > MOST_FILES:
        raise ValueError(expected)
    return value


GPU_CAPABILITIES = ("compute", "utility", "video", "graphics", "display", "ngx", "compat32")
"""What of the driver a container can have: docs.nvidia.com, "Docker Specialized Configurations"."""


def gpu_capability(text: str) -> str:
    """``video``, ``graphics`` ..."""
    return _one_of(text, *GPU_CAPABILITIES)


def output(text: str) -> Literal["joined", "separate"]:
    """``joined`` or ``separate``."""
    return _one_of(text, "joined", "separate")


def file_mode(text: str) -> int:
    """The permissions of a file in octal digits, without setuid, setgid and sticky bits: ``755``."""
    if not re.fullmatch(r"0?[0-7]{3}", text.strip()):
        raise ValueError('a file mode of three octal digits such as "755"')
    return int(text, 8)


def conflicts(text: str) -> Literal["refuse", "allow"]:
    """``refuse`` or ``allow``."""
    return _one_of(text, "refuse", "allow")


def cuda_libraries(text: str) -> Literal["all", "none"]:
    """``all`` or ``none``."""
    return _one_of(text, "all", "none")


def sanitizer(text: str) -> SanitizerKind:
    """``address``, ``thread``, ``undefined``, a tool of compute-sanitizer, or nothing."""
    kinds: tuple[SanitizerKind, ...] = get_args(SanitizerKind)
    return _one_of(text, *kinds[1:]) if text.strip() else ""


def instant(text: str) -> str:
    """The start of a day, or a moment, in UTC: ``2021-05-04`` is ``2021-05-04T00:00:00Z``. Nothing stays nothing."""
    if not (stripped := text.strip()):
        return ""
    found = _INSTANT.fullmatch(stripped)
    try:
        if not found:
            raise ValueError
        offset = "+00:00" if (found["offset"] or "Z") in "Zz" else found["offset"]
        read = datetime.fromisoformat(f"{found['day']}T{found['time'] or '00:00:00'}{offset}")
        moment = read.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ValueError(
            "a date such as 2021-05-04, or a date and time with its offset such as 2021-05-04T10:22:11Z"
        ) from None
    return moment.isoformat().replace("+00:00", "Z")


def user(text: str) -> str:
    """A user name or number, with an optional group: ``repro``, ``root``, ``1000:1000``."""
    if not _USER.fullmatch(text):
        raise ValueError("a user such as repro, root or 1000:1000")
    return text


def gpu_model(text: str) -> str:
    """Words of the name of a GPU's model: ``V100``, ``RTX 4090``."""
    if not words_of_model(text) or not text.isprintable():
        raise ValueError("words of a GPU's model such as V100 or RTX 4090")
    return text


def words_of_model(name: str) -> list[str]:
    """The words of the name of a GPU's model, in lower case: what hyphens, too, stand between."""
    return [word for word in re.split(r"[^a-z0-9.]+", name.lower()) if word]


def below_workdir(text: str) -> str:
    """The path, normalised, of something below workdir."""
    if not text.strip():
        raise ValueError("a path below workdir, not an empty one")
    if "\0" in text or "\n" in text:
        raise ValueError("a path on one line")
    if text.startswith(("/", "~")):
        raise ValueError("a path relative to workdir, not an absolute one")
    normal = posixpath.normpath(text)
    if ".." in text.split("/"):
        raise ValueError("a path that stays below workdir, without ..")
    if normal == ".":
        raise ValueError("a path below workdir, not workdir itself")
    if any(len(name.encode("utf-8", "surrogatepass")) > 255 for name in normal.split("/")):
        raise ValueError("a path whose names have at most 255 bytes each")
    return normal


def fold_path(path: str) -> str:
    """Equal for paths that are one on some file system: by letter case, form of accents, dots and blanks at an end."""
    return "/".join(part.rstrip(" .") for part in normalize("NFC", normalize("NFC", path).casefold()).split("/"))


def one_line(text: str) -> str:
    """A text without line breaks: what goes into an instruction of a Dockerfile must not begin another."""
    if len(text.strip().splitlines()) > 1:
        raise ValueError("a text on one line")
    return text


@lru_cache(maxsize=4096)  # cells of a matrix, and cases of a folder, share most of them
def options(text: str) -> str:
    """Options of a program on one line, which a shell would take apart."""
    try:
        shlex.split(one_line(text).strip())
    except ValueError as error:
        raise error if "line" in str(error) else ValueError("options whose quotes are closed") from None
    return text


def requirement(text: str) -> str:
    """What pip installs: one requirement, or options with their values."""
    return options(text) if text.lstrip().startswith("-") else one_line(text)


def image(text: str) -> str:
    """A reference to an image, or nothing."""
    if text.strip() and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*", text.strip()):
        raise ValueError("an image such as debian:12 or registry.example.com/name@sha256:...")
    return text


def absolute(text: str) -> str:
    """An absolute path of the container other than ``/``."""
    if not text.startswith("/") or posixpath.normpath(text) in ("/", "//") or ".." in text.split("/"):
        raise ValueError("an absolute path such as /workspace")
    # A Dockerfile's line goes on in the next one after a backslash, and loses blanks at its end.
    if not text.isprintable() or "\\" in text or text != text.rstrip():
        raise ValueError("an absolute path on one line, without backslashes, control characters and blanks at its end")
    return text


def git_url(text: str) -> str:
    """Where git clones from. Transports that run commands (``ext::``) and options (``-u``) are refused."""
    if not _GIT_URL.fullmatch(text) or "@-" in text.partition("://")[2].partition("/")[0]:
        raise ValueError(
            "the address of a git repository such as https://..., ssh://..., git@host:path or a local path"
        )
    return text


def git_ref(text: str) -> str:
    """A tag, branch or commit."""
    if not text or text.startswith("-") or re.search(r"[\s~^:?*\[\\\x00-\x1f]|\.\.|@\{", text):
        raise ValueError("a tag, branch or commit such as v2.9.1")
    return text


def unified_diff(text: str) -> str:
    """A patch that git can apply: a unified diff, or git's own extension of it."""
    lines = text.splitlines()
    git = any(line.startswith("diff --git ") for line in lines)
    plain = any(line.startswith("--- ") for line in lines) and any(line.startswith("+++ ") for line in lines)
    if text.strip() and not (git or plain):
        raise ValueError("a unified diff (lines that start with ---, +++ and @@)")
    return text


def signal_name(text: str) -> str:
    """The name of a signal, such as SIGSEGV."""
    names = [member.name for member in signal.Signals]
    if text not in names:
        raise ValueError("the name of a signal such as SIGSEGV" + near(text.upper(), names, prefix="; "))
    return text


def pattern(text: str) -> str:
    """A substring, or ``/.../`` holding a regular expression that compiles."""
    if not text:
        raise ValueError("a text to look for, not an empty one")
    if len(text) >= 2 and text.startswith("/") and text.endswith("/"):
        try:
            patterns.compiled(text[1:-1])
        except patterns.PatternError as error:
            raise ValueError(f"a regular expression between the slashes, but it does not compile: {error}") from None
        if len(text) == 2:
            raise ValueError("a regular expression between the slashes")
    return text


def not_blank(text: str) -> str:
    """A text with something in it."""
    if not text.strip():
        raise ValueError("a text, not an empty one")
    return text


def frame(text: str) -> str:
    """``file:function`` of a traceback line, or ``library:function`` of a native stack, a regular expression maybe."""
    if not re.fullmatch(r"[^\s:]+:(?:[^\s:]|::)+", text):
        raise ValueError("file:function, such as rmi_loss.py:inverse or libtorch_cpu.so:at::native::.*")
    return text


def exception_type(text: str) -> str:
    """A bare or dotted exception type."""
    if not re.fullmatch(r"[^\W\d]\w*((\.|::)[^\W\d]\w*)*", text):
        raise ValueError("the type of an exception such as RuntimeError or torch.cuda.OutOfMemoryError")
    return text


def _below(text: str, what: str, refused: str = "\0\n") -> str:
    if not text or text.startswith("/") or ".." in text.split("/") or any(c in text for c in refused):
        raise ValueError(what)
    return text


def dataset_glob(text: str) -> str:
    """A glob relative to the dataset's own folder."""
    return _below(text, "a glob below the dataset such as images/*.png", refused="")


def output_glob(text: str) -> str:
    """A glob of files below workdir."""
    return _below(text, "a glob below workdir such as out/*.npy")


def below_dataset(text: str) -> str:
    """The path of a file of a dataset."""
    return _below(text, "a path below the dataset such as images/1.png")


def sha256(text: str) -> str:
    """A SHA-256 digest in hexadecimal, with or without ``sha256:`` before it."""
    if not re.fullmatch(r"(sha256:)?[0-9a-fA-F]{64}", text):
        raise ValueError("a SHA-256 digest of 64 hexadecimal digits")
    return text


def env_name(text: str) -> str:
    """A name that an environment variable can have."""
    if not re.fullmatch(r"[^=\s\0]+", text):
        raise ValueError("the name of an environment variable, without = and blanks")
    return text
