"""One failure, identified by what stays the same when it happens again. Two trials failed in the same way if the
``id`` of their fingerprints is equal; whoever changes what it is made of raises ``FINGERPRINT_VERSION``. Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
from collections.abc import Iterator

from reprokit.core.text import one_line
from reprokit.evidence.frames import relevant_frames
from reprokit.evidence.model import Crash, Ending, ExceptionSeen, Fingerprint
from reprokit.evidence.native import ThreadStack, identifying_frames
from reprokit.evidence.normalise import essence, normalise
from reprokit.evidence.parser import Trait
from reprokit.evidence.parsers import has, parser_of
from reprokit.evidence.stacks import crash_frames
from reprokit.evidence.text import CUT_MARK

FINGERPRINT_VERSION = "1"

_CRASHES = frozenset({"SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGSEGV", "SIGSYS"})
_NEAR = 10
"""Lines between a traceback and a crash within which the crash is taken for what the exception led to."""
_REPORTS_A_PROGRAM = re.compile(
    r"CalledProcessError|exit (?:status|code)|exited|returned non-?zero|died with|[Ee]rror (?:compiling|building)"
    r"|ninja|nvcc|subprocess"
)
_WARNING = re.compile(r"\b\w*Warning: |^warning: ")


def fingerprint(
    ending: Ending,
    text: str,
    *,
    exception: ExceptionSeen | None = None,
    crash: Crash | None = None,
    cause: ExceptionSeen | None = None,
    about_it: bool = False,
    said: str = "",
    stack: ThreadStack | None = None,
) -> Fingerprint:
    """Return the fingerprint of the failure of a program that ended so, having left ``text`` (cleaned) in its log.

    ``exception`` and ``crash`` are the telling ones of what the log shows; ``cause``: the exception that was printed as
    the cause of ``exception``; ``about_it``: the signature is about this exception. Without either, the exit status and
    a line are all that is known: ``said``, which the signature matched, or the last one. ``stack``: of the thread that
    crashed, where it was taken. Never raises.
    """
    by = signal_name(ending.exit_code)
    own = exception is not None and not exception.ignored and not _crashed_later(by, exception, crash, text)
    if exception is not None and (own or about_it):
        return _of_exception(exception, crash, cause)
    if crash is not None:
        return _of_crash(crash, by, text, stack)
    status = f"exit status {ending.exit_code}"
    if by:
        frames, where = identifying_frames(stack) if stack else ((), "")
        # Without a stack, the status is all that is known: a program may choose that number by itself.
        title = by + (f" at {where}" if where else "") if stack else f"{status} (128 + {by})"
        return _make(kind="signal", frames=frames, message=by, title=title)
    said = essence(said or last_words(text))
    return _make(
        kind="exit-status",
        message=f"{status}: {normalise(said)}" if said else status,
        title=f"{status}: {one_line(said, 120)}" if said else f"{status}, no output",
    )


def last_words(text: str) -> str:
    """The last line of a log, of its own weight: not a warning, nor the line of source that follows one."""
    lines = [line for line in CUT_MARK.sub("", text).splitlines() if line.strip()]
    own = (line for line in reversed(lines) if line[0] not in " \t" and not _WARNING.search(line))
    return next(own, lines[-1] if lines else "")


def signal_name(exit_code: int | None) -> str:
    """``SIGSEGV`` for 139: the signal that a container's exit status stands for if it is one of a crash; else ''."""
    try:
        name = signal.Signals((exit_code or 0) - 128).name
    except ValueError:
        return ""
    return name if name in _CRASHES else ""


def _crashed_later(by: str, exception: ExceptionSeen, crash: Crash | None, text: str) -> bool:
    """Whether a program that ended by a signal went on for long after the traceback, which then was not its end."""
    if not by:
        return False
    end = crash.line if crash is not None else text.rstrip().count("\n") + 1
    return end - exception.end_line > _NEAR


def _of_exception(seen: ExceptionSeen, crash: Crash | None, cause: ExceptionSeen | None) -> Fingerprint:
    said = essence(seen.message)
    leaves = list(_leaves(seen))
    frames, where = relevant_frames(seen.frames, message=bool(said))
    kind, at = _type(seen.type), f" at {where}" if where else ""
    message, behind, title = normalise(said), "", f"{kind}: {one_line(said, 120)}" if said else kind
    if leaves:
        message = re.sub(r" ?\(<n> sub-exceptions?\)", "", message)
        behind = "; ".join(sorted({_identity(leaf) for leaf in leaves}))
        first = f"{_type(leaves[0].type)}: {essence(leaves[0].message)}"
        title = f"{kind}: {one_line(first, 120)}" + " ..." * (len(leaves) > 1)
    elif crash is not None and has(crash.kind, Trait.COMPILER) and _REPORTS_A_PROGRAM.search(f"{seen.type} {said}"):
        behind, title = normalise(_words(crash)), f"{one_line(_words(crash), 120)}, then {kind}"
    # A worker's exception is printed twice, as the cause of itself.
    elif cause is not None and _identity(cause) != _identity(seen):
        behind = _identity(cause)
    return _make(kind=kind, frames=frames, message=message, cause=behind, title=title + at)


def _identity(seen: ExceptionSeen) -> str:
    said = normalise(essence(seen.message))
    return f"{_type(seen.type)}: {said}" if said else _type(seen.type)


def _leaves(seen: ExceptionSeen) -> Iterator[ExceptionSeen]:
    """The exceptions that an exception group is about."""
    for member in seen.nested:
        if member.nested:
            yield from _leaves(member)
        else:
            yield member


def _type(dotted: str) -> str:
    """An exception's name without its module, which moves between versions; ``zlib.error`` needs it."""
    *_, module, name = ("", *dotted.split("."))
    return f"{module}.{name}" if module and name.islower() else name


def of_hang(stack: ThreadStack) -> Fingerprint:
    """The fingerprint of a program that stood there at its time limit."""
    frames, where = identifying_frames(stack)
    return _make(kind="hang", frames=frames, message="", title=f"hangs at {where}" if where else "hangs")


def _of_crash(crash: Crash, by: str, text: str, stack: ThreadStack | None) -> Fingerprint:
    frames, where = crash_frames(text)
    if not frames and stack is not None:
        frames, where = identifying_frames(stack)
    at = f" at {where}" if where else ""
    words = _words(crash)
    if has(crash.kind, Trait.SIGNAL):
        words = by or words
        return _make(kind="signal", frames=frames, message=normalise(words), title=one_line(words, 120) + at)
    title = one_line(words if has(crash.kind, Trait.COMPILER) else f"{crash.kind}: {words}", 120) + at
    return _make(kind=crash.kind, frames=frames, message=normalise(words), title=title)


def _words(crash: Crash) -> str:
    """What a crash says, the same from every source: a shell, the program itself, its C++ runtime."""
    said = parser_of(crash.kind).said(crash.text)
    return said if has(crash.kind, Trait.SIGNAL) else essence(said)


def _make(*, kind: str, message: str, title: str, frames: tuple[str, ...] = (), cause: str = "") -> Fingerprint:
    identity = json.dumps([FINGERPRINT_VERSION, kind, frames, message, cause], ensure_ascii=False)
    return Fingerprint(
        version=FINGERPRINT_VERSION,
        id=hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:12],
        kind=kind,
        frames=frames,
        message=message,
        cause=cause,
        title=title,
    )
