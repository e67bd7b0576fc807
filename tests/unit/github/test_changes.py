"""Changes as issues: opened, updated, closed, and nothing twice; and which store of earlier nights is taken."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reprokit.core.github_api import Repository
from reprokit.github import changes, night
from reprokit.github.changes import Action, CaseIssue, carry_out, ours, parse, plan
from reprokit.report.differences import Difference
from reprokit.report.history.changes import DescribedChange, RunMoment, SeenCell
from reprokit.report.history.transitions import State
from reprokit.report.markdown.text import size
from tests.unit.github.server import BOT, TOKEN, Forge
from tests.unit.limits import examples

HOSTILE = "`|<b>@everyone #1 ${{ secrets.X }} -->\n## no"
R, N, O = "reproducing", "not-reproducing", "other-failure"  # noqa: E741


def change(
    old: str | None, new: str, at: int, *, case: str = "numpy-alias", n: str = "1", **values: Any
) -> DescribedChange:
    """A change, counted in the night of that day."""
    settled = RunMoment(run=f"r{at}", at=f"2026-01-{at:02d}T02:00:00.000Z")
    record = SeenCell.pick(settled, number=1, verdict=None, reason=HOSTILE, failure=None, case_digest="")
    one = DescribedChange(
        case=case,
        cell={"os": "debian-12", "n": n},
        variant="case",
        engine="docker",
        from_=State(old) if old else None,
        to=State(new),
        words=f"{old} -> {new}",
        confirmed=True,
        before=record,
        after=record,
        confirmed_by=settled,
        seen=2,
        earlier=(0, 30),
        since=(6, 6),
        chance=1e-5,
        changed=(Difference(concern="frameworks", name="numpy", before="1.26.4", after=HOSTILE),),
    )
    return replace(one, **values)


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge().served() as forge:
        yield forge


def tonight(forge: Forge, *found: DescribedChange, most: int = changes.MOST) -> list[str]:
    """A night's issues; and again, which must change nothing."""
    repository = Repository(forge.name, TOKEN, url=forge.url)
    here = changes.NightLinks(url="https://example.org/run", report="https://example.org/report")
    done = list(carry_out(repository, plan(found, list(ours(repository)), here, most)))
    assert plan(found, list(ours(repository)), here, most) == []
    return done


def test_an_issue_is_opened_updated_and_closed_as_verdicts_change(forge: Forge) -> None:
    first = change(R, N, 2)
    assert tonight(forge, first) == ["opened #1: numpy-alias: reproducing, now not reproducing in 1 cell"]
    assert forge.names(1) == [changes.LABEL]
    assert tonight(forge, first) == []
    second = change(R, O, 3, n="2")
    assert tonight(forge, first, second) == ["updated #1: numpy-alias: changed in 2 cells"]
    assert tonight(forge, first, second, change(N, R, 4)) == [
        "updated #1: numpy-alias: reproducing, now other failure in 1 cell"
    ]
    done = tonight(forge, second, change(N, R, 4), change(O, R, 5, n="2"))
    assert done == ["closed #1: numpy-alias: as before"]
    assert forge.issues[1]["state"] == "closed"
    assert "Every cell is as it was before" in forge.bodies(1)[-1]
    assert len(forge.bodies(1)) == 3
    # The window of the following night still shows the last change: it is in the closed issue, and no news.
    assert tonight(forge, change(N, R, 4), change(O, R, 5, n="2")) == []
    assert tonight(forge, change(R, N, 6)) == ["opened #2: numpy-alias: reproducing, now not reproducing in 1 cell"]


def test_unconfirmed_changes_and_new_cells_open_no_issue(forge: Forge) -> None:
    tentative = change(R, N, 2, confirmed=False, confirmed_by=None)
    assert (
        tonight(
            forge,
            tentative,
            change(None, R, 2),
            change(N, R, 2, case="went-and-came"),
            change(R, N, 3, case="went-and-came"),
        )
        == []
    )


def test_a_change_of_rate_is_an_issue_until_the_rate_is_as_before(forge: Forge) -> None:
    more = change(R, R, 2, words="reproducing -> more often", earlier=(6, 30), since=(30, 30))
    assert tonight(forge, more) == ["opened #1: numpy-alias: reproducing, now reproducing more often in 1 cell"]
    gone = change(R, N, 3)
    assert tonight(forge, more, gone) == ["updated #1: numpy-alias: reproducing, now not reproducing in 1 cell"]
    assert tonight(forge, gone, change(N, R, 4)) == ["closed #1: numpy-alias: as before"]
    tonight(forge, change(R, R, 5, words="reproducing -> less often"))
    assert tonight(forge, replace(more, confirmed_by=change(R, R, 6).confirmed_by))[0].startswith("closed #2")


