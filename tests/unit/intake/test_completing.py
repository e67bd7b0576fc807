"""A draft of a report at the terminal: what was read, what is asked for, and what the answers become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reprokit.case import placeholders
from reprokit.environment.cases import load_text
from reprokit.environment.measured import Measured
from reprokit.intake import draft as drafts
from reprokit.intake import interview
from reprokit.intake.drafting import draft
from tests.unit.intake.reports import FORM

TRACEBACK = """\
Traceback (most recent call last):
  File "/home/anna/train.py", line 9, in main
    step()
ValueError: bad shape here
"""
HERE = Measured(os="debian-12", python="3.11.9", gcc="12.2.0", cuda="12.4")
VAGUE = "# Training fails\n\nIt fails since yesterday, on every machine that I tried it on.\n"


class Person:
    """Answers each question by a word in it; fails at one that it does not know."""

    def __init__(self, pasted: str = "", **answers: str) -> None:
        self.known, self.pasted, self.asked = answers, pasted, list[str]()

    def show(self, lines: Sequence[str]) -> None:
        pass

    def line(self, question: str, default: str, check: Callable[[str], str]) -> str:
        word = next((word for word in self.known if word in question), None)
        if word is None:
            pytest.fail(f"asked: {question}")
        self.asked.append(word)
        return check(self.known[word] or default)

    def lines(self, question: str) -> str:
        self.asked.append("pasted")
        return self.pasted


def complete(text: str, person: Person, folder: Path = Path()) -> drafts.Draft:
    made = draft(text)
    answers = interview.ask(person, interview.known_answers(made), lambda: HERE)
    done = interview.complete_draft(made, answers, folder, {})
    assert load_text("x.yaml", drafts.render(done)).case.command == done.data["command"]
    return done


def test_nothing_is_asked_where_the_report_says_all() -> None:
    person = Person()
    report = f"# It dies\n\nUbuntu 22.04, Python 3.10\n\n```console\n$ python3 train.py\n{TRACEBACK}```\n"
    assert complete(report, person) == draft(report)
    assert not person.asked


def test_all_is_asked_where_the_report_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('{{ x }}')\n")
    person = Person(TRACEBACK, command="python train.py", packages="numpy==1.26.4", os="", python="3.10")
    made = complete(VAGUE, person, tmp_path)
    assert person.asked == ["command", "pasted", "packages", "os", "python"]
    assert made.data["matrix"] == {"os": ["debian-12"], "python": ["3.10"]}
    assert made.data["environment"] == {"pip": ["numpy==1.26.4"]}
    assert made.data["expect"]["failure"]["exception"] == "ValueError"
    assert list(made.data["files"]) == ["train.py"]
    case = load_text("x.yaml", drafts.render(made)).case
    assert not list(placeholders.find(case))
    # The sentences that say what is missing are gone with it.
    assert [text for text in made.missing if "no command" in text or "no failure" in text or "no environ" in text] == []
    assert [text for text in draft(VAGUE).missing if "no command" in text or "no failure" in text]
    assert "anna" not in drafts.render(made)


def test_an_exit_status_is_asked_for_where_nothing_is_pasted() -> None:
    person = Person(command="./a.out", packages="", os="-", python="-", status="139")
    made = complete(VAGUE, person)
    assert made.data["expect"]["failure"] == {"exit_code": "139"}
    assert "matrix" not in made.data
    assert any("describes no environment" in text for text in made.missing)


def test_a_missing_axis_is_asked_for_where_the_failure_mentions_it() -> None:
    report = f"# It dies\n\nUbuntu 22.04, Python 3.10\n\n```console\n$ python3 train.py\n{TRACEBACK}```\n"
    report = report.replace("ValueError: bad shape here", "RuntimeError: CUDA error: an illegal memory access")
    person = Person(cuda="11.8")
    made = complete(report, person)
    assert person.asked == ["cuda"]
    assert made.data["matrix"] == {"os": ["ubuntu-22.04"], "python": ["3.10"], "cuda": ["11.8"]}


def test_an_answer_that_no_image_can_have_is_missing() -> None:
    person = Person(TRACEBACK, command="gcc a.c && ./a.out", packages="", os="", python="-", gcc="3")
    assert any(text.startswith("an image for it: gcc 3 is not available") for text in complete(VAGUE, person).missing)


def test_combinations_that_the_report_lists_are_left_alone() -> None:
    made = drafts.Draft(
        data={"id": "a", "title": "b", "command": "python x.py", "matrix": {"include": [{"os": "debian-12"}]},
              "expect": {"failure": {"exception": "ValueError"}}},
    )  # fmt: skip
    answers = interview.ask(Person(), interview.known_answers(made), lambda: HERE)
    assert interview.complete_draft(made, answers, Path(), {}) == made


@pytest.mark.parametrize("text", [VAGUE, FORM])
def test_a_secret_in_an_answer_is_left_out(text: str) -> None:
    made = draft(VAGUE)
    known = interview.known_answers(made)
    known.command, known.failure, known.exit_code = "python x.py --token=hf_" + "a1B2" * 9, "", "1"
    done = interview.complete_draft(made, known, Path(), {})
    assert "a1B2" not in drafts.render(done)
    assert any(one.where == "the command" for one in done.omitted)


def test_what_the_user_says_decides_between_candidates() -> None:
    report = "# It dies\n\nUbuntu 22.04, Python 3.10\n\n```\n$ ./a.sh\n```\n\n```\n$ ./b.sh\n```\n"
    assert any("several things that run" in text for text in draft(report).missing)
    made = complete(report, Person(TRACEBACK, command="./b.sh"))
    assert made.data["command"] == "./b.sh"
    assert not [text for text in made.missing if "several" in text or "no failure" in text]
