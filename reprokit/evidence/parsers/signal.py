"""How shells, Python's faulthandler, Paddle and PyTorch report the signal that ended a process.

They report it after what led to it, if anything else was printed.
"""

from __future__ import annotations

from reprokit.evidence.parser import CrashRule, Parser, Trait

_SHELL = (
    "Segmentation fault",
    "Aborted",
    "Bus error",
    "Floating point exception",
    "Illegal instruction",
    "Trace/breakpoint trap",
)
_NAMES = (
    ("egmentation fault", "SIGSEGV"),
    ("SIGSEGV", "SIGSEGV"),
    ("Aborted", "SIGABRT"),
    ("SIGABRT", "SIGABRT"),
    ("us error", "SIGBUS"),
    ("SIGBUS", "SIGBUS"),
    ("loating point exception", "SIGFPE"),
    ("SIGFPE", "SIGFPE"),
    ("llegal instruction", "SIGILL"),
    ("SIGILL", "SIGILL"),
    ("breakpoint trap", "SIGTRAP"),
    ("SIGTRAP", "SIGTRAP"),
    ("Killed", "SIGKILL"),
    ("SIGKILL", "SIGKILL"),
)
"""Words for a signal, and the signal."""


def signal_in(text: str) -> str:
    """The name of the signal that a text reports, whichever program wrote it; the text itself where it names none."""
    return next((name for words, name in _NAMES if words in text), text)


PARSER = Parser(
    name="signal",
    traits=frozenset({Trait.SIGNAL, Trait.ECHO}),
    golden=(
        *("cpp-fpe", "cpp-illegal", "cpp-segfault", "paddle-segfault", "python-faulthandler*", "shell-signals"),
        "torch-worker-segfault",
    ),
    version="1",
    precedence=30,
    said=signal_in,
    crashes=(
        CrashRule(kind="signal", needles=("Fatal Python error",), coarse=("rror",), pattern=r"Fatal Python error: .*"),
        CrashRule(
            kind="signal",
            needles=("detected by the operating system", "[SignalInfo: "),
            coarse=("detected", "[SignalInfo"),
            pattern=r"\w*Error: .*detected by the operating system.*|\[SignalInfo: \*\*\* SIG.*",
        ),
        CrashRule(
            kind="signal",
            needles=_SHELL,
            coarse=(*("egmentation fault", "Aborted", "rror", "Floating point e", "Illegal instr", "breakpoint trap"),),
            pattern=rf"^\S+: line \d+: +\d+ +(?:{'|'.join(_SHELL)}).*|^(?:{'|'.join(_SHELL)})(?: \(core dumped\))?$",
        ),
        CrashRule(
            kind="signal",
            needles=("segmentation fault",),
            coarse=("egmentation fault",),
            pattern=r".*nexpected segmentation fault encountered.*",
        ),
        CrashRule(
            kind="signal",
            needles=("killed by signal: ",),
            coarse=("illed",),
            pattern=r".*killed by signal: (?!Killed|Bus error).*",
        ),
    ),
)
