"""Reports become drafts: what of a report is in the case, and that nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reprokit.case import placeholders
from reprokit.case.files import CaseFile
from reprokit.core.errors import UsageError
from reprokit.environment.cases import load, load_text
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending, Outcome
from reprokit.intake import texts
from reprokit.intake.draft import render
from reprokit.intake.drafting import draft
from reprokit.intake.pieces import cut
from tests.unit.intake.reports import CONSOLE, FORM, TWO_MACHINES
from tests.unit.limits import examples, within

FLAGSHIP = Path(__file__).parents[3] / "cases" / "cityscapes_rmi.yaml"


def drafted(text: str, url: str = "") -> CaseFile:
    return load_text("draft.yaml", render(draft(text, url=url)))


def test_a_report_of_two_machines_becomes_the_same_case_as_written_by_hand() -> None:
    made, written = drafted(TWO_MACHINES).case, load(str(FLAGSHIP))[0].case
    by_hand_only = {"nccl": ("2.16",)}  # a library that PaddlePaddle opens on a GPU
    assert {**made.matrix.axes, **by_hand_only} == written.matrix.axes
    assert list(made.matrix.axes) == [axis for axis in written.matrix.axes if axis not in by_hand_only]
    assert made.matrix.exclude == written.matrix.exclude
    assert made.env == written.env
    assert made.datasets["cityscapes"].path == written.datasets["cityscapes"].path
    assert made.datasets["cityscapes"].layout == written.datasets["cityscapes"].layout
    assert made.command == written.command
    failure = made.expect.failure
    assert failure.message == "/For batch .*: U.* is zero, singular U/"
    by_hand = written.expect.failure  # which names a frame of Paddle, too
    assert by_hand.frames[-1] == "math.py:inverse"
    frames = by_hand.frames[:-1]
    assert failure.model_copy(update={"message": "singular U"}) == by_hand.model_copy(update={"frames": frames})
    assert made.sources["PaddleSeg"].git == written.sources["PaddleSeg"].git


def test_a_draft_names_its_origins_and_what_is_not_known() -> None:
    text = render(draft(TWO_MACHINES))
    line = TWO_MACHINES.split("\n").index("export STRICT_MODE=0") + 1
    assert f"# lines {line} to {line + 4}" in text
    assert "debian-12 is the default: the report names no distribution" in text
    assert "gcc 8.2.0" in text  # it was reported and is not an axis; the comment says why
    assert "0.0.0.dev0, which is not a release" in text
    assert "paddlepaddle-gpu 0.0.0 is not a release" in text


def test_a_form_of_an_issue_with_a_program() -> None:
    made = drafted(FORM, "https://github.com/nobody/tablelib/issues/7")
    case = made.case
    assert case.report is not None
    assert case.report.url == "https://github.com/nobody/tablelib/issues/7"
    assert case.command == "python bug.py"
    assert case.files["bug.py"].startswith("import numpy as np\n")
    assert set(case.environment.pip) == {"numpy"}
    assert case.expect.failure.exception == "ValueError"
    assert case.expect.failure.message == "/matmul: Input operand .* has a mismatch in its core dimension/"
    assert "please be short" not in made.text
    assert "No response" not in made.text
    assert "somebody" not in made.text


def test_a_console_in_plain_text() -> None:
    case = drafted(CONSOLE).case
    assert case.command == "# the image has: pip install frobnicate==2.1\ncd demo\npython demo.py --rate 3\n"
    assert case.env == {"OMP_NUM_THREADS": "1"}
    assert case.environment.pip == ("frobnicate==2.1",)
    assert case.matrix.axes == {"os": ("ubuntu-22.04",), "python": ("3.10",)}
    failure = case.expect.failure
    assert (failure.exception, failure.message) == ("SpinError", "cannot spin at")
    assert failure.frames == ("core.py:start", "spin.py:_spin")


def test_templates_and_secrets_of_a_report_do_not_reach_the_case() -> None:
    token = "ghp_" + "a1B2" * 9
    text = f"""
