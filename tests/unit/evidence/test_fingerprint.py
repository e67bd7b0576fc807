"""Fingerprints: the same failure elsewhere has the same one, another failure another one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reprokit.case.model import Failure
from reprokit.evidence.fingerprint import FINGERPRINT_VERSION
from reprokit.evidence.judgement import judge
from reprokit.evidence.log_trimmer import LogTrimmer
from reprokit.evidence.model import Ending, Fingerprint
from reprokit.evidence.normalise import essence, normalise
from tests.unit.evidence.test_golden import LOGS, load
from tests.unit.limits import examples

OTHER = Failure(output="a text that no log holds")


def fingerprint(log: str, exit_code: int = 1, failure: Failure = OTHER) -> Fingerprint:
    """The fingerprint of a trial that ended so with this log."""
    seen = judge(failure, Ending(exit_code=exit_code), log).fingerprint
    assert seen is not None
    assert seen.version == FINGERPRINT_VERSION
    assert re.fullmatch("[0-9a-f]{12}", seen.id)
    assert seen.title
    assert "\n" not in seen.title + seen.message
    return seen


def golden(name: str) -> Fingerprint:
    text, expected = load(name)
    return fingerprint(text, expected["exit_code"] or 1)


def traceback(last: str, *frames: str, source: str = "    run()\n") -> str:
    """A traceback through ``path:line:function`` that ends with the line ``last``."""
    lines = []
    for frame in frames:
        path, line, function = frame.rsplit(":", 2)
        lines.append(f'  File "{path}", line {line}, in {function}\n{source}')
    return "Traceback (most recent call last):\n" + "".join(lines) + last + "\n"


ALIKE = (
    {"cpp-segfault", "paddle-segfault"},
    {"paddle-inverse-nan", "paddle-inverse-nan-stack"},
    {"pytest-long", "pytest-short", "pytest-native"},
    {"pytest-captured", "python-nose2", "python-unittest-buffer"},
    {"pytest-chained", "python-unittest-chained"},
    {"python-group", "python-group-3.13"},
    {"python-thread", "python-thread-3.6", "python-process"},
    {"python-mutual-3.13", "python-pool"},
    {"shell-killed", "shell-signals"},
    *(
        {f"python-{name}-3.9", f"python-{name}-3.13"}
        for name in ("comprehension", "faulthandler-threads", "missing-argument", "unbound")
    ),
)

"""Golden logs of the same failure: said by a shell and by Paddle, with and without C++ stack, by two Pythons."""


def test_golden_logs_share_a_fingerprint_only_where_the_failure_is_the_same() -> None:
    by_id: dict[str, set[str]] = {}
    for name in LOGS:
        by_id.setdefault(golden(name).id, set()).add(name)
    shared = [names for names in by_id.values() if len(names) > 1]
    assert sorted(map(sorted, shared)) == sorted(map(sorted, ALIKE))


@pytest.mark.parametrize(
    ("name", "title"),
    [
        (
            "torch-worker",
            "ValueError: Caught ValueError in DataLoader worker process 0. ValueError: bad item 2 at repro",
        ),
        ("paddle-inverse-nan-stack", "ValueError: InvalidArgumentError: Input is not invertible. [Hint:"),
        ("cpp-terminate", "terminate: std::runtime_error: device list is empty"),
        ("cpp-segfault", "SIGSEGV"),
        ("python-faulthandler", "SIGSEGV at repro.py:crash"),
        ("asan-heap-overflow", "sanitizer: ERROR: AddressSanitizer: heap-buffer-overflow at read"),
        ("asan-leak", "sanitizer: ERROR: LeakSanitizer: detected memory leaks at main"),
        ("gxx-missing-header", "repro.cpp:1:10: fatal error: ImathBox.h: No such file or directory"),
        ("ptxas-parse-error", "ptxas repro.ptx, line 4; error : Not a name of any known instruction: 'nonsense'"),
        (
            "python-build-failed",
            "a.cpp:1:10: fatal error: no_such_header.h: No such file or directory, then CalledProcessError at sub",
        ),
        ("python-exit-message", "exit status 1: fatal: no data"),
        ("python-keyboard-interrupt", "KeyboardInterrupt at repro.py:<module>"),
    ],
)
def test_a_title_says_what_failed_in_one_line(name: str, title: str) -> None:
    assert golden(name).title.startswith(title)


PLACES = (
    "/opt/venv/lib/python3.11/site-packages",
    "/usr/local/lib/python3.9/dist-packages",
    "/usr/lib/python3/dist-packages",
    "/opt/conda/envs/bug/lib/python3.13/site-packages",
    "/home/me/.venv/lib64/python3.10/site-packages",
)


def test_the_same_failure_in_forty_environments_is_one() -> None:
    seen = set()
    for number in range(40):
        packages, work = PLACES[number % len(PLACES)], ("/workspace", "/root/bug", "/tmp/tmpab12cd34")[number % 3]
        message = (
            f"TypeError: Foo.__init__() got an unexpected keyword argument 'x' (object at 0x7f{number:010x}), "
            f"shape [{number}, {number + 3}], from {work}/data/part.npz. Did you mean 'y{number}'?"
        )
        if number % 2:  # Python 3.9 says neither class nor suggestion
            message = message.replace("Foo.__init__", "__init__").partition(". Did you")[0]
        frames = [f"{work}/train.py:{number + 5}:<module>", f"{work}/net.py:{number}:forward"]
        if number % 4 == 0:  # before 3.12 comprehensions had frames
            frames.append(f"{work}/net.py:{number}:<listcomp>")
        if number % 5 == 0:
            frames.append(f"{packages}/torch/nn/modules/module.py:{number}:_wrapped_call_impl")
        frames.append(f"{packages}/paddle/nn/functional/loss.py:{number + 100}:cross_entropy")
        if number % 7 == 0:
            frames.append(f"{packages}/paddle/base/framework.py:{number}:helper_{number}")
        seen.add(fingerprint(traceback(message, *frames)).id)
    assert len(seen) == 1


OWN = ("/workspace/train.py:3:<module>", "/workspace/net.py:9:forward")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (traceback("ValueError: bad shape", *OWN), traceback("TypeError: bad shape", *OWN)),
        (traceback("ValueError: bad shape", *OWN), traceback("ValueError: bad type", *OWN)),
        (traceback("ValueError: bad shape", *OWN), traceback("ValueError: bad shape", OWN[0], "/w/loss.py:1:forward")),
        (
            traceback("AssertionError", *OWN, f"{PLACES[0]}/torch/optim/sgd.py:3:step"),
            traceback("AssertionError", *OWN, f"{PLACES[0]}/torch/optim/adam.py:3:step"),
        ),
        (
            traceback("AssertionError", *OWN, f"{PLACES[0]}/lib/api.py:3:call", f"{PLACES[0]}/lib/a.py:3:check"),
            traceback("AssertionError", *OWN, f"{PLACES[0]}/lib/api.py:3:call", f"{PLACES[0]}/lib/b.py:3:check"),
        ),
        (
            traceback("KeyError: 'x'", *OWN, f"{PLACES[0]}/one/__init__.py:3:load"),
            traceback("KeyError: 'x'", *OWN, f"{PLACES[0]}/two/__init__.py:3:load"),
        ),
        (traceback("zlib.error: bad", *OWN), traceback("struct.error: bad", *OWN)),
        (
            traceback("RuntimeError: CUDA error: device-side assert triggered", *OWN),
            traceback("RuntimeError: CUDA error: an illegal memory access was encountered", *OWN),
        ),
        ("received min_abs_pivot:nan <= 0", "received min_abs_pivot:0 <= 0"),
        ("RuntimeError: expected Float but found Double", "RuntimeError: expected Float but found Half"),
        ("libcudart.so.11.0: cannot open shared object file", "libcudnn.so.8: cannot open shared object file"),
        ("a.cpp:1:10: fatal error: a.h: No such file or directory", "a.cpp:1:10: fatal error: b.h: No such file"),
        (
            "terminate called after throwing an instance of 'A'\n  what():  x",
            "terminate called after throwing an instance of 'B'\n  what():  x",
        ),
        ("the process ended with exit code 7", "the process ended with exit code 9"),
        ("upload failed: HTTP 404", "upload failed: HTTP 500"),
        ("upload failed: HTTP/1.1 404 after 3 tries", "upload failed: HTTP/1.1 500 after 3 tries"),
        ("upload failed: <Response [404]>", "upload failed: <Response [500]>"),
        ("cannot open '/tmp/data/train.csv'", "cannot open '/tmp/data/labels.csv'"),
    ],
)
def test_different_failures_are_distinguished(one: str, other: str) -> None:
    assert fingerprint(one).id != fingerprint(other).id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("error: ‘AT_CHECK’ was not declared", "error: 'AT_CHECK' was not declared"),
        ("error: 'check' is not a member of 'std'; did you mean 'ck'?", "error: 'check' is not a member of 'std'"),
        ("module 'x' has no attribute 'y' (consider renaming '/w/x.py')", "module 'x' has no attribute 'y'"),
        (
            "cannot access free variable 'best' where it is not associated with a value in enclosing scope",
            "free variable 'best' referenced before assignment in enclosing scope",
        ),
        (
            "maximum recursion depth exceeded while calling a Python object",
            "maximum recursion depth exceeded in comparison",
        ),
        ("cannot fetch https://me:secret@host.org:8080/a/b?token=1", "cannot fetch https://host.org/c"),
        ("src/ops/../kernel.cu(12): error: no such thing", "build/kernel.cu:13:5: error: no such thing"),
        ("/tmp/x/ccAb12Cd.o: no such file", "/var/tmp/ccZz98Yx.o: no such file"),
        (
            "cannot open tmpab12cd34 of tmpxft_00000a2b_00000000-0",
            "cannot open tmpzz98yy76 of tmpxft_00000fff_00000000-0",
        ),
        ("no file /tmp/tmpab12cd34/train.csv", "no file /tmp/tmpzz98yy76/train.csv"),
        ("no file /tmp/tmpab12cd34.csv", "no file /tmp/tmpabcdefgh.csv"),
        (
            "Can't instantiate abstract class A with abstract method f",
            "Can't instantiate abstract class A without an implementation for abstract method 'f'",
        ),
        ("too many values to unpack (expected 2)", "too many values to unpack (expected 2, got 3)"),
        ("commit 06020a4d9e8f7c is gone", "commit deadbeef12345 is gone"),
        ("a ,\n  b", "a , b"),
        ("Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total)", "Tried to allocate 512 MiB (GPU 1; 23 GiB total)"),
        (
            "mat1 and mat2 shapes cannot be multiplied (2x4 and 3x3)",
            "mat1 and mat2 shapes cannot be multiplied (64x1 and 2x8)",
        ),
        ("numpy 1.26.4 is too old", "numpy 2.0.0rc1 is too old"),
        ("torch 2.6.0+cu118 is too old", "torch 2.7.1 is too old"),
        ("lost at 2026-01-02T03:04:05Z", "lost at 2025-11-22T13:14:15.123+01:00"),
        ("Value 'sm_90' is not defined", "Value 'sm_100a' is not defined"),
        ("CUDA error: invalid\nCompile with `TORCH_USE_CUDA_DSA` to enable", "CUDA error: invalid"),
    ],
)
def test_messages_that_say_the_same(one: str, other: str) -> None:
    assert normalise(essence(one)) == normalise(essence(other))


@pytest.mark.parametrize(
    "text",
    [
        "float64",
        "libcudart.so.11.0",
        "exit code 139",
        "errno 13",
        "nan",
        "layer1.weight",
        "module.0.bias",
        "CUDA error 700",
    ],
)
def test_what_tells_failures_apart_stays(text: str) -> None:
    assert text in normalise(f"it has {text} here")


def test_a_program_that_only_says_how_it_ended_is_identified_by_that() -> None:
    assert fingerprint("starting\n\n", 3) == fingerprint("starting", 3)
    assert fingerprint("", 3).title == "exit status 3, no output"
    assert fingerprint("starting", 3).id != fingerprint("starting", 4).id
    assert fingerprint("loaded 13 files in 0.3 s", 3).id == fingerprint("loaded 7 files in 1.25 s", 3).id
    assert fingerprint("", 139).title == "exit status 139 (128 + SIGSEGV)"
    assert fingerprint("", 139).id == golden("cpp-segfault").id
    assert fingerprint("", 130).kind == "exit-status"


def test_how_deep_a_recursion_was_is_not_a_difference() -> None:
    deep = [f"/workspace/tree.py:{n}:{('walk', 'visit')[n % 2]}" for n in range(12)]
    assert (
        fingerprint(traceback("KeyError: 1", *OWN, *deep)).id
        == fingerprint(traceback("KeyError: 1", *OWN, *deep[:2])).id
    )


def test_where_in_a_library_an_exception_with_a_message_was_raised_is_not_a_difference() -> None:
    called = (*OWN, f"{PLACES[0]}/lib/api.py:3:call")
    one = traceback("KeyError: 'x'", *called, f"{PLACES[0]}/lib/old.py:7:look", f"{PLACES[0]}/lib/old.py:9:get")
    assert fingerprint(one).id == fingerprint(traceback("KeyError: 'x'", *called, f"{PLACES[1]}/lib/new.py:8:get")).id
    assert fingerprint(one).frames == ("api.py:call", "net.py:forward", "train.py:<module>")


def test_a_group_of_exceptions_is_identified_by_all_that_it_holds() -> None:
    text, _ = load("python-group")
    assert fingerprint(text.replace("KeyError: 'k'", "KeyError: 'other'")).id != fingerprint(text).id
    assert fingerprint(text.replace("TypeError: never", "LookupError: never")).id != fingerprint(text).id
    assert fingerprint(text.replace("(3 sub-exceptions)", "(4 sub-exceptions)")).id == fingerprint(text).id


def test_an_exception_that_python_ignored_is_not_how_a_program_failed() -> None:
    assert golden("python-only-ignored").kind == "exit-status"


def test_the_signal_is_the_one_that_the_exit_status_says() -> None:
    assert fingerprint("Bus error", 139).message == "SIGSEGV"
    assert fingerprint("Bus error", 1).message == "SIGBUS"
    assert normalise("a\t  b") == "a b"


def test_a_crash_long_after_a_logged_exception_is_the_crash() -> None:
    logged = traceback("ValueError: retrying", *OWN)
    assert fingerprint(logged + "step\n" * 50, 139).title == "exit status 139 (128 + SIGSEGV)"
    assert fingerprint(logged + "terminate called without an active exception\n", 134).kind == "ValueError"
    assert fingerprint(logged + "step\n" * 50, 1).kind == "ValueError"


def test_what_an_exception_only_reports_tells_it_apart() -> None:
    failed = traceback("RuntimeError: Error compiling objects for extension", *OWN)
    compiled = "a.cpp:1:10: fatal error: {}.h: No such file or directory\n"
    assert fingerprint(compiled.format("cuda") + failed).id != fingerprint(compiled.format("cudnn") + failed).id
    unrelated = traceback("ValueError: bad shape", *OWN)
    assert fingerprint(compiled.format("cuda") + unrelated).id == fingerprint(unrelated).id
    assert golden("torch-worker-killed").id != golden("torch-worker-segfault").id


def test_only_a_failure_of_the_program_has_a_fingerprint() -> None:
    def of(failure: Failure, ending: Ending, log: str = "") -> Fingerprint | None:
        return judge(failure, ending, log).fingerprint

    log = traceback("ValueError: bad shape", *OWN)
    assert of(Failure(), Ending(exit_code=0), log) is None
    assert of(Failure(), Ending(exit_code=137, timed_out=True), log) is None
    assert of(Failure(), Ending(exit_code=137, oom=True), log) is None
    assert of(Failure(timed_out=True), Ending(exit_code=137, timed_out=True), log) is None
    assert of(Failure(), Ending(exit_code=0), "hello") is None
    reproduced = of(Failure(exception="ValueError"), Ending(exit_code=1), log)
    assert reproduced is not None
    assert reproduced == fingerprint(log)
    # What the signature asks for is the failure, however the container ended.
    both = Failure(exception="ValueError", signal="SIGSEGV")
    assert of(both, Ending(exit_code=139), log + "step\n" * 50) == reproduced
    assert of(Failure(exception="ValueError"), Ending(exit_code=137, timed_out=True), log) == reproduced


PADDLE_STACK = """\
--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   paddle::pybind::eager_api_inverse(_object*, _object*, _object*)
1   inverse_ad_func(paddle::Tensor const&)
2   void phi::InverseKernel<float, phi::CPUContext>(phi::CPUContext const&, phi::DenseTensor const&, phi::DenseTensor*)
3   phi::enforce::GetCurrentTraceBackString[abi:cxx11](bool)