def test_an_issue_that_a_person_closed_is_settled(forge: Forge) -> None:
    tonight(forge, change(R, N, 2))
    forge.issues[1]["state"] = "closed"
    assert tonight(forge, change(R, N, 2)) == []
    assert tonight(forge, change(N, R, 3)) == ["opened #2: numpy-alias: not reproducing, now reproducing in 1 cell"]


def test_many_cases_at_once_are_one_issue(forge: Forge) -> None:
    found = [change(R, N, 2, case=f"case-{number}") for number in range(12)]
    assert tonight(forge, change(R, N, 1, case="case-0")) == [
        "opened #1: case-0: reproducing, now not reproducing in 1 cell"
    ]
    assert tonight(forge, *found[1:]) == ["opened #2: Nightly runs: 11 cases changed"]
    assert tonight(forge, change(R, O, 3, case="case-3", n="9")) == ["updated #2: Nightly runs: 11 cases changed"]
    assert tonight(forge, *(change(R, N, 3, case=f"late-{number}") for number in range(2))) == [
        "opened #3: late-0: reproducing, now not reproducing in 1 cell",
        "opened #4: late-1: reproducing, now not reproducing in 1 cell",
    ]
    back = [change(N, R, 4, case=f"case-{number}") for number in range(1, 12)]
    assert tonight(forge, *back) == ["updated #2: Nightly runs: 1 case changed"]
    assert tonight(forge, change(O, R, 5, case="case-3", n="9")) == ["closed #2: Nightly runs: 0 cases changed"]


def test_texts_of_logs_and_cells_stay_text(forge: Forge) -> None:
    tonight(forge, change(R, N, 2, n=HOSTILE))
    tonight(forge, change(N, O, 3, n=HOSTILE))
    reader = MarkdownIt("commonmark").enable("table")
    for text in (forge.issues[1]["body"].partition("\n")[2], *forge.bodies(1)):
        tokens = reader.parse(text)
        assert "heading_open" not in {token.type for token in tokens}
        pieces = [piece for token in tokens for piece in token.children or ()]
        assert {piece.content for piece in pieces if piece.type == "html_inline"} <= {"<code>", "</code>"}
        inside = False
        for piece in pieces:
            inside = piece.content == "<code>" if piece.type == "html_inline" else inside
            assert inside or piece.type == "code_inline" or "@" not in piece.content
    first = forge.issues[1]["body"].partition("\n")[0]
    assert first.count("-->") == 1
    assert first.endswith("-->")
    assert not set("<>@#") & set(first.removeprefix("<!--").removesuffix("-->"))


def test_an_issue_that_another_user_wrote_is_not_ours(forge: Forge) -> None:
    body = changes.mark(CaseIssue(number=0, open=True, cases={"numpy-alias": changes.Followed(upto="9999")}))
    forge.open_issue("mine", body, "stranger", (changes.LABEL,))
    forge.open_issue("broken", f"<!-- {changes.MARK} {{}} -->", BOT, (changes.LABEL,))
    assert tonight(forge, change(R, N, 2)) == ["opened #3: numpy-alias: reproducing, now not reproducing in 1 cell"]
    assert forge.issues[1]["body"] == body


@pytest.mark.system
def test_a_case_of_thousands_of_cells_fits_an_issue(forge: Forge) -> None:
    found = [change(R, N, 2, n="x" * 180 + str(number)) for number in range(3000)]
    assert tonight(forge, *found) == ["opened #1: numpy-alias: reproducing, now not reproducing in at least 400 cells"]
    assert size(forge.issues[1]["body"]) < 65_536
    assert "and at least 340 more cells" in forge.issues[1]["body"]
    back = [change(N, R, 3, n="x" * 180 + str(number)) for number in range(3000)]
    assert tonight(forge, *back) == ["closed #1: numpy-alias: as before"]
    assert len(forge.bodies(1)[0]) < 65_536
    # The other cells are not followed: the text must not claim that they are as before.
    for text in (forge.bodies(1)[0], forge.issues[1]["body"]):
        assert "Every cell that was followed is as it was before; others were too many to follow" in text