Run it:

```python
import os
os.environ["GH"] = "{token}"
print("{{{{ cuda }}}}", "{{% for x in y %}}")
raise ValueError("x")
```
"""
    made = drafted(text)
    assert token not in made.text
    assert "github-token" in made.text
    from reprokit.case.render import render as cell

    assert '"{{ cuda }}", "{% for x in y %}"' in cell(made.case, {}).files["repro.py"].text


def test_a_failing_build_is_the_command_rather_than_setup() -> None:
    text = """
Installing fails with GCC 13 on Ubuntu 24.04:

```console
$ pip install wibble==0.3
...
      src/wibble.cpp:12:5: error: 'uint8_t' was not declared in this scope
```
"""
    case = drafted(text).case
    assert case.command == "pip install wibble==0.3"
    assert not case.environment.pip
    assert case.expect.failure.output == "'uint8_t' was not declared in this scope"
    assert case.resources.network == "bridge"


def test_a_crash_in_two_languages() -> None:
    for words in ("Segmentation fault (core dumped)", "段错误 (核心已转储)", "进程已结束，退出代码 139 (interrupted)"):
        case = drafted(f"运行 `python -c 'import wibble'`\n\n```\n{words}\n```\n").case
        assert case.expect.failure.signal == "SIGSEGV"


def test_several_bugs_in_one_text_are_reported() -> None:
    text = "```\nKeyError: 'a'\n```\n\nand\n\n```\nIndexError: list index out of range\n```\n"
    assert any("1 other failure" in sentence for sentence in draft(text).missing)


def test_a_source_is_taken_at_the_tag_of_the_reported_version() -> None:
    text = "PaddleSeg: 2.8.1\nPython: 3.10\n\n```bash\npython train.py --iters 3\n```\n\n```\nKeyError: 'x'\n```\n"
    case = drafted(text, "https://github.com/PaddlePaddle/PaddleSeg/issues/1").case
    assert (case.sources["PaddleSeg"].ref, case.command) == ("v2.8.1", "cd PaddleSeg\npython train.py --iters 3\n")


def test_the_command_is_the_one_with_the_failure_in_its_output() -> None:
    text = """
### Fitting stopped after an upgrade of everything that is below it and of what is beside it

`python fit.py` dies.

```
$ python fit.py --steps 2
Traceback (most recent call last):
  File "fit.py", line 3, in fit
    go()
ValueError: bad shape
```
"""
    case = drafted(text).case
    assert case.command == "python fit.py --steps 2"
    assert case.title == "Fitting stopped after an upgrade of everything that is below it and of what is beside it"
    assert case.id == "fitting-stopped-after-an-upgrade-of-everything-that-is-below"
    other = drafted(text.replace("fit.py", "fit").replace("python fit", "python -m fit")).case
    assert other.command == "python -m fit --steps 2"


def test_an_exception_in_a_sentence_is_found_and_a_command_may_have_several_lines() -> None:
    text = """
# 起不来

为什么别的办法可以？报错信息是：torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.

启动脚本：
CUDA_VISIBLE_DEVICES=0,1,2 python -m wibble.serve \\
--model big/one
"""
    case = drafted(text).case
    assert case.command == "python -m wibble.serve \\\n--model big/one\n"
    assert (case.expect.failure.exception, case.expect.failure.message) == ("OutOfMemoryError", "CUDA out of memory")
    assert case.resources.gpus == "3"
    assert any("starts wibble: the report does not say which package" in sentence for sentence in draft(text).missing)
    assert not any("starts wibble" in sentence for sentence in draft(f"{text}\npip install wibble==1.2\n").missing)
    assert not any("starts" in sentence for sentence in draft(text.replace("wibble.serve", "http.server")).missing)
    assert case.description == ""


def test_a_form_that_asks_for_the_command() -> None:
    text = """
### The command used to start it / 用以启动的命令

