"""The Markdown of issues, as GitHub's own renderer (cmark-gfm) reads it."""

from __future__ import annotations

import dataclasses
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given

from reprokit.case.files import digest_of
from reprokit.case.markdown import blocks
from reprokit.environment.cases import load
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails, FailedBuildRecord
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.intake import share as sharing
from reprokit.intake.share import Shared, Subject
from reprokit.report.markdown import sections as verdicts
from reprokit.report.markdown import text as md
from tests.unit.report.test_markdown import CASE, Page, cell, failed, hostile, is_harmless, run_of


def shared(
    cells: Sequence[CellRecord], folder: Path, *, case: str = CASE, title: str = "A title", **more: object
) -> Shared:
    subject = Subject(run=run_of(cells), title=title, text=case, digest=digest_of(case))
    return sharing.share(subject, folder, texts=lambda digest: case, **more)  # type: ignore[arg-type]


def failing(number: int, values: dict[str, str], folder: Path, log: str, lines: tuple[int, ...] = (1,)) -> CellRecord:
    (folder / "runs").mkdir(exist_ok=True)
    (folder / "runs" / "trial.log").write_text(log, encoding="utf-8")
    trial = TrialRecord(
        number=1, outcome=Outcome.REPRODUCED, exit_code=1, seconds=1, oom=False, timed_out=False, reason="r",
        log="runs/trial.log", lines=lines,
    )  # fmt: skip
    return cell(number, Verdict.REPRODUCED, values, trials=(trial,))


