"""Documents with many troubles: they are listed, and each can be drafted."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.core.redaction import scrub
from reprokit.environment.cases import load
from reprokit.intake import drafting, troubles
from reprokit.intake.drafting import draft
from reprokit.intake.pieces import cut
from tests.unit.intake.reports import CONSOLE, FORM, TWO_MACHINES

HEADINGS = """\
# Common problems

Read this before you ask.

## It cannot find the module

```
ModuleNotFoundError: No module named 'wibble._core'
```

Build it again.

## Out of range

`python a.py --n 3`

```
IndexError: list index out of range
```

## Segfault when it is imported

Use an older compiler.
"""
ITEMS = """\
- KeyError: 'the registry has no wib'

  It was not imported.

- undefined symbol: wibble_go

  Built for another release.

- RuntimeError: not compiled with GPU support

  See above.
"""
CHINESE = """\
问题1：编译报错

```
CMake Error at a.cmake:2 (message):
  Wibble is not found
```

问题2：运行时段错误

无法复现。

问题3：导入失败

```
ImportError: libwib.so: cannot open shared object file
```
"""


@pytest.mark.parametrize(("text", "lines"), [(HEADINGS, [5, 13, 21]), (ITEMS, [1, 5, 9]), (CHINESE, [1, 8, 12])])
def test_troubles_are_found_in_headings_items_and_numbers(text: str, lines: list[int]) -> None:
    found, sections = troubles.find(cut(text))
    assert sections
    assert [one.line for one in found] == lines


@pytest.mark.parametrize("text", [FORM, CONSOLE, TWO_MACHINES])
def test_a_report_of_one_bug_is_one(text: str) -> None:
    found, sections = troubles.find(cut(text))
    assert not sections
    assert len(found) == 1
    assert not draft(text).troubles


def test_each_trouble_is_drafted_with_its_own_lines() -> None:
    first, second, third = (draft(HEADINGS, failure=number) for number in (1, 2, 3))
    assert first.data == draft(HEADINGS).data
    assert first.data["expect"]["failure"]["exception"] == "ModuleNotFoundError"
    assert (second.data["title"], second.data["command"]) == ("Out of range", "python a.py --n 3")
    assert second.notes[("command",)] == ("line 15",)
    assert third.data["expect"]["failure"] == {"signal": "SIGSEGV"}
    assert any("describes 3 problems; this draft is about that in line 5" in sentence for sentence in first.missing)
    with pytest.raises(UsageError, match=r"no failure 4; it shows 3 failures:\n  1 \(line 5\): It cannot find"):
        draft(HEADINGS, failure=4)


def test_another_failure_of_a_report_can_be_drafted() -> None:
    text = "```\nKeyError: 'a'\n```\n\nand\n\n```\nIndexError: list index out of range\n```\n"
    assert draft(text).data["expect"]["failure"]["exception"] == "KeyError"
    assert draft(text, failure=2).data["expect"]["failure"]["exception"] == "IndexError"


def test_new_lists_the_troubles_and_drafts_one_or_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("faq.md").write_text(HEADINGS, encoding="utf-8")
    assert invoke(["new", "--from", "faq.md", "-o", "one.yaml"]) == 0
    assert (
        "shows 3 failures; --failure N drafts another, --all each:\n  1 (line 5): It cannot" in capsys.readouterr().err
    )
    assert invoke(["new", "--from", "faq.md", "--failure", "2", "-o", "two.yaml"]) == 0
    assert load("two.yaml")[0].case.expect.failure.exception == "IndexError"
    assert invoke(["new", "--from", "faq.md", "--all", "-o", "all"]) == 0
    assert len(list(Path("all").glob("*.yaml"))) == 3
    assert invoke(["validate", "all"]) == 0
    for options, words in (
        (["--failure", "x.log"], "the number of a failure of the report"),
        (["--all"], "a folder with -o"),
        (["--all", "-o", "all"], "exists already"),
        (["-o", "all"], "is a folder"),
    ):
        assert invoke(["new", "--from", "faq.md", *options]) == 2
        assert words in capsys.readouterr().err


def test_drafts_of_each_trouble_have_names_of_their_own_and_are_written_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    titles = {
        "It breaks here 3": "KeyError: 'a'",
        "It breaks here": "IndexError: out",
        "It breaks here.": "OSError: no",
    }
    sections = (f"## {title}\n\n```\n{failure}\n```\n" for title, failure in titles.items())
    Path("faq.md").write_text("\n".join(sections), encoding="utf-8")
    assert invoke(["new", "--from", "faq.md", "--all", "-o", "all"]) == 0
    found = {one.stem: load(str(one))[0].case for one in Path("all").iterdir()}
    assert sorted(found) == ["it-breaks-here", "it-breaks-here-3", "it-breaks-here-4"]
    assert all(case.id == stem for stem, case in found.items())
    Path("all/it-breaks-here-3.yaml").unlink()
    assert invoke(["new", "--from", "faq.md", "--all", "-o", "all"]) == 2
    assert "it-breaks-here.yaml exists already" in capsys.readouterr().err
    assert not Path("all/it-breaks-here-3.yaml").exists()


def test_a_report_is_read_once_for_the_drafts_of_its_troubles(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    monkeypatch.setattr(drafting, "scrub", lambda text: texts.append(text) or scrub(text))
    text = HEADINGS + "\nThis is read once.\n"
    for number in (1, 2, 3):
        draft(text, failure=number)
    assert len(texts) == 1