wibble launch --size 7 --n-gpu 2

### What happened

it died, see below --- RuntimeError: cannot launch
"""
    assert drafted(text).case.command == "wibble launch --size 7 --n-gpu 2"
    other = text.replace("wibble launch --size 7 --n-gpu 2", "I used the usual one")
    assert "write the command" in drafted(other).case.command


def test_a_traceback_without_its_first_line() -> None:
    frames = """
    with opened() as one:
         ^^^^^^^^
  File "/srv/wibble/serve.py", line 14, in opened
    wait()
  File "/srv/wibble/wait.py", line 7, in wait
    raise RuntimeError(
RuntimeError: the engine did not start
"""
    failure = drafted(f"It fails:\n\n```{frames}```\n").case.expect.failure
    assert failure.frames == ("serve.py:opened", "wait.py:wait")
    assert failure.exception == "RuntimeError"


def test_frames_are_of_the_reporter_or_of_what_the_report_is_about() -> None:
    places = "/v/lib/python3.11/site-packages"
    trace = f"""Traceback (most recent call last):
  File "feed.py", line 3, in <module>
    wobble_kit.feed(1)
  File "{places}/wobble_kit/feeding.py", line 5, in feed
    return np.polyval(one, 2)
  File "{places}/numpy/lib/polynomial.py", line 9, in polyval
    y = y * x + pv
ValueError: operands could not be broadcast together
"""
    report = f"# wobble-kit: feed fails\n\nwobble-kit 1.2.0, numpy 1.26.4\n\n```\n{trace}```\n"
    assert drafted(report).case.expect.failure.frames == ("feeding.py:feed",)
    report = report.replace("wobble-kit: feed", "numpy: polyval of wobble-kit")
    assert (
        "polynomial.py:polyval" in drafted(report, "https://github.com/numpy/numpy/issues/7").case.expect.failure.frames
    )


def test_an_error_of_cmake_in_the_log_of_an_image_build() -> None:
    lines = (
        "-- Checking",
        "CMake Error at cmake/a.cmake:20 (message):",
        "  GCC-12 or higher is required",
        "Call Stack",
    )
    for stamp in ("", "245.5       ", "#12 245.55 "):
        text = f"And then run `./build.sh --all`:\n\n```\n{''.join(f'{stamp}{line}' + chr(10) for line in lines)}```\n"
        assert drafted(text).case.expect.failure.output == "GCC-12 or higher is required"


def test_a_failure_that_the_title_names_too_counts_once() -> None:
    error = "RuntimeError: CUDA error: no such call"
    made = draft(f"# 推理出错{error}\n\n```\n$ python a.py\n{error}\n```\n")
    assert not any("other failure" in sentence for sentence in made.missing)
    assert made.data["resources"]["gpus"] == "1"


def test_a_command_of_windows_in_a_shell_of_linux() -> None:
    text = """
# It dies\u202e\x07 early

```
PS C:\\Users\\Li Wei\\proj> python .\\src\\a.py --in=data\\x.csv --out C:\\data\\y.csv
KeyError: 'x'
```
"""
    made = draft(text)
    assert made.data["command"] == "python ./src/a.py --in=data/x.csv --out C:\\data\\y.csv"
    assert made.data["title"] == "It dies early"
    assert "The command uses paths of the reporter's machine: C:\\data\\y.csv." in made.missing


def test_many_environments_are_listed_in_few_lines() -> None:
    text = CONSOLE + "".join(
        f"\n## Host {n}\n\n```\nOS: Debian 12\nPython: 3.11\nscipy: 1.{n}.0\n```\n" for n in range(220)
    )
    made = draft(text)
    assert any("the draft has the first 64 of them" in sentence for sentence in made.missing)
    assert len(max(made.notes[("matrix",)], key=len)) < 1000


def test_headings_of_forms_are_not_titles() -> None:
    failure = "```\nKeyError: 'x'\n```\n"
    for text in (f"### Describe the bug\n\n{failure}", f"### 问题描述\n\n{failure}", f"### A\n\n{failure}\n### B\n"):
        assert cut(text).title == ""
    assert cut(f"Hello\n\n### It dies\n\n{failure}").title == ""
    assert cut(f"## It dies\n\n{failure}\n### Environment\n\nx\n").title == "It dies"


def test_a_long_report_is_described_by_the_text_around_its_failure() -> None:
    section = "## Part {}\n\nSomething about part {}, which is described in a few words of no interest.\n\n"
    before, after = ("".join(section.format(n, n) for n in range(first, first + 15)) for first in (0, 20))
    about = "## The crash\n\nIt goes down when the second file is opened.\n\n```\nKeyError: 'x'\n```\n\n"
    text = before + about + after
    description = drafted(text).case.description
    assert description.startswith("...\n\nIt goes down when the second file is opened.\n\nSomething about part 20")
    assert description.endswith("\n\n...\n")
    assert len(description) < 900
    assert drafted(about + "[the documentation of it](https://e.example/a)\n").case.description == (
        "It goes down when the second file is opened.\n"
    )


def test_a_secret_in_a_command_is_not_a_redirection() -> None:
    made = draft("```\n$ python get.py --password hunter2x\nKeyError: 'x'\n```\n")
    assert made.data["command"] == "python get.py --password REDACTED_SECRET"
    assert any("secret or personal" in sentence for sentence in made.missing)


def test_a_draft_is_written_of_anything_and_says_what_to_write() -> None:
    environment = "Python: 3.11.3 (main)\nNVCC: Build cuda_12.0.r12.0\nPaddlePaddle: 2.6.2\ncudnn: 8.9\nGCC: 12\n"
    for text in (
        "After the update the window stays grey for a while.\n",
        "打开以后什么也没有，请帮忙看看\n",
        environment,
    ):
        case = drafted(text)
        assert [loc for loc, _ in placeholders.find(case.case)] == [("command",), ("expect", "failure", "output")]
        ending = Ending(exit_code=127)
        log = f"{case.case.command}\n{case.case.expect.failure.output}"
        assert judge(case.case.expect.failure, ending, log).outcome is not Outcome.REPRODUCED
    with pytest.raises(UsageError, match=r"mail\.txt: nothing in it that a case can be made of"):
        draft("Hello!\n", source="mail.txt")


def test_of_a_long_log_the_ends_are_drafted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MOST", 1000)
    made = draft("$ python a.py\n" + "x = 1\n" * 2000 + "KeyError: 'x'\n")
    assert made.data["command"] == "python a.py"
    assert made.data["expect"]["failure"]["exception"] == "KeyError"
    assert any("of its lines, from line" in sentence for sentence in made.missing)


PIECES = st.sampled_from(
    [
        "```",
        "```python",
        "~~~",
        "### Steps",
        "**Error**",
        "<!--",
        "-->",
        "<details>",
        "- item",
        "",
        "\t",
        "Traceback (most recent call last):",
        '  File "/a/b.py", line 3, in f',
        "    x()",
        "ValueError: bad 3",
        "$ python a.py --x 1 \\",
        "export A=b",
        "set A=",
        ">>> import numpy",
        "... x",
        "In [1]: y",
        "cd ..",
        "├── data",
        "│   └── train",
        "data/",
        "  train/",
        "Python: 3.11",
        "CUDA: 12.1",
        "gcc 9",
        "numpy==1.2",
        "a.c:1:2: error: no",
        "Segmentation fault",
        "exit code 139",
        "key: {{ value }}",
        "{% raw %}",
        "e.g. [x]",
        "git clone https://github.com/o/r",
        "`a`",
        "pip install a b==1 -f http://x",
        "import os; os.x()",
        "\x00",
        "\r",
        "Python 3.9 (main)",
        "OS: Ubuntu 20.04",
        "torch: 2.1.0+cu118",
        "1. `mkdir b && cd b && cmake ..`",
        "> $ make {{ x }}",
        "C:\\x> python .\\a.py",
        "段错误 (核心已转储)",
        "the loss is nan, it hangs, and is 10x slower than {%",
        "It works with numpy 1.26 and fails with numpy 2.0",
        "## Q1: KeyError: 'x'",
        "ERROR: Could not find a version that satisfies the requirement {{ a }} (from versions: 1)",
        "```js",
        "Actual:",
        "docker run x:1 python a.py {{",
        "FLAGS_a=1",
        "# `x` raises TypeError: bad `y`",
    ]
).flatmap(lambda piece: st.sampled_from((piece + "\n", piece)))


TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=30).map("".join)


@settings(max_examples=examples(150), deadline=None)
@given(TEXTS)
def test_each_line_is_in_one_piece_at_most(text: str) -> None:
    last = 0
    for piece in cut(text).pieces:
        assert piece.line > last
        last = piece.last
    assert last <= len(cut(text).lines)


@settings(max_examples=examples(150), deadline=None)
@given(TEXTS)
@example("pip install a b==1 -f http://x{% raw %}\nValueError: bad 3\n")
@example("pip install a b==1 -f 'http://x\"'\nValueError: bad 3\n")
def test_any_text_makes_a_valid_draft_or_a_clear_refusal(text: str) -> None:
    try:
        made = draft(text)
    except UsageError:
        return
    load_text("draft.yaml", render(made))


@pytest.mark.parametrize(
    "unit", ["*", "-", "#", "=", "|    ", "| ", " ", "1.", "- ", "**", "a/", "pip", "![", "(", "A:"]
)
def test_long_rulers_and_empty_tables_are_read_at_once(unit: str) -> None:
    """A pattern with two ways to read the same characters would never come back from this."""
    line = unit * (3000 // len(unit))
    assert draft(f"{line}\nValueError: {line}!\n{line}x\n").data["expect"]["failure"]["exception"] == "ValueError"


def test_an_exception_that_does_not_end_the_program_is_drafted_with_the_exit_status_that_follows() -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "/app/go.py", line 3, in work\n    f()\nValueError: no item left\n'
    )
    for above, code in (("Exception in thread Thread-1 (work):\n", 0), ("starting\n", None)):
        made = drafted(f"`python go.py` prints\n\n```\n{above}{traceback}```\n")
        assert (made.case.expect.failure.exception, made.case.expect.failure.exit_code) == ("ValueError", code)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("1. `mkdir build && cd build && cmake ..`\n2. `make`\n", "mkdir build && cd build && cmake ..\nmake\n"),
        (
            "- mkdir build\n- cd build\n- cmake -DX=1 ..\n- make -j4\n",
            "mkdir build\ncd build\ncmake -DX=1 ..\nmake -j4\n",
        ),
        ("> $ cd tool\n> $ ./run.sh --all\n", "cd tool\n./run.sh --all\n"),
        (
            "First:\n\n```\ncmake -B out\n```\n\nthen:\n\n```\ncmake --build out\n```\n",
            "cmake -B out\ncmake --build out\n",
        ),
        (
            "```\n% uv pip install -r requirements.txt\nerror: no such thing as this\n```\n",
            "uv pip install -r requirements.txt",
        ),
        ("```\nme:proj me$ make check\n```\n", "make check"),
        ("```\n!python a.py --x\n```\n", "python a.py --x"),
        ("```\nnumpy 1.26.4\nmake 4.3\nninja 1.11.1 pypi_0 pypi\n```\nIt breaks, see there.\n", placeholders.COMMAND),
        ("cc @some-person, who knows this\n", placeholders.COMMAND),
    ],
)
def test_sequences_of_commands_stay_whole(text: str, command: str) -> None:
    assert drafted(f"# It breaks\n\n{text}").case.command == command


def test_the_tree_that_a_report_clones_is_a_source_and_what_the_image_has_stays_visible() -> None:
    text = """
```bash
git clone https://git.example/o/wibble.git
cd wibble
git checkout v1.2
pip install numpy==1.26.4
mkdir build && cd build
cmake .. && make -j4
```

```
src/a.cpp:3:4: error: 'uint8_t' was not declared in this scope
```
"""
    case = drafted(text).case
    assert (case.sources["wibble"].git, case.sources["wibble"].ref) == ("https://git.example/o/wibble", "v1.2")
    assert case.environment.pip == ("numpy==1.26.4",)
    assert case.command == (
        "# sources: git clone https://git.example/o/wibble.git\ncd wibble\n# sources: git checkout v1.2\n"
        "# the image has: pip install numpy==1.26.4\nmkdir build && cd build\ncmake .. && make -j4\n"
    )


@pytest.mark.parametrize(("info", "name"), [("js", "repro.js"), ("cpp", "repro.cpp"), ("rust", "repro.rs")])
def test_programs_of_other_languages_are_carried(info: str, name: str) -> None:
    case = drafted(f"Segfault:\n\n```{info}\nint main() {{}} fn main() {{}}\n```\n").case
    assert list(case.files) == [name]
    assert name in case.command


def test_a_part_of_a_program_is_carried_and_said_to_be_one() -> None:
    made = draft("It hangs:\n\n```python\nmodel.fit(x,\n    ...\nfor\n```\n")
    assert made.data["files"]["repro.py"].startswith("model.fit(x")
    assert "repro.py is a part of a program: complete it." in made.missing
    assert made.data["expect"]["failure"] == {"timed_out": "true"}


@pytest.mark.system
@pytest.mark.parametrize(
    "unit",
    [
        "## Q1: it hangs\n\nsegfault\n\n",
        "The loss is nan `pip install x` and it hangs.\n",
        "- KeyError: 'x'\n",
        "export A=b\n",
    ],
)
def test_long_reports_are_read_in_the_time_of_their_length(unit: str) -> None:
    with within(seconds=30):
        assert draft(unit * (150_000 // len(unit))).data["expect"]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            '```\nTraceback (most recent call last):\n  File "tools/fit.py", line 3, in <module>\n    f()\nKeyError\n',
            "python tools/fit.py",
        ),
        (
            "Exact command to reproduce: python fit.py --x\n\nI installed it with\n\n```\n$ python get.py --all\n```",
            "python fit.py --x",
        ),
        ("```\nC:\\> py fit.py\nKeyError: 1\n```", "python fit.py"),
        (
            "Run it:\n\n```\n$ pip install wobble\n```\n\n```python\nimport wobble\nwobble.go()\n```\n\nKeyError: 1",
            "# the image has: pip install wobble\npython repro.py",
        ),
    ],
)
def test_the_command_that_fails(text: str, command: str) -> None:
    assert str(draft(f"# It dies\n\n{text}\n").data["command"]).strip() == command


def test_an_installation_is_named_where_no_command_is() -> None:
    failed = 'Traceback (most recent call last):\n  File "/a/b.py", line 1, in f\n    g()\nKeyError: 1'
    made = draft(f"# It is slow\n\n```\n$ pip install wobble==1.2.3\n```\n\n```\n{failed}\n```\n").data
    assert str(made["command"]).startswith("# the image has: pip install wobble==1.2.3\n")


COMPILED = """```
a.cc:1:2: error: redundant move in wobble
Traceback (most recent call last):
  File "b.py", line 1, in f
    run()
subprocess.CalledProcessError: Command 'cmake' failed
```
"""


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (
            "```python\nimport wobble\nwobble.go()\n# WobbleError: it is not round\n```",
            {"exception": "WobbleError", "message": "it is not round"},
        ),
        ("```\nwob.error: the wheel is gone\n```", {"exception": "wob.error", "message": "the wheel is gone"}),
        ("Process finished with exit code -1073741819 (0xC0000005)", {"signal": "SIGSEGV"}),
        (
            COMPILED,
            {"output": "redundant move in wobble"},
        ),
    ],
)
def test_the_failure_that_a_report_shows(text: str, failure: dict[str, str]) -> None:
    assert draft(f"# It dies\n\n{text}\n").data["expect"]["failure"] == failure


def test_a_program_with_its_output() -> None:
    traceback = '  File "x.py", line 3, in <module>\n    f()\nKeyError: 1\n'
    text = f"```\nimport wobble\nwobble.go()\n\n>>> \nTraceback (most recent call last):\n{traceback}```\n"
    (program,) = draft(f"# It dies\n\n{text}").data["files"].values()
    assert str(program).startswith("import wobble\nwobble.go()\n")


@pytest.mark.parametrize(
    ("text", "os"),
    [
        ("Python: 3.9.7", "debian-11"),
        ("Python: 3.10.2", "ubuntu-22.04"),
        ("Python: 3.11.4", "debian-12"),
        ("OS: Ubuntu\nPython: 3.12", "ubuntu-24.04"),
    ],
)
def test_the_release_is_one_that_packages_the_python(text: str, os: str) -> None:
    assert draft(f"# It dies\n\n{text}\nnumpy: 1.26.4\n\nKeyError: 1\n").data["matrix"]["os"] == [os]


@pytest.mark.parametrize(
    ("command", "apt"),
    [("gcc a.c", ["build-essential"]), ("cmake . && make -j4", ["build-essential", "cmake"]), ("python a.py", None)],
)
def test_what_the_command_builds_with_is_installed(command: str, apt: list[str] | None) -> None:
    made = draft(f"# It dies\n\n```\n$ {command}\nerror: it is broken\n```\n").data
    assert made.get("environment", {}).get("apt") == apt


def test_a_report_without_a_title_is_named_after_the_sentence_that_tells_its_failure() -> None:
    text = "I use numpy 2.0.0 here.\nCalling np.in1d on an empty list hangs forever. I do not know why\n"
    assert draft(text).data["title"] == "Calling np.in1d on an empty list hangs forever"


def test_a_library_whose_absence_is_the_failure_is_not_installed() -> None:
    text = "- opencv-python: 4.5.5\n- OS: Ubuntu 20.04\n\n`python -c 'import cv2'`\n\n\n```\nImportError: {}\n```\n"
    missing = draft(text.format("libGL.so.1: cannot open shared object file: No such file or directory"))
    assert "apt" not in missing.data["environment"]
    assert "libgl1" in draft(text.format("numpy is too old")).data["environment"]["apt"]


def test_memory_that_grows_is_measured_by_iterations() -> None:
    made = draft("# Memory leak in wobble\n\nMemory grows without bound when I call f in a loop with numpy 2.0.0.\n")
    assert made.data["expect"] == {"leaks": {"per_iteration": "1MiB"}}
    assert any("reprokit: iteration N" in text for text in made.missing)


def test_the_index_that_a_dockerfile_names_is_that_of_the_case() -> None:
    install = "pip install --extra-index-url https://wheels.example.org/simple boomlib==1.9.0"
    made = drafted(
        f"```dockerfile\nFROM python:3.11\nRUN {install}\nRUN {install}\n```\n\n"
        '```\n$ python -c "import boomlib"\nRuntimeError: boom is here\n```\n'
    )
    assert list(made.case.environment.pip_options) == ["--extra-index-url https://wheels.example.org/simple"]


BODY = "Python 3.11.2\n\n```\n$ python a.py\nValueError: no third wobble\n```\n"


def test_an_issue_that_was_exported_has_its_title_and_its_address() -> None:
    assert draft(f"---\ntitle: 'It fails'\nlabels: [bug]\n---\n\n{BODY}").data["title"] == "It fails"
    exported = "title:\tIt fails\nstate:\tOPEN\nurl:\thttps://github.com/lab/feeder/issues/17\n--\n"
    assert draft(exported + BODY).data["report"]["url"] == "https://github.com/lab/feeder/issues/17"
