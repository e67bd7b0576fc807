"""Tracebacks that Python really formats are read back; and the texts that the golden logs do not cover."""

from __future__ import annotations

import itertools
import traceback
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.evidence.model import ExceptionSeen
from reprokit.evidence.observation import last_exception, observe
from tests.unit.limits import examples

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not __import__("keyword").iskeyword(name)
)

FILES = st.from_regex(r"(/[a-z][a-z0-9_. -]{0,8}){1,3}\.py", fullmatch=True)
WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)
TYPES = st.sampled_from([ValueError, RuntimeError, type("Oops", (Exception,), {"__module__": "my.package"}), OSError])
CALLS = st.lists(st.tuples(FILES, NAMES), min_size=1, max_size=5)


class Raised:
    """An exception that went through the given ``(file, function)`` calls, with what must be read back from it."""

    def __init__(self, kind: type[Exception], message: str, calls: list[tuple[str, str]]) -> None:
        self.error = kind(message)
        self.calls = calls
        step: Any = self._raise
        for file, function in reversed(calls):
            code = f"def {function}(_inner):\n    _inner()\n"
            space: dict[str, Any] = {}
            exec(compile(code, file, "exec"), space)
            step = _bound(space[function], step)
        try:
            step()
        except Exception as error:
            self.error = error.with_traceback(_without_ours(error.__traceback__, calls[0][0]))

    def _raise(self) -> None:
        raise self.error

    def expected(self) -> tuple[str, str, list[tuple[str, str]]]:
        kind = type(self.error)
        name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        return name, str(self.error).strip(), self.calls


def _bound(function: Any, inner: Any) -> Any:
    return lambda: function(inner)


def _without_ours(trace: Any, first: str) -> Any:
    while trace.tb_frame.f_code.co_filename != first:
        trace = trace.tb_next
    return trace


def shown(seen: ExceptionSeen) -> tuple[str, str, list[tuple[str, str]]]:
    frames = [(frame.file, frame.function) for frame in seen.frames if frame.file != __file__]
    return seen.type, seen.message.strip(), frames


RAISED = st.builds(Raised, TYPES, WORDS, CALLS)
NOISE = st.lists(st.sampled_from(["epoch 3: loss 0.5", "", "INFO done", "  indented", "{'a': 1}"]), max_size=4)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(RAISED, min_size=1, max_size=3), st.booleans(), NOISE, NOISE)
def test_formatted_chains_are_read_back(
    chain: list[Raised], explicit: bool, before: list[str], after: list[str]
) -> None:
    for cause, effect in itertools.pairwise(chain):
        if explicit:
            effect.error.__cause__ = cause.error
        else:
            effect.error.__context__ = cause.error
            effect.error.__suppress_context__ = False
    text = "".join(traceback.format_exception(chain[-1].error))
    if text.rstrip().endswith(":"):  # what is indented below such a message is taken for more of it
        after = [line for line in after if not line.startswith(" ")]
    log = "\n".join([*before, "start", text, *after])
    seen = observe(log).exceptions
    assert [shown(each) for each in seen] == [each.expected() for each in chain]
    assert [each.cause_of_next for each in seen] == [True] * (len(chain) - 1) + [False]


@settings(max_examples=examples(40), deadline=None)
@given(RAISED, st.sampled_from(["[rank0]: ", "worker-3  | ", "2024-05-01 10:00:00,123 ERROR app: ", "    "]))
def test_a_prefix_on_every_line_is_seen_through(raised: Raised, prefix: str) -> None:
    text = "".join(traceback.format_exception(raised.error))
    log = "\n".join(["start", *(prefix + line for line in text.splitlines()), "[rank1]: all well"])
    assert [shown(each) for each in observe(log).exceptions] == [raised.expected()]


@settings(max_examples=examples(40), deadline=None)
@given(RAISED, st.integers(0, 30))
def test_another_process_may_print_in_between(raised: Raised, place: int) -> None:
    lines = "".join(traceback.format_exception(raised.error)).splitlines()
    at = 1 + place % (len(lines) - 1)
    log = "\n".join([*lines[:at], "[worker 2] 10 of 20 items done", *lines[at:]])
    assert [shown(each) for each in observe(log).exceptions] == [raised.expected()]


@given(st.text(max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    observe('Traceback (most recent call last):\n  File "a.py", line 1, in f\n' + text)
    observe("  + Exception Group Traceback (most recent call last):\n  | " + text)


HEAD = 'Traceback (most recent call last):\n  File "/app/train.py", line 3, in main\n    step()\n'
CUDA = """CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1.
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."""
"""As PyTorch's sources have it: it takes a GPU to print."""


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("RuntimeError: one line\nINFO: next\n", "one line"),
        ("RuntimeError: one line\n2024-05-01 10:00:00 next\n", "one line"),
        ("RuntimeError: one\n  two\n\tthree\nmake: *** [all] Error 1\n", "one\n  two\n\tthree"),
        ("RuntimeError: one\ntwo\n\nthree\n", "one\ntwo"),
        ("RuntimeError\n", ""),
        ("RuntimeError: \x1b[31mred\x1b[0m\x00 text\r\n", "red text"),
        (f"RuntimeError: {CUDA}\n", CUDA),
        ("RuntimeError: end\n[reprokit: 5 bytes (1 lines) cut]\nmore\n", "end"),
    ],
)
def test_where_a_message_ends(rest: str, message: str) -> None:
    seen = observe(HEAD + rest).exceptions
    assert [(each.type, each.message) for each in seen] == [("RuntimeError", message)]


def test_the_type_of_an_error_that_wraps_another() -> None:
    """Ray names the wrapped type in brackets (as its sources have it)."""
    seen = observe(HEAD + "ray.exceptions.RayTaskError(ValueError): ray::f() (pid=1)\n").exceptions
    assert [(each.type, each.message) for each in seen] == [("ray.exceptions.RayTaskError", "ray::f() (pid=1)")]


def test_a_c_plus_plus_traceback_is_not_a_python_traceback() -> None:
    assert not observe("C++ Traceback (most recent call last):\n0   paddle::f()\nFatalError: x\n").exceptions


def test_a_traceback_without_its_end_does_not_hide_the_next() -> None:
    log = HEAD + HEAD + "KeyError: 'x'\n"
    assert [(each.type, len(each.frames)) for each in observe(log).exceptions] == [("KeyError", 1)]


def test_what_python_ignored_counts_only_when_it_is_alone() -> None:
    ignored = "Exception ignored in: <function f at 0x1>\n" + HEAD + "OSError: closed\n"
    own = HEAD + "ValueError: bad\n"
    last = last_exception(observe(own + ignored))
    assert last is not None
    assert last.type == "ValueError"
    alone = last_exception(observe(ignored))
    assert alone is not None
    assert alone.type == "OSError"


@pytest.mark.system
def test_many_tracebacks_are_read_in_good_time() -> None:
    log = (HEAD + "ValueError: bad\n") * 20_000
    assert len(observe(log).exceptions) == 20_000