----------------------
Error Message Summary:
----------------------
FatalError: `Segmentation fault` is detected by the operating system.
  [SignalInfo: *** SIGSEGV (@0x0) received by PID 1269 (TID 0x7ff3bd7e5040) from PID 0 ***]
"""
TORCH_STACK = """\
terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: invalid argument
Exception raised from c10_cuda_check_implementation at /pytorch/c10/cuda/CUDAException.cpp:43 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f77c89a2446 in /opt/libc10.so)
frame #1: c10::cuda::c10_cuda_check_implementation(int, char const*, int, bool) + 0x3cc (0x7f77c8a in /opt/libc10.so)
frame #2: void at::native::gpu_kernel_impl<at::native::AddFunctor<float> >(int) + 0x3b (0x7f7777 in /opt/libtorch.so)
"""
THREADS = """\
Fatal Python error: Segmentation fault

Thread 0x00007f6a2d3ff700 (most recent call first):
  File "/usr/lib/python3.9/threading.py", line 312 in wait
  File "/workspace/other.py", line 3 in work

Current thread 0x00007f6a34f63740 (most recent call first):
  File "/opt/venv/lib/python3.9/site-packages/lib/native.py", line 9 in call
  File "/workspace/repro.py", line 4 in crash
  File "/workspace/repro.py", line 6 in <module>
