"""The dialogue of ``reprokit new``: at a real terminal, by options, and where there is none."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from reprokit.case.axes import version_syntax
from reprokit.cli import invoke, options
from reprokit.cli.new_command import command as new
from reprokit.environment.axes import AXES, AXIS_NAMES, BY_NAME
from reprokit.environment.cases import load_text
from reprokit.environment.measured import Measured
from reprokit.intake import draft, interview
from tests.terminals import ProgramUser

TRACEBACK = """\
Traceback (most recent call last):
  File "/home/anna/app/train.py", line 9, in <module>
    main()
ValueError: bad shape (3, 4)
"""
HERE = Measured(os="debian-12", python="3.11.9", gcc="12.2.0", cuda="12.4")


class Person:
    """Answers in turn; '' takes the default."""

    def __init__(self, *answers: str, pasted: str = "") -> None:
        self.answers, self.pasted, self.asked, self.shown = list(answers), pasted, list[str](), list[str]()

    def line(self, question: str, default: str, check: Callable[[str], str]) -> str:
        self.asked.append(question)
        return check(self.answers.pop(0) or default)

    def lines(self, question: str) -> str:
        return self.pasted

    def show(self, lines: Sequence[str]) -> None:
        self.shown += lines


def case_of(answers: interview.Answers, folder: Path) -> tuple[interview.Answers, draft.Draft]:
    made = interview.draft_answers(answers, folder, {})
    load_text("x.yaml", draft.render(made))
    return answers, made


def test_answers_become_a_case(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('{{ x }}')\n")
    person = Person("It breaks", "python train.py", "numpy==1.26.4 'pandas<2'", "", "3.10, 3.11", pasted=TRACEBACK)
    _, made = case_of(interview.ask(person, interview.Answers(), lambda: HERE), tmp_path)
    assert made.data["matrix"] == {"os": ["debian-12"], "python": ["3.10", "3.11"]}
    assert made.data["environment"] == {"pip": ["numpy==1.26.4", "pandas<2"]}
    assert made.data["expect"]["failure"]["exception"] == "ValueError"
    assert list(made.data["files"]) == ["train.py"]
    assert "anna" not in draft.render(made)
    assert "line" not in draft.render(made).split("expect:")[1]


def test_known_answers_are_not_asked_for(tmp_path: Path) -> None:
    known = interview.Answers(
        title="x", command="make", axes=dict.fromkeys(AXIS_NAMES, ()), pip=(), failure="", exit_code="2"
    )
    person = Person()
    _, made = case_of(interview.ask(person, known, lambda: pytest.fail("nothing to measure")), tmp_path)
    assert made.data["expect"]["failure"] == {"exit_code": "2"}
    assert not made.missing
    assert "matrix" not in made.data


def test_lines_of_the_report_are_shown_and_may_be_the_answer(tmp_path: Path) -> None:
    report = ["# It breaks", "", "I start train.py with python 3.10.", "x" * 9000, "", *TRACEBACK.splitlines(), "bye"]
    known = interview.Answers(title="x", pip=(), axes=dict.fromkeys(AXIS_NAMES, ()))
    person = Person("python train.py", pasted="6-9")
    answers = interview.ask(person, known, lambda: HERE, report=report)
    assert answers.failure == TRACEBACK.rstrip()
    assert any(line.startswith("    3  I start train.py") for line in person.shown)
    assert any(line.startswith("    9  ValueError") for line in person.shown)
    assert not any("bye" in line for line in person.shown[:3])
    assert max(map(len, person.shown)) < 120
    _, made = case_of(answers, tmp_path)
    assert made.data["expect"]["failure"]["exception"] == "ValueError"


def test_a_file_that_does_not_exist_is_missing(tmp_path: Path) -> None:
    known = interview.Answers(
        title="x", command="python gone.py", axes=dict.fromkeys(AXIS_NAMES, ()), pip=(), failure="", exit_code="2"
    )
    assert "gone.py" in interview.draft_answers(known, tmp_path, {}).missing[0]


@pytest.mark.parametrize(
    ("command", "pasted", "pip", "asked"),
    [
        ("python x.py", "", "", {"os": "debian-12", "python": "3.11"}),
        ("gcc a.c", "", "", {"os": "debian-12", "python": "3.11", "gcc": "12"}),
        ("nvcc a.cu", "", "", {"os": "debian-12", "python": "3.11", "gcc": "12", "cuda": "12.4"}),
        ("python x.py", "CUDA error: illegal access", "", {"os": "debian-12", "python": "3.11", "cuda": "12.4"}),
        ("python x.py", "", "torch==2.1.0+cu121", {"os": "debian-12", "python": "3.11", "cuda": "12.4"}),
        ("cmake -B b", "", "", {"os": "debian-12", "python": "3.11", "gcc": "12", "cmake": "3.25"}),
    ],
)
def test_axes_are_asked_for_that_may_matter_with_this_machines_values(
    command: str, pasted: str, pip: str, asked: dict[str, str]
) -> None:
    person = Person("x", command, *([] if pasted else [""]), pip, *[""] * len(asked), pasted=pasted)
    here = dataclasses.replace(HERE, further={"cmake": "3.25.1"})
    answers = interview.ask(person, interview.Answers(), lambda: here)
    assert {axis: ",".join(values) for axis, values in answers.axes.items()} == asked
    assert not person.answers


def test_an_axis_that_is_new_is_asked_for_and_is_an_option() -> None:
    mojo = dataclasses.replace(
        BY_NAME["clang"],
        syntax=version_syntax("mojo", since="0.2.0", help="Mojo versions."),
        wording=dataclasses.replace(BY_NAME["clang"].wording, mentioned=re.compile(r"\bmojo\b")),
    )
    axes = (*AXES, mojo)
    known = interview.Answers(title="x", axes={"os": (), "python": ()}, pip=(), failure="", exit_code="1")
    person = Person("mojo run x.mojo", "24.5, 25.1")
    made = interview.draft_answers(
        interview.ask(person, known, lambda: Measured(further={"mojo": "24.5.2"}), axes), Path(), {}
    )
    assert "mojo (" in person.asked[-1]
    assert made.data["matrix"] == {"mojo": ["24.5", "25.1"]}
    assert interview.default(mojo, {"mojo": "24.5.2"}) == "24"
    with pytest.raises(ValueError, match="a version"):
        interview.check_axis(mojo, "nightly")
    function = options.axis_options("The axis {axis.name}.", axes)(lambda **given: given["mojo"])
    assert click.command()(function).main(["--mojo", "1"], standalone_mode=False) == "1"


def test_every_axis_is_an_option_of_new(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["new", "--help"]) == 0
    said = capsys.readouterr().out
    assert [name for name in AXIS_NAMES if f"--{name} A,B" not in said] == []


def test_an_unknown_system_is_not_a_default() -> None:
    assert interview.default(BY_NAME["os"], {"os": "arch-1"}) == ""
    assert interview.default(BY_NAME["os"], {"os": "debian-12"}) == "debian-12"


@pytest.mark.parametrize(
    ("axis", "text", "message"),
    [
        ("os", "debain-12", "did you mean 'debian-12'"),
        ("python", "latest", "a version"),
        ("gcc", "12 or 13", "a version"),
        ("python", "3.99", "there is no Python 3.99"),
    ],
)
def test_invalid_values_are_refused(axis: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        interview.check_axis(BY_NAME[axis], text)


def run(*words: str) -> Result:
    return CliRunner().invoke(new, list(words), standalone_mode=False)


def test_options_alone_need_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text(TRACEBACK)
    words = [
        "--title",
        "It breaks",
        "--command",
        "python -c 'raise SystemExit(1)'",
        "--python",
        "3.11",
        "--failure",
        "log",
    ]
    done = run(*words, "--os", "debian-12", "--gcc", "-", "--cuda", "-", "--pip", "six==1.16.0")
    assert done.exception is None
    case = load_text("x.yaml", (tmp_path / "it-breaks.yaml").read_text()).case
    assert case.matrix.axes == {"os": ("debian-12",), "python": ("3.11",)}
    assert case.environment.pip == ("six==1.16.0",)
    assert "it-breaks.yaml" in done.stderr


def test_without_a_terminal_it_names_the_alternatives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = str(run().exception)
    assert "no terminal" in error
    assert "--from" in error
    assert "reprokit new" in error
    assert "--python x: expected a version" in str(run("--title", "a", "--command", "b", "--python", "x").exception)
    assert "with --from" in str(run("--from", "x.md", "--title", "a").exception)
    assert not list(tmp_path.iterdir())


def test_without_standard_input_it_names_them_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as `<&-` does
    assert invoke(["new"]) == 2
    assert "no terminal" in capsys.readouterr().err


@pytest.mark.system
def test_at_a_real_terminal(tmp_path: Path) -> None:
    user = ProgramUser("new", folder=tmp_path)
    user.answers("in one line?", "Shapes do not fit")
    user.answers("Which command", "python train.py")
    user.answers("Paste the traceback", TRACEBACK + ".")
    user.answers("Python packages", "")
    user.answers("os (", "windows")
    user.answers("not an operating system", "debian-12")
    user.answers("python (", "3.11")
    user.answers("Build and run it here?", "n")
    assert user.ends()[0] == 0
    case = load_text("x.yaml", (tmp_path / "shapes-do-not-fit.yaml").read_text()).case
    assert case.expect.failure.exception == "ValueError"
    assert case.matrix.axes == {"os": ("debian-12",), "python": ("3.11",)}


@pytest.mark.system
def test_a_report_at_a_real_terminal_is_shown_and_completed(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text(f"# Shapes do not fit\n\nPython 3.11, numpy 1.26.4\n\n```\n{TRACEBACK}```\n")
    (tmp_path / "train.py").write_text("raise ValueError\n")
    user = ProgramUser("new", "--from", "report.md", folder=tmp_path)
    shown = user.answers("Which command fails?", "python3 train.py")
    assert re.search(r"# lines 6 to 9\s+exception: ValueError", shown)
    assert re.search(r"# from line 3 .*\s+matrix:", shown)
    # As the text of someone else, it runs only after what it asks for was seen.
    asked = user.answers("Build and run it here? [y/N]", "")
    assert "runs in each: python3 train.py" in asked
    assert user.ends()[0] == 0
    assert not (tmp_path / ".reprokit").exists()
    case = load_text("x.yaml", (tmp_path / "shapes-do-not-fit.yaml").read_text()).case
    assert case.command == "python3 train.py"
    assert list(case.files) == ["train.py"]


@pytest.mark.system
def test_no_input_asks_nothing_at_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text(f"# Shapes do not fit\n\n```\n{TRACEBACK}```\n")
    status, shown = ProgramUser("new", "--no-input", "--from", "report.md", folder=tmp_path).ends()
    assert status == 0
    assert "schema: reprokit/v1" in shown
    assert "not known" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


@pytest.mark.system
def test_a_cancelled_dialogue_writes_nothing(tmp_path: Path) -> None:
    user = ProgramUser("new", folder=tmp_path)
    user.answers("in one line?", "Shapes do not fit")
    user.sees(b"Which command")
    user.types(b"\x04")
    assert user.ends()[0] == 130
    assert not list(tmp_path.iterdir())
