"""The signature's keys one by one, what is evidence when the container was stopped, and the reasons in words."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.model import Expect, Failure, Known
from reprokit.evidence.judgement import NotStarted, judge, not_started
from reprokit.evidence.judging import conclude, judge_trial
from reprokit.evidence.match import HANDLED, LONG_LINE, frames_match, type_matches
from reprokit.evidence.model import RULES_VERSION, Ending, ExceptionSeen, Frame, Outcome
from reprokit.evidence.sequential import Trials

LOG = """\
iteration 1, loss 0.5
Traceback (most recent call last):
  File "/app/tools/train.py", line 207, in <module>
    main(args)
  File "/app/seg/losses/cross_entropy_loss.py", line 133, in forward
    loss = a + b
TypeError: (InvalidType) Type promotion only supports calculations between floating-point numbers
"""
SHOWN = (
    "TypeError: (InvalidType) Type promotion only supports calculations between floating-point numbers"
    " at cross_entropy_loss.py:133"
)
NOTHING = "the output has nothing that matches"
NOT_THROUGH = "it did not come through a.py:f in this order"
WARNING = "a.py:1: UserWarning: reduction='elementwise_mean' is deprecated\n"


def outcome(failure: dict[str, Any], ending: Ending, text: str = "") -> Outcome:
    return judge(Failure(**failure), ending, text).outcome


@pytest.mark.parametrize(
    ("failure", "code", "text", "expected"),
    [
        ({}, 1, "", Outcome.REPRODUCED),
        ({}, 0, LOG, Outcome.PASSED),
        ({}, None, "", Outcome.DIFFERENT_FAILURE),
        ({"exit_code": "nonzero"}, 3, "", Outcome.REPRODUCED),
        ({"exit_code": 3}, 3, "", Outcome.REPRODUCED),
        ({"exit_code": 3}, 1, "", Outcome.DIFFERENT_FAILURE),
        ({"exit_code": 0}, 0, "", Outcome.REPRODUCED),
        ({"signal": "SIGSEGV"}, 139, "", Outcome.REPRODUCED),
        ({"signal": "SIGSEGV"}, 134, "", Outcome.DIFFERENT_FAILURE),
        ({"signal": "SIGSEGV"}, 1, "worker is killed by signal: Segmentation fault\n", Outcome.DIFFERENT_FAILURE),
        ({"exception": "TypeError"}, 1, LOG, Outcome.REPRODUCED),
        ({"exception": "TypeError"}, 1, "no traceback", Outcome.DIFFERENT_FAILURE),
        ({"exception": "TypeError", "message": "Type promotion"}, 1, LOG, Outcome.REPRODUCED),
        ({"message": r"/^\(Invalid\w+\) Type/"}, 1, LOG, Outcome.REPRODUCED),
        ({"message": "iteration 1"}, 1, LOG, Outcome.DIFFERENT_FAILURE),
        ({"frames": ["train.py:<module>", "cross_entropy_loss.py:forward"]}, 1, LOG, Outcome.REPRODUCED),
        ({"frames": ["cross_entropy_loss.py:forward", "train.py:<module>"]}, 1, LOG, Outcome.DIFFERENT_FAILURE),
        ({"output": "elementwise_mean"}, 0, WARNING, Outcome.REPRODUCED),
        ({"output": r"/^a\.py:\d+: .*deprecated$/"}, 0, WARNING, Outcome.REPRODUCED),
        ({"output": "/^UserWarning/"}, 0, WARNING, Outcome.PASSED),
        ({"output": "elementwise_mean", "exit_code": "nonzero"}, 0, WARNING, Outcome.PASSED),
        ({"output": "cut"}, 1, "[reprokit: 10 bytes (1 lines) cut]\n", Outcome.DIFFERENT_FAILURE),
    ],
)  # fmt: skip
def test_each_key(failure: dict[str, Any], code: int | None, text: str, expected: Outcome) -> None:
    assert outcome(failure, Ending(exit_code=code), text) is expected


@pytest.mark.parametrize(
    "key", [{"exception": "TypeError"}, {"message": "Type promotion"}, {"frames": ["train.py:<module>"]}]
)
def test_a_traceback_is_the_failure_only_of_a_program_that_fails(key: dict[str, Any]) -> None:
    judgement = judge(Failure(**key), Ending(exit_code=0), LOG)
    assert judgement.outcome is Outcome.PASSED
    assert judgement.reason == f"exit status 0 with {SHOWN}: {HANDLED}"
    assert outcome({**key, "exit_code": 0}, Ending(exit_code=0), LOG) is Outcome.REPRODUCED
    for ending in (Ending(exit_code=None), Ending(exit_code=0, timed_out=True), Ending(exit_code=137, oom=True)):
        assert outcome(key, ending, LOG) is Outcome.REPRODUCED


@pytest.mark.parametrize(
    ("code", "log", "expected"),
    [
        (139, LOG, Outcome.DIFFERENT_FAILURE),
        (3, LOG, Outcome.DIFFERENT_FAILURE),
        (4, LOG, Outcome.DIFFERENT_FAILURE),
        (123, LOG, Outcome.REPRODUCED),  # xargs
        (2, LOG + "make: *** [Makefile:2: all] Error 1\n", Outcome.REPRODUCED),
        (2, LOG + "make: *** [Makefile:2: all] Error 3\n", Outcome.DIFFERENT_FAILURE),
        (8, LOG + "Errors while running CTest\n", Outcome.REPRODUCED),
    ],
)
def test_the_exit_status_shows_that_an_exception_was_handled(code: int, log: str, expected: Outcome) -> None:
    judgement = judge(Failure(exception="TypeError"), Ending(exit_code=code), log)
    assert judgement.outcome is expected
    if expected is Outcome.DIFFERENT_FAILURE:
        assert judgement.reason.endswith(f"ends a program with 1; if this is it, write exit_code: {code}")
        assert outcome({"exception": "TypeError", "exit_code": code}, Ending(exit_code=code), log) is Outcome.REPRODUCED


RANK = """\
Traceback (most recent call last):
  File "/workspace/train.py", line 3, in <module>
    load()
  File "/workspace/train.py", line 2, in load
    raise {error}
{error}
"""
TORCHRUN = """\
E0801 13:23:20.000000 32974 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 10, in <module>
    sys.exit(main())
  File "/usr/local/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 270, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-08-01_11:36:44
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 11377)
  error_file: <N/A>