@given(hostile)
def test_a_reporters_words_are_nothing_but_words_anywhere(words: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bad = failing(1, {"a": words, "b": "1"}, Path(folder), f"{words}\nschema: reprokit/v1\nid: evil\n")
        bad = dataclasses.replace(bad, reason=words, details=failed("x", words))
        good = cell(2, Verdict.NOT_REPRODUCED, {"a": "fine", "b": "2"}, reason=words)
        result = shared([bad, good], Path(folder), title=words)
    assert [block.text for block in blocks(result.text)] == [CASE]
    head, _, case = result.text.rpartition("<details><summary>The case, ")
    is_harmless(Page(head), sharing.PROJECT)
    assert Page(result.text).tags.count("details") == Page(result.text).tags.count("summary")
    assert digest_of(blocks(case)[0].text) == digest_of(CASE)


@pytest.mark.parametrize(
    "case",
    [
        CASE,
        CASE.rstrip("\n"),
        CASE.replace("\n", "\r\n"),
        CASE + "description: |\n  ```yaml\n  schema: reprokit/v1\n  ```\n  </details> ````` <!--\n",
        CASE + "description: '日本語 🚀 \\t'\n\n\n",
    ],
)
def test_what_is_shared_is_read_back_as_the_very_case(case: str, tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    file.write_bytes(case.encode())
    [before] = load(str(file))
    text = shared([cell(1, Verdict.REPRODUCED, {"a": "1"})], tmp_path, case=before.text).text
    for pasted in (text, text.replace("\n", "\r\n")):
        [after] = load("-", stdin=io.StringIO(pasted, newline=""))
        assert after.digest == before.digest
        assert after.case == before.case


def matrix_of(count: int, values: str = "v") -> list[CellRecord]:
    return [
        cell(
            number,
            Verdict.REPRODUCED if number % 7 == 0 else Verdict.NOT_REPRODUCED,
            {"x": f"{values}{number // 100}", "y": f"{values}{number % 100}"},
            reason=f"{values * 20} {number}",
        )
        for number in range(count)
    ]


@pytest.mark.system
@pytest.mark.parametrize("letter", ["🚀", "|", "`"])
def test_thousands_of_cells_fit_an_issue_with_the_case_whole(letter: str, tmp_path: Path) -> None:
    cells = matrix_of(3_000, letter)
    cells[7] = failing(7, cells[7].cell, tmp_path, f"{letter * 500}\n" * 1000, tuple(range(1, 1000)))  # type: ignore[arg-type]
    filled = CASE + "description: |\n" + f"  {letter * 70}\n" * 300
    result = shared(cells, tmp_path, case=filled)
    assert len(result.text) <= sharing.ISSUE_LIMIT
    assert md.size(result.text) <= sharing.ISSUE_LIMIT
    assert result.whole
    assert blocks(result.text)[0].text == filled
    assert "verdict | cells" in result.text


def test_the_case_itself_goes_last_and_that_is_said(tmp_path: Path) -> None:
    cells = [failing(1, {"a": "1"}, tmp_path, "boom\n" * 200), cell(2, Verdict.NOT_REPRODUCED, {"a": "2"})]
    tight = CASE + "description: |\n" + "  words words words words words words words words\n" * 1245
    result = shared(cells, tmp_path, case=tight)
    assert md.size(result.text) <= sharing.ISSUE_LIMIT
    assert result.whole
    assert result.cut
    assert f"left out: {', '.join(result.cut)}" in result.text
    huge = shared(cells, tmp_path, case=tight * 2)
    assert md.size(huge.text) <= sharing.ISSUE_LIMIT
    assert not huge.whole
    assert not blocks(huge.text)
    assert "attach its file" in huge.text
    assert digest_of(tight * 2) in huge.text


def test_a_log_is_called_the_failure_only_where_it_is(tmp_path: Path) -> None:
    for verdict, title in (
        (Verdict.REPRODUCED, "### The failure, in cell 1"),
        (Verdict.DIFFERENT_FAILURE, "### Another failure than the one that is looked for, in cell 1"),
        (Verdict.BUILD_FAILED, "### The build that failed, in cell 1"),
    ):
        details = failed("a" * 12, "AError")
        assert title in shared([cell(1, verdict, {"a": "1"}, details=details)], tmp_path).text


def test_that_a_signature_fits_several_ways_of_failing_is_said(tmp_path: Path) -> None:
    ways = [failed(letter * 12, f"{letter}Error") for letter in "ab"]
    cells = [cell(at, Verdict.REPRODUCED, {"a": str(at)}, details=way) for at, way in enumerate(ways, 1)]
    text = shared(cells, tmp_path).text
    assert "the signature fits 2 ways of failing" in text
    assert "**2 reproduced.**" in text  # the case expects nothing, so that nothing departs from it


def test_groups_say_what_all_of_them_have() -> None:
    found = verdicts.tables([*matrix_of(50), cell(50, Verdict.FLAKY, {"x": "v9", "y": "v9"})])
    assert "| **reproduced** | 8 | `x=v0` | `x=v0 y=v0`," in found
    assert "| **flaky** | 1 | `x=v9`, `y=v9` | `x=v9 y=v9` |" in found


def test_what_is_secret_is_taken_out_of_logs_reasons_and_environments(tmp_path: Path) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\nMIIdef\n-----END RSA PRIVATE KEY-----"
    bad = failing(1, {"a": "1"}, tmp_path, f"{key}\nhello s3cret\nfail\n", (6,))
    environment = Measured(os="debian-12", packages={"pip": {"x": "1 @ file:///s3cret"}, "apt": {}})
    bad = dataclasses.replace(bad, reason="s3cret", environment=environment, details=CellDetails(notes=("s3cret",)))
    good = cell(2, Verdict.NOT_REPRODUCED, {"a": "2"}, environment=Measured())
    result = shared([bad, good], tmp_path, scrub=lambda text: text.replace("s3cret", "<out>"))
    assert "s3cret" not in result.text
    assert "MII" not in result.text
    assert ">     6 fail" in result.text


def test_a_build_that_failed_is_reported_without_the_sites_own_indexes(tmp_path: Path) -> None:
    step = "RUN --mount=type=secret,id=pip_conf . /run/reprokit/site.sh && pip install six==99"
    tail = ["Looking in indexes: https://pip.corp.example/simple", "ERROR: No matching distribution found for six==99"]
    build = FailedBuildRecord(step=step, tail=tuple(tail))
    bad = cell(1, Verdict.BUILD_FAILED, {"a": "1"}, details=CellDetails(build=build))
    text = shared([bad, cell(2, Verdict.NOT_REPRODUCED, {"a": "2"})], tmp_path).text
    assert "`pip install six==99`" in text
    assert "ERROR: No matching" in text
    assert "corp.example" not in text
    assert "What it takes" not in text  # one cell is decided: nothing is claimed
