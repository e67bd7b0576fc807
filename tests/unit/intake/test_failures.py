"""Which failures a report shows in pasted text, and what of each becomes the signature."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from reprokit.evidence.model import Frame
from reprokit.evidence.text import find
from reprokit.intake import failures, signatures
from reprokit.intake.pieces import cut_report, table


def shown(text: str) -> list[dict[str, object]]:
    return [one.signature for one in failures.find_failures(cut_report(text).pieces)]


TRACE = 'Traceback (most recent call last):\n  File "{}", line 3, in {}\n    go()\n{}\n'


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        (
            TRACE.format("a.py", "go", "KeyError: 'x'"),
            {"exception": "KeyError", "message": "'x'", "frames": ["a.py:go"]},
        ),
        ("wob.error: the wheel is gone", {"exception": "wob.error", "message": "the wheel is gone"}),
        ("wibd: core.c:99: wib_open: Assertion `fd >= 0' failed.", {"output": "Assertion `fd >= 0' failed"}),
        ("段错误 (核心已转储)", {"signal": "SIGSEGV"}),
        (">>> import wob\nIllegal instruction (core dumped)", {"signal": "SIGILL"}),
        ("free(): invalid pointer", {"output": "free(): invalid pointer", "signal": "SIGABRT"}),
        ("a.cpp:3:4: error: 'x' was not declared in this scope", {"output": "'x' was not declared in this scope"}),
        # what another program that it started raised, above what it says itself
        (
            TRACE.format("t.py", "<module>", "ValueError: the wibble has no wob")
            + TRACE.format("/x/run.py", "launch", "ChildFailedError: \n==="),
            {"exception": "ValueError", "message": "the wibble has no wob"},
        ),
        (
            "a.cc:1:2: error: redundant move in wobble\n"
            + TRACE.format("b.py", "f", "subprocess.CalledProcessError: Command 'cmake' failed"),
            {"output": "redundant move in wobble"},
        ),
        (
            "RuntimeError: worker (pid 12) is killed by signal: Bus error. Maybe memory ran out.",
            {"exception": "RuntimeError", "message": "/worker .* is killed by signal: Bus error/"},
        ),
        (
            "c++: internal compiler error: Segmentation fault (program cc1plus)\nmake: *** [a.o] Error 4",
            {"output": "internal compiler error: Segmentation fault"},
        ),
    ],
)  # fmt: skip
def test_what_programs_print_is_a_failure(text: str, signature: dict[str, object]) -> None:
    assert shown(f"# It dies\n\n```\n{text}\n```\n") == [signature]


@pytest.mark.parametrize(
    "text",
    [
        "It says ValueError: no wobble, segfaults, hangs, leaks memory, is 10x slower and gives NaN.\n",
        "# KeyError: 'x'\n\nThe build fails with exit code 139.\n",
        "```\nEpoch 1/3 loss=nan 45%|####     | 3/10\n| a | b |\nwibble 1.2.3 started\n```\n",
        "```\nUserWarning: the wobble is old and slow\n```\n",
        "```\nnpm WARN notsup: Unsupported platform for wob\nERROR: it went wrong somehow\n```\n",
        f"```\n{TRACE.format('a.py', 'go', 'KeyboardInterrupt')}```\n",
        "```python\nraise ValueError('no wobble')\n```\n",
    ],
)
def test_sentences_banners_warnings_and_programs_are_not_failures(text: str) -> None:
    assert shown(text) == []


def test_the_same_failure_counts_once_and_others_are_listed() -> None:
    short, other = "KeyError: 'x'", TRACE.format("b.py", "go", "TypeError: it is odd")
    text = f"```\n{TRACE.format('a.py', 'go', short)}```\n\n```\n{short}\n```\n\n```\n{other}```\n"
    assert [str(one) for one in failures.find_failures(cut_report(text).pieces)] == [
        "line 2: KeyError: 'x'",
        "line 13: TypeError: it is odd",
    ]


@pytest.mark.parametrize(
    ("text", "part"), [one for row in table("failures")["lines"] for one in row["examples"].items()]
)
def test_lines_that_programs_print(text: str, part: str) -> None:
    (one,) = shown(f"```\n{text}\n```\n")
    assert (one.get("signal") or one.get("output") or one["message"]) == part
    assert "signal" in one or find(part, text)


def test_a_notebooks_traceback_is_read() -> None:
    text = """---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
<ipython-input-3-0a1b2c> in <module>
      1 table = load()
----> 2 table["x"]

~/env/lib/python3.8/site-packages/wibble/frame.py in __getitem__(self, key)
    118         if key not in self:
--> 119             raise KeyError(key)

KeyError: 'x'
"""
    assert shown(f"```\n{text}```\n") == [
        {"exception": "KeyError", "message": "'x'", "frames": ["frame.py:__getitem__"]}
    ]


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("No module named 'wibble'", "No module named 'wibble'"),
        ("[Errno 2] No such file or directory: '/home/x/y.txt'", "No such file or directory"),
        ("Sizes must match except in dimension 1. Expected 14 but got 13.", "Sizes must match except in dimension"),
        ("CUDA error: device-side assert triggered\nCUDA kernel", "CUDA error: device-side assert triggered"),
        ("输入的形状不对，应为 3，得到 4。", "/输入的形状不对，应为 .*，得到/"),
        ("Can't get wob 'Tree' on it", "Can't get wob 'Tree' on it"),
        ("error: in `/a/b/wib/c': unknown wobble", "unknown wobble"),
        ("<__main__.Node object at 0x156ecd0>", ""),  # nothing of it is there again
        ("", ""),
    ],
)
def test_the_stable_part_of_a_message(message: str, part: str) -> None:
    text, why = signatures.stable_part(message)
    assert text == part
    assert find(text, message) or not message
    assert why


@pytest.mark.parametrize(
    ("own", "about", "expected"),
    [
        ("go", {"wibble"}, ["go.py:go", "core.py:begin"]),
        ("<module>", {"wobble"}, ["deep.py:wob"]),
        ("<module>", {"feeder"}, []),
        ("<module>", (), ["core.py:begin"]),
    ],
)
def test_frames_of_libraries_beside_the_project_are_not_named(
    own: str, about: Collection[str], expected: list[str]
) -> None:
    packages = "/v/lib/python3.11/site-packages"
    frames = [
        Frame(file="go.py", line=1, function=own),
        Frame(file=f"{packages}/wibble/core.py", line=1, function="begin"),
        Frame(file=f"{packages}/wibble/core.py", line=2, function="run"),
        Frame(file="/v/lib/python3.11/json/__init__.py", line=2, function="loads"),
        Frame(file=f"{packages}/wobble/deep.py", line=2, function="wob"),
        Frame(file=f"{packages}/wobble/deep.py", line=2, function="draw_wrapper"),
    ]
    assert signatures.identifying_frames(frames, about)[0] == expected