============================================================
"""
SPAWN = """\
Traceback (most recent call last):
  File "/workspace/repro.py", line 3, in <module>
    mp.spawn(work, nprocs=2)
  File "/usr/local/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 170, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 0 terminated with the following error:
Traceback (most recent call last):
  File "/usr/local/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
  File "/workspace/repro.py", line 2, in work
    raise ValueError('bad shard')
ValueError: bad shard
"""


@pytest.mark.parametrize(
    ("log", "found", "missed"),
    [
        (
            RANK.format(error="ValueError: bad shard") + RANK.format(error="OSError: peer") + TORCHRUN,
            [{"exception": "ValueError"}, {"exception": "OSError"}, {"exception": "ChildFailedError"}],
            [{"exception": "KeyError"}, {"exception": "ValueError", "message": "peer"}],
        ),
        (SPAWN, [{"exception": "ValueError"}, {"frames": ["repro.py:work"]}], [{"exception": "KeyError"}]),
    ],
)
def test_what_a_child_ended_with_is_found_behind_its_launcher(
    log: str, found: list[dict[str, Any]], missed: list[dict[str, Any]]
) -> None:
    assert [outcome(each, Ending(exit_code=1), log) for each in found] == [Outcome.REPRODUCED] * len(found)
    assert [outcome(each, Ending(exit_code=1), log) for each in missed] == [Outcome.DIFFERENT_FAILURE] * len(missed)


def test_the_end_of_a_list_of_trials_says_why_an_exception_was_not_it() -> None:
    key = {"exception": "TypeError"}
    judgement = judge(Failure(**key), Ending(exit_code=0), LOG)
    expect = Expect(failure=Failure(**key))
    record = judge_trial(expect, 1, Ending(exit_code=0), LOG, "log")
    assert conclude([record], Trials.of(1), expect)[1].endswith(judgement.reason)


EXAMPLES = [
    pytest.param(row, int(code), text, id=f"{row.why}-{number}")
    for row in not_started()
    for number, (code, text) in enumerate(each.split(": ", 1) for each in row.examples)
]


@pytest.mark.parametrize(("row", "code", "text"), EXAMPLES)
def test_a_command_that_never_began_is_another_failure_unless_the_signature_names_it(
    row: NotStarted, code: int, text: str
) -> None:
    output = {"output": text.split("\n")[0]} if text.split("\n")[0] else {}
    for failure in ({}, {"exit_code": "nonzero"}, *([output] if row.always else [])):
        judgement = judge(Failure(**failure), Ending(exit_code=code), text)
        assert judgement.outcome is Outcome.DIFFERENT_FAILURE, judgement.reason
        assert judgement.reason.startswith(f"exit status {code}: {row.why}")
        assert judgement.reason.endswith(f"if that is the failure, write exit_code: {code}")
        known = Known(id="k", failure=Failure(**failure))
        assert judge(Failure(signal="SIGSEGV"), Ending(exit_code=code), text, [known]).known == ""
    if output and not row.always:
        assert outcome(output, Ending(exit_code=code), text) is Outcome.REPRODUCED
    assert outcome({**output, "exit_code": code}, Ending(exit_code=code), text) is Outcome.REPRODUCED
    assert outcome({"exit_code": 1 if code != 1 else 2}, Ending(exit_code=code), text) is Outcome.DIFFERENT_FAILURE
    if text:  # the program went on: it is that which failed
        later = f"{text}\n" + "its own last words\n" * 9
        assert row.pattern is None or outcome({}, Ending(exit_code=code), later) is Outcome.REPRODUCED


NODE = next(text for _, code, text in (param.values for param in EXAMPLES) if "MODULE_NOT_FOUND" in str(text))
NO_SCRIPT = "python: can't open file 'a.py': [Errno 2] No such file or directory\n"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (2, f"{NO_SCRIPT}error: the second program\n"),
        (1, str(NODE).replace("[]", "[ '/workspace/main.js' ]")),
        (1, f"{NO_SCRIPT}{LOG}"),
        (2, "make: *** No rule to make target 'gen.h', needed by 'all'.  Stop.\n"),
        (1, "bash: line 1: cd: nosuch: No such file or directory\ncannot open the model\n"),
        (3, "bash: line 1: cd: nosuch: No such file or directory\n"),
        (1, "bash: line 1: warning: setlocale: LC_ALL: cannot change locale (C)\n"),
        (1, "model.cfg: line 3: unknown layer\n"),
        (4, "ImportError while loading conftest '/workspace/conftest.py'.\nE   ModuleNotFoundError: x\n"),
        (2, "ERROR test_a.py\n1 error in 0.1s\n"),
        (1, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'x'\n"),
        (2, "usage: train.py [-h]\ntrain.py: error: no GPU has enough memory\n"),
    ],
)  # fmt: skip
def test_a_program_that_failed_by_itself_has_begun(code: int, text: str) -> None:
    judgement = judge(Failure(), Ending(exit_code=code), text)
    assert judgement.outcome is Outcome.REPRODUCED, judgement.reason
    assert judgement.reason.endswith("(any failure: no signature is given)")
    assert "no signature" not in judge(Failure(exit_code="nonzero"), Ending(exit_code=code), text).reason


@pytest.mark.parametrize(
    ("failure", "ending", "text", "expected"),
    [
        # stopped by us: its exit status says nothing
        ({}, {"exit_code": 137, "timed_out": True}, "", Outcome.TIMED_OUT),
        ({"exit_code": 137}, {"exit_code": 137, "timed_out": True}, "", Outcome.TIMED_OUT),
        ({"signal": "SIGKILL"}, {"exit_code": 137, "timed_out": True}, "", Outcome.TIMED_OUT),
        ({"timed_out": True}, {"exit_code": 137, "timed_out": True}, "", Outcome.REPRODUCED),
        ({"timed_out": True}, {"exit_code": 1}, "", Outcome.DIFFERENT_FAILURE),
        ({"timed_out": True}, {"exit_code": 0}, "", Outcome.PASSED),
        ({"timed_out": False, "exit_code": 1}, {"exit_code": 1}, "", Outcome.REPRODUCED),
        ({"timed_out": False, "output": "loss"}, {"exit_code": 137, "timed_out": True}, LOG, Outcome.TIMED_OUT),
        ({"output": "loss 0.5"}, {"exit_code": 137, "timed_out": True}, LOG, Outcome.REPRODUCED),
        ({"exception": "TypeError", "exit_code": 1}, {"exit_code": 137, "timed_out": True}, LOG, Outcome.TIMED_OUT),
        # killed for memory
        ({}, {"exit_code": 137, "oom": True}, "", Outcome.OUT_OF_MEMORY),
        ({"signal": "SIGKILL"}, {"exit_code": 137, "oom": True}, "", Outcome.OUT_OF_MEMORY),
        ({"out_of_memory": True}, {"exit_code": 137, "oom": True}, "", Outcome.REPRODUCED),
        ({"out_of_memory": True, "exit_code": 137}, {"exit_code": 137, "oom": True}, "", Outcome.REPRODUCED),
        ({"out_of_memory": True}, {"exit_code": 137}, "", Outcome.DIFFERENT_FAILURE),
        ({"out_of_memory": True}, {"exit_code": 137, "timed_out": True}, "", Outcome.TIMED_OUT),
        # only one process in the container was: the program went on
        ({"exception": "TypeError"}, {"exit_code": 1, "oom": True}, LOG, Outcome.REPRODUCED),
        ({"exception": "KeyError"}, {"exit_code": 1, "oom": True}, LOG, Outcome.OUT_OF_MEMORY),
        ({"output": "killed by signal"}, {"exit_code": 0, "oom": True}, "all well", Outcome.PASSED),
    ],
)
def test_a_stopped_container(failure: dict[str, Any], ending: dict[str, Any], text: str, expected: Outcome) -> None:
    assert outcome(failure, Ending(**ending), text) is expected


@pytest.mark.parametrize(
    ("failure", "ending", "text", "reason"),
    [
        (
            {"exception": "ValueError"},
            Ending(exit_code=1),
            LOG,
            f"exit status 1 with {SHOWN}, not ValueError",
        ),
        ({"signal": "SIGABRT"}, Ending(exit_code=139), "", "exit status 139 (128 + SIGSEGV), not SIGABRT"),
        ({"exit_code": 2, "exception": "KeyError"}, Ending(exit_code=1), LOG, f"exit status 1, not 2, with {SHOWN}"),
        ({"frames": ["a.py:f"]}, Ending(exit_code=1), LOG, f"exit status 1 with {SHOWN}, but {NOT_THROUGH}"),
        ({"output": "/x+/"}, Ending(exit_code=0), "", "exit status 0"),
        ({"output": "loss"}, Ending(exit_code=0), LOG, "exit status 0; line 1: iteration 1, loss 0.5"),
        ({}, Ending(exit_code=137, timed_out=True, seconds=3), "", "stopped at its time limit after 3.0 s"),
        ({}, Ending(exit_code=137, oom=True), "", "killed for memory, exit status 137 (128 + SIGKILL)"),
        ({}, Ending(exit_code=1, oom=True), "", "a process of it was killed for memory, exit status 1"),
        ({"output": "cafe\u0301"}, Ending(exit_code=1), "no caf\xe9\n", "exit status 1; line 1: no caf\xe9"),
        ({"output": "/caf\xe9$/"}, Ending(exit_code=1), "no cafe\u0301\n", "exit status 1; line 1: no cafe\u0301"),
        (
            {"output": "nan"},
            Ending(exit_code=134),
            "free(): invalid pointer\n",
            f"exit status 134 (128 + SIGABRT) with abort: free(): invalid pointer, but {NOTHING} nan",
        ),
    ],
)  # fmt: skip
def test_reasons(failure: dict[str, Any], ending: Ending, text: str, reason: str) -> None:
    assert judge(Failure(**failure), ending, text).reason == reason


def test_checks_name_their_lines() -> None:
    judgement = judge(Failure(exception="TypeError", output="iteration"), Ending(exit_code=1), LOG)
    assert [(check.key, check.matched, check.lines) for check in judgement.checks] == [
        ("exception", True, (2, 7)),
        ("output", True, (1,)),
    ]
    assert judgement.exception is not None
    assert judgement.rules == RULES_VERSION


@pytest.mark.parametrize(
    ("wanted", "seen", "matches"),
    [
        ("KeyError", "KeyError", True),
        ("OutOfMemoryError", "torch.cuda.OutOfMemoryError", True),
        ("cuda.OutOfMemoryError", "torch.cuda.OutOfMemoryError", True),
        ("torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError", False),
        ("torch.OutOfMemoryError", "OutOfMemoryError", False),
        ("MemoryError", "torch.cuda.OutOfMemoryError", False),
    ],
)
def test_exception_types(wanted: str, seen: str, matches: bool) -> None:
    assert type_matches(wanted, seen) is matches


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (("b.py:g",), True),
        (("/app/x/a.py:f", "b.py:g"), True),
        (("x/a.py:f", "x/b.py:g", "c.py:<module>"), True),
        (("b.py:g", "a.py:f"), False),
        (("a.py:f", "a.py:f"), False),
        (("p/a.py:f",), False),
        (("aa.py:f",), False),
        (("b.py:f",), False),
        (("b.py",), True),
    ],
)
def test_frames(wanted: tuple[str, ...], matches: bool) -> None:
    frames = [("/app/x/a.py", "f"), ("/app/x/b.py", "g"), ("c.py", "<module>")]
    seen = ExceptionSeen(type="E", message="", frames=tuple(Frame(file=f, line=1, function=n) for f, n in frames))
    assert frames_match(wanted, seen) is matches


@pytest.mark.system
@pytest.mark.parametrize("pattern", ["/.*value/", "/^.*?value=\\d/", "/.*value.*end/"])
def test_a_regex_over_endless_lines_takes_no_time(pattern: str) -> None:
    text = ("z" * 500_000 + "\n") * 3
    started = time.process_time()
    assert outcome({"output": pattern}, Ending(exit_code=0), text) is Outcome.PASSED
    assert outcome({"output": pattern}, Ending(exit_code=0), text + "a value=1 end\n") is Outcome.REPRODUCED
    assert time.process_time() - started < 3


def test_evidence_needs_neither_engine_nor_pydantic() -> None:
    code = "import json, sys, reprokit.evidence, reprokit.evidence.verdict; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert not {
        name for name in modules if name.startswith(("pydantic", "docker", "reprokit.engine", "reprokit.store"))
    }


@pytest.mark.parametrize("pattern", ["needle", "/ne+dle/"])
@pytest.mark.parametrize("length", [0, 1, LONG_LINE - 1, LONG_LINE, LONG_LINE + 1, 3 * LONG_LINE])
def test_the_line_of_a_match_is_the_logs_own_however_long_others_are(pattern: str, length: int) -> None:
    log = f"first\n{'x' * length}\n\nhere is a needle\nlast\n"
    [check] = judge(Failure(output=pattern), Ending(exit_code=1), log).checks
    assert check.lines == (4,)
    [check] = judge(Failure(output=pattern), Ending(exit_code=1), f"{'x' * length} needle\nlast").checks
    assert check.lines == (1,)


def test_a_gpu_sanitizer_that_checked_nothing_decides_nothing() -> None:
    log = (Path(__file__).parents[2] / "golden" / "compute-sanitizer-no-gpu.log").read_text()
    for signature in (Failure(exit_code=255), Failure(exit_code="nonzero")):
        judgement = judge(signature, Ending(exit_code=255), log)
        assert judgement.outcome is Outcome.INCONCLUSIVE
        assert judgement.reason.startswith("exit status 255: compute-sanitizer did not check it: Target application")
    # A case that is about these words says so.
    asked = Failure(output="terminated before first instrumented API call")
    assert judge(asked, Ending(exit_code=255), log).outcome is Outcome.REPRODUCED