"""


@pytest.mark.parametrize(
    ("log", "frames"),
    [
        (PADDLE_STACK, ("phi::InverseKernel", "inverse_ad_func")),
        (TORCH_STACK, ("at::native::gpu_kernel_impl",)),
        (THREADS, ("native.py:call", "repro.py:crash", "repro.py:<module>")),
        ("Segmentation fault", ()),
    ],
)
def test_a_crash_is_identified_by_its_stack(log: str, frames: tuple[str, ...]) -> None:
    assert fingerprint(log, 139).frames == frames
    moved = re.sub(r"0x[0-9a-f]+|line \d+|:\d+", lambda hit: hit[0][:-1] + "7", log).replace("/opt/", "/usr/lib64/")
    assert fingerprint(moved, 139).id == fingerprint(log, 139).id


def test_two_bugs_that_a_sanitizer_finds_are_distinguished_by_where() -> None:
    text, _ = load("asan-heap-overflow")
    assert fingerprint(text.replace("in read(", "in write(")).id != fingerprint(text).id
    assert fingerprint(text.replace("/workspace/repro.cpp", "/src/main.cpp")).id == fingerprint(text).id


def test_the_last_words_are_not_a_warning() -> None:
    warned = "np.py:3: FutureWarning: Passing (type, 1) is deprecated\n  quantised = np.dtype([field])\n"
    assert fingerprint("field has shape ()\n" + warned).id == fingerprint("field has shape ()\n").id
    assert fingerprint(warned).title == "exit status 1: quantised = np.dtype([field])"


def test_a_signature_about_the_output_is_identified_by_the_line_that_it_matched() -> None:
    log = traceback("ValueError: logged", *OWN) + "loss 0.5\nshape (3,) is odd\ndone in 3 s\n"
    said = judge(Failure(output="is odd"), Ending(exit_code=0), log).fingerprint
    assert said is not None
    assert said.title == "exit status 0: shape (3,) is odd"
    other = judge(Failure(output="/is odd$/"), Ending(exit_code=0), log + "another last line\n").fingerprint
    assert other == said


@given(st.text(max_size=300), st.sampled_from([None, 0, 1, 3, 134, 137, 139, 255]))
@example('Traceback (most recent call last):\n  File "a", line 1, in f\nE: \ud800', 1)
@settings(max_examples=examples(200))
def test_no_text_is_refused(text: str, code: int | None) -> None:
    judge(OTHER, Ending(exit_code=code), text)
    judge(OTHER, Ending(exit_code=code), traceback("ValueError: " + text, *OWN))


PIECES = """
mat1 shapes sm_90 cannot /usr/lib/libfoo.so.11 a/b/c.py:3 0x7fab12cd 3.11.2 2x4 -1e-05 [3, 4] (at x.cu:117) exit code 13
error 1.0.0rc1 f.<locals>.g() missing tmpab12cd34 2024-01-02T03:04:05Z 12:30:01.5 https://user@host/a?b did you mean
'x'? . : InvalidArgumentError: 123e4567-e89b-12d3-a456-426614174000 deadbeef12 <n> ' ‘a’ 512MiB nan /tmp/x1/y ~/z ../q
"""
WORDS = st.sampled_from(PIECES.split())


@given(st.one_of(st.text(max_size=120), st.lists(WORDS, max_size=12).map(" ".join), st.lists(WORDS).map("".join)))
@settings(max_examples=examples(500))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


@given(st.data())
def test_what_changes_from_run_to_run_changes_no_message(data: st.DataObject) -> None:
    number = st.integers(0, 10**9)
    folder = st.lists(st.sampled_from(["home", "opt", "build-3", "v1.2", "a_b"]), min_size=1, max_size=4).map("/".join)

    def message() -> str:
        at, line, column = data.draw(st.integers(0x10000, 2**64 - 1)), data.draw(number), data.draw(number)
        return (
            f"<Net object at 0x{at:x}> in /{data.draw(folder)}/net.py:{line}:{column}: got {data.draw(number)} of "
            f"{data.draw(st.floats(0, 1e6))!r} MiB, pid {data.draw(number)}, {data.draw(st.uuids())}, shape "
            f"{data.draw(st.lists(number, min_size=1, max_size=4))}, /tmp/{data.draw(folder)}/part, "
            f"{data.draw(st.datetimes()).isoformat(timespec='seconds')}, numpy {line}.{column}.1, "
            f"float64 on sm_{data.draw(st.integers(30, 120))}"
        )

    first, second = normalise(essence(message())), normalise(essence(message()))
    assert first == second
    assert "net.py" in first
    assert "float64" in first


@pytest.mark.system
def test_a_long_message_takes_no_time() -> None:
    # A quadratic rule would need minutes for these.
    for piece in ("1.", "a/", "/a", "a.", "x1", "0x", "f.<locals>.", "did you mean ", "<n>, ", "deadbeef", "(1,", " "):
        normalise(piece * 15_000)
        essence(piece * 15_000)


LAST_LINE = {"compute-sanitizer-no-gpu", "python-exit-message", "python-only-ignored"}
"""Logs that are identified by their last line alone."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(set(LOGS) - LAST_LINE))
def test_what_is_kept_of_a_flooded_log_has_the_same_fingerprint(name: str, tmp_path: Path) -> None:
    text, expected = load(name)
    flood = b"".join(b"step %d value %d\n" % (i, i * 7) for i in range(20_000))
    file = (tmp_path / "log").open("w+b", buffering=0)
    with LogTrimmer(file, Failure(), head=4096, kept=1 << 20, tail=4096) as trimmer:
        trimmer.feed(flood + b"\n" + text.encode() + b"\n" + flood)
    kept = (tmp_path / "log").read_text("utf-8", errors="replace")
    code = expected["exit_code"] or 1
    assert fingerprint(kept, code) == fingerprint(text, code)