@pytest.mark.system
@pytest.mark.parametrize(("cases", "cells"), [(12, 60), (40, 40), (12, 400), (250, 1)])
def test_a_night_in_which_everything_changes_fits_issues(forge: Forge, cases: int, cells: int) -> None:
    """For example after a new base image. GitHub refuses longer texts, every night again."""
    found = [
        change(R, N, 2, case=f"a-case-with-a-long-name-{name}", n=f"{number} {'x' * 60}")
        for name in range(cases)
        for number in range(cells)
    ]
    done = tonight(forge, *found)
    assert [line.partition(": ")[2] for line in done] == [
        f"Nightly runs: {min(100, cases - start)} cases changed" for start in range(0, cases, 100)
    ]
    assert all(size(issue["body"]) < 65_536 for issue in forge.issues.values())
    later = change(N, R, 3)
    back = [replace(later, case=one.case, cell=one.cell) for one in found]
    done = tonight(forge, *back)
    assert {line.split(" ")[0] for line in done} == {"closed"}


states = st.sampled_from([R, N, O])


@settings(max_examples=examples(60))
@given(st.lists(st.lists(states, min_size=2, max_size=2), min_size=1, max_size=6), st.integers(1, 3))
def test_an_issue_is_open_exactly_while_a_cell_differs_from_before(
    nights: Sequence[Sequence[str]], window: int
) -> None:
    issues: list[CaseIssue] = []
    now = [R, R]
    settled = [R, R]
    history: list[DescribedChange] = []
    for day, seen in enumerate(nights, 2):
        history += [
            change(old, new, day, n=str(at)) for at, (old, new) in enumerate(zip(now, seen, strict=True)) if old != new
        ]
        now = list(seen)
        recent = [one for one in history if int(one.after.at[8:10]) > day - window]
        for action in plan(recent, issues):
            issues = _done(issues, action)
        assert plan(recent, issues) == []
        assert any(issue.open for issue in issues) == (now != settled)
        if now == settled:
            assert not any(issue.open for issue in issues)


def _done(issues: list[CaseIssue], action: Action) -> list[CaseIssue]:
    number = action.number or len(issues) + 1
    found = parse(number, action.body, is_open=action.kind != "close")
    assert found is not None
    return [*(one for one in issues if one.number != number), found]


def artifact(number: int, day: int, **values: Any) -> dict[str, Any]:
    run = {
        "id": 100 + number,
        "head_branch": "main",
        "repository_id": 5,
        "head_repository_id": 5,
        **values.pop("run", {}),
    }
    given = {"id": number, "name": night.ARTIFACT, "expired": False, "created_at": f"2026-01-{day:02d}T02:00:00Z"}
    return {**given, "workflow_run": run, **values}


def test_the_newest_store_of_this_repository_is_taken() -> None:
    found = night._newest(
        [
            artifact(1, 3),
            artifact(2, 4),
            artifact(3, 9, expired=True),
            artifact(4, 9, name="other"),
            artifact(5, 9, run={"head_repository_id": 6}),
            artifact(6, 9, run={"head_branch": "try"}),
            artifact(7, 9, workflow_run=None),
        ],
        "main",
    )
    assert found is not None
    assert found["workflow_run"]["id"] == 102
    assert night._newest([], "main") is None


def test_artifacts_of_other_users_do_not_hide_the_store(
    forge: Forge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pull requests can leave more artifacts of that name than one page of the list has."""
    forge.artifacts = [artifact(number, 9, run={"head_repository_id": 6}) for number in range(2, 250)]
    forge.artifacts.append(artifact(1, 3))
    for name, value in forge.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    monkeypatch.setattr("sys.argv", ["night", "history"])
    assert night.run() == 0
    assert "run=101" in capsys.readouterr().out


def test_a_change_that_was_seen_once_is_listed_as_such() -> None:
    text = night.list_changes([change(R, N, 2, confirmed=False), change(None, R, 2)])
    assert "does not count yet" in text
    assert night.list_changes([change(None, R, 2)]) == "Nothing has changed; 1 new cell.\n"


def test_a_file_without_changes_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.json").write_text(json.dumps([]))
    for name, value in (("REPOSITORY", "o/r"), ("TOKEN", TOKEN)):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.setattr("sys.argv", ["night", "issues", str(tmp_path / "x.json")])
    assert night.run() == 2
    assert "::error::" in capsys.readouterr().out
