"""How a command ends before its time: the first interrupt stops what runs and waits for it, the second waits less,
and the third names what is left and ends the process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

STATUS = 130
"""The exit status of a command that was interrupted."""
CALL_WITHIN = 5.0
"""Seconds that one call of an engine may take after an interrupt."""
WAIT_FOR = CALL_WITHIN + 1.0
"""Seconds for which what is being stopped may make no progress after an interrupt, before it is given up."""
WAIT_HURRIED = 1.0
"""The same after a second interrupt."""
AT_ONCE = 3
"""The interrupt that ends the process whatever it is doing."""


class GaveUp(KeyboardInterrupt):
    """An interrupt after which something did not stop in time: what waits for its threads must not."""


_left: dict[str, str] = {}
_state = {"count": 0, "signal": 0}


def would_leave(name: str, how: str) -> None:
    """Note that the end of this process would leave something: its ``name``, and how it is removed."""
    _left[name] = how


def leaves_no_more(name: str) -> None:
    """It is gone."""
    _left.pop(name, None)


def left() -> Mapping[str, str]:
    """What is left if the process ends now: name -> how it is removed."""
    return dict(_left)


def count() -> int:
    """How many interrupts there were in the present :func:`signals` block."""
    return _state["count"]


@contextmanager
def signals() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM, SIGHUP and SIGQUIT stop a run, so that they leave nothing behind; a third one ends it."""
    _state.update(count=0, signal=0)
    before: dict[int, Any] = {}
    with suppress(ValueError):  # not in the main thread: the caller handles signals
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks for
                before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)


@contextmanager
def raised() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt in the block, as Python does."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hook, sys.unraisablehook = sys.unraisablehook, _raise_again
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = hook


def _raise_again(lost: Any) -> None:
    """What Python calls for an exception that it must ignore, as in the callback that frees the lock of an import."""
    if lost.exc_type is KeyboardInterrupt:
        # In a moment, as here it would be ignored again.
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        sys.__unraisablehook__(lost)


def is_behind(error: BaseException) -> bool:
    """Whether an interrupt made this error: its cause, or, as pydantic reports one, the end of its text."""
    return isinstance(error.__cause__, KeyboardInterrupt) or str(error).rstrip(": \n").endswith("KeyboardInterrupt")


def threads_are_left() -> bool:
    """Whether the end of this process would wait for threads."""
    here = threading.main_thread()
    return any(thread is not here and not thread.daemon for thread in threading.enumerate())


def exit_status(status: int) -> int:
    """The exit status of the process for that of its command: after SIGQUIT, that of the signal."""
    return 128 + signal.SIGQUIT if status == STATUS and _state["signal"] == signal.SIGQUIT else status


def _interrupt(number: int, _: object) -> None:
    _state["count"] += 1
    _state["signal"] = number
    if _state["count"] >= AT_ONCE:
        end_at_once()
    raise KeyboardInterrupt


def end_at_once() -> NoReturn:
    """Name what is left, and end the process without waiting for anything."""
    lines = ["", *(f"left behind: {name}; {how}" for name, how in left().items())]
    if len(lines) == 1:
        lines.append("interrupted: nothing is left behind")
    _say("".join(f"{line}\n" for line in lines))
    os._exit(exit_status(STATUS))


def _say(text: str) -> None:
    """Write to standard error what fits without waiting for a reader."""
    data = text.encode(errors="replace")
    with suppress(OSError, ValueError, AttributeError):
        file = sys.stderr.fileno()
        while data and select.select([], [file], [], 0)[1]:
            # What a pipe that is ready takes at least (pipe(7)).
            data = data[os.write(file, data[: select.PIPE_BUF]) :]
