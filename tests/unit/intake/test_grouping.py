"""What a report says of each of its environments: where it fails, and where it does not."""

from __future__ import annotations

import pytest

from reprokit.environment.cases import load_text
from reprokit.intake import environments, grouping
from reprokit.intake.draft import render
from reprokit.intake.drafting import draft

BLOCK = "```\nOS: Debian GNU/Linux 12\nPython: 3.11.2\nscipy: {}\n```\n"
REPORT = """\
# Fitting dies

```
$ python fit.py
Traceback (most recent call last):
  File "fit.py", line 3, in fit
    go()
ValueError: bad shape
```

"""


def fails(words: str) -> bool | None:
    text = f"{words}\n\n{BLOCK.format('1.2.0')}"
    (one,) = grouping.statements(text.split("\n"), environments.together(environments.find(text)))
    return one.fails if one else None


@pytest.mark.parametrize(
    "words", ["It crashes here:", "Does not work on:", "**Broken since**", "报错的环境：", "在这台机器上无法正常运行"]
)
def test_phrases_that_say_it_fails(words: str) -> None:
    assert fails(words) is True


@pytest.mark.parametrize(
    "words",
    [
        "Works on my laptop:",
        "It does not fail with",
        "No error here:",
        "I could not reproduce it on",
        "正常的环境",
        "不报错",
        "没有问题的机器：",
        "runs fine",
        "复现失败",
    ],
)
def test_phrases_that_say_it_works(words: str) -> None:
    assert fails(words) is False


@pytest.mark.parametrize(
    "words", ["My environment:", "Does it work on this?", "Works on the old one, fails on the new one:", "环境：", ""]
)
def test_phrases_that_do_not_decide(words: str) -> None:
    assert fails(words) is None


def test_two_environments_become_cells_with_the_reports_statements() -> None:
    new, old = BLOCK.format("1.12.0"), BLOCK.format("1.11.4")
    text = f"{REPORT}It works with\n\n{old}\nand it fails with\n\n{new}"
    made = draft(text)
    case = load_text("draft.yaml", render(made)).case
    assert case.matrix.axes == {"os": ("debian-12",), "python": ("3.11",), "scipy": ("1.11.4", "1.12.0")}
    assert case.environment.pip == ("scipy=={{ scipy }}",)
    assert case.expect.reproduces == "unknown"  # a report is not a run
    assert made.notes[("expect",)] == ("as the report says, reproduces: [{scipy: '1.12.0'}]; not confirmed by a run",)
    assert "line 11 about the environment in line 14: It works with" in made.notes[("matrix",)]


def test_a_statement_about_one_environment_says_nothing_about_the_others() -> None:
    made = draft(f"{REPORT}It works with\n\n{BLOCK.format('1.11.4')}\nthe other one:\n\n{BLOCK.format('1.12.0')}")
    assert ("expect",) not in made.notes
    assert any("It works with" in note for note in made.notes[("matrix",)])


def test_an_environment_that_works_is_not_the_failing_one() -> None:
    text = f"fails with\n\n{BLOCK.format('1.12.0')}\nworks with\n\n{BLOCK.format('1.11.4')}\n{REPORT}"
    groups = environments.together(environments.find(text))
    found = grouping.statements(text.split("\n"), groups)
    assert [one and one.fails for one in found] == [True, False]
    assert grouping.failing(groups, None, found) == 0
    assert grouping.failing(groups, None, [None, None]) == 0
    assert grouping.failing(groups, None, [found[1], None]) == 1
