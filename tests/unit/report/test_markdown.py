"""The Markdown of issues and job summaries, as GitHub's own renderer (cmark-gfm) reads it."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import unicodedata
from collections.abc import Sequence
from html.parser import HTMLParser

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.files import digest_of
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails, FailureRecord
from reprokit.evidence.model import Verdict
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.formats import csv as table_csv
from reprokit.report.formats.md import run_summary
from reprokit.report.markdown import sections as parts
from reprokit.report.markdown import text as md

CASE = "schema: reprokit/v1\nid: hostile\ntitle: A case\nmatrix: {a: ['1', '2']}\ncommand: 'false'\n"
NASTY = [
    "@everyone", "#1", "o/r#12", "GH-3", "https://evil.example/x", "www.evil.example", "mailto:a@b.example",
    "_x_www.evil.example", "_GH-3",
    "<script>alert(1)</script>", "<!--", "-->", "</details>", "<img src=x>", "![x](http://evil.example)",
    "[x](javascript:alert(1))", "|", "\\|", "\\", "`", "``", "```", "````\n", "~~~", "\n", "\n\n# head\n",
    "* item", "1. item", "- item", "| a |\n|---|\n", "***", "_x_", "~~x~~", "$x$", "&lt;", "&#64;everyone", ":tada:",
    "\x1b[31mred\x1b[0m", "\x1b]8;;http://evil.example\x07x\x1b]8;;\x07", "\u202eabc", "\u200b", "\ufeff", "\r\n", "\t",
    "schema: reprokit/v1", "```yaml\nschema: reprokit/v1\nid: evil\n```", "=HYPERLINK(1)", "日本語", "🚀", "a b",
]  # fmt: skip
hostile = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=5)), max_size=8).map("".join)


class Page(HTMLParser):
    """What a page shows: ``tags``, ``links``, and the text outside of code (``plain``), in code, and of all."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.plain, self.coded, self.all = "", "", ""
        self._within = 0
        html = cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE)
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self._within += tag in ("code", "pre")

    def handle_endtag(self, tag: str) -> None:
        self._within -= tag in ("code", "pre")

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data: str) -> None:
        self.all += data
        if self._within:
            self.coded += data
        else:
            self.plain += data


OURS = {
    "h2", "h3", "p", "strong", "code", "pre", "ul", "li", "table", "thead", "tbody", "tr", "th", "td",
    "details", "summary",
}  # fmt: skip
LINKS = re.compile(r"@\w|#\d|GH-\d|\w://|www\.|mailto:\w|:[\w+-]+:", re.IGNORECASE)


def is_harmless(page: Page, *links: str) -> None:
    assert set(page.tags) <= OURS | {"a" for _ in links}
    assert page.links == [*links]
    assert not LINKS.search(page.plain)
    assert not [c for c in page.all if unicodedata.category(c) in {"Cc", "Cf", "Cs"} and c not in "\n\t\u200b"]


def shown(text: str) -> str:
    return " ".join(text.replace("\u200b", "").split())


@given(hostile)
def test_prose_shows_a_text_and_does_nothing_else(text: str) -> None:
    page = Page(f"before\n\n{md.prose(text, 10_000)}\n\nafter\n")
    is_harmless(page)
    assert set(page.tags) <= {"p"}
    assert shown(page.all) == shown(f"before {md.line(text)} after")


@given(hostile)
def test_code_shows_a_text_and_does_nothing_else(text: str) -> None:
    page = Page(f"before {md.code(text, 10_000)} after\n")
    is_harmless(page)
    assert set(page.tags) <= {"p", "code"}
    assert shown(page.coded) == shown(md.line(text))


@given(hostile, hostile)
def test_a_table_has_its_rows_and_columns_whatever_is_in_it(one: str, other: str) -> None:
    cells = [md.code(one, 10_000, table=True), md.code(other, 10_000, table=True)]
    page = Page(md.table(["a", "b"], [cells, cells]))
    is_harmless(page)
    assert (page.tags.count("tr"), page.tags.count("td")) == (3, 4)
    assert shown(page.coded) == shown(f"{md.line(one)}{md.line(other)}" * 2)


@given(hostile)
def test_a_fence_ends_where_it_ends(text: str) -> None:
    page = Page(f"{md.block(text.splitlines())}\nafter\n")
    is_harmless(page)
    assert page.tags == ["pre", "code", "p"]
    assert page.plain.strip() == "after"


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.text(max_size=40), min_size=1, max_size=3)), max_size=6))
def test_what_fits_fits_and_what_is_worth_least_goes_first(given_sections: list[tuple[int, list[str]]]) -> None:
    sections = [
        md.Section(name=str(number), worth=worth, forms=tuple(sorted(forms, key=md.size, reverse=True)))
        for number, (worth, forms) in enumerate(given_sections)
    ]
    limit = 60
    found, cut = md.fit(sections, limit)
    least = sum(md.size(section.forms[-1]) + 2 for section in sections)
    assert sum(md.size(text) + 2 for text in found) <= max(limit, least)
    kept = [section for section in sections if section.name not in cut]
    left = [section for section in sections if found[int(section.name)] != section.forms[-1] and section.name in cut]
    assert len(left) <= 1  # one is cut in part, and all that are worth less wholly
    assert all(one.worth >= other.worth for one in kept if len(one.forms) > 1 for other in left)


def cell(number: int, verdict: Verdict | None, values: dict[str, str], **more: object) -> CellRecord:
    plain = CellRecord(
        number=number,
        case_id="hostile",
        case_path="/home/somebody/case.yaml",
        case_digest=digest_of(CASE),
        cell=values,
        verdict=verdict,
        expected=None,
        reason="why",
    )
    return dataclasses.replace(plain, **more)  # type: ignore[arg-type]


def failed(way: str, title: str) -> CellDetails:
    return CellDetails(failure=FailureRecord(version="1", id=way, kind="AError", title=title))


def run_of(cells: Sequence[CellRecord], **more: object) -> RunRecord:
    plain = RunRecord(
        id="20260101-1",
        started_at="2026-01-01T02:00:00.000Z",
        version="1",
        host=HostRecord(engine="Docker Engine 20.10.24", engine_kind="docker", kernel="6.1"),
        cells=tuple(cells),
    )
    return dataclasses.replace(plain, **more)  # type: ignore[arg-type]


def test_two_axes_are_rows_and_columns_and_more_are_a_list() -> None:
    cells = [
        cell(n, Verdict.REPRODUCED if n == 2 else Verdict.NOT_REPRODUCED, {"os": "d", "x": str(n % 3), "y": str(n % 2)})
        for n in range(6)
    ]
    assert parts.tables(cells).splitlines()[0] == "| `x` ↓ `y` → | `0` | `1` |"
    assert "**reproduced** | not-reproduced" in parts.tables(cells)
    three = [dataclasses.replace(one, cell={**one.cell, "z": str(one.number)}) for one in cells]
    assert parts.tables(three).splitlines()[0] == "| # | `x` | `y` | `z` | verdict | why |"
    with_fix = parts.tables([*cells, dataclasses.replace(cells[2], variant="fix", verdict=Verdict.NOT_REPRODUCED)])
    assert "With the fix:" in with_fix
    departs = cell(1, Verdict.REPRODUCED, {"x": "1"}, expected=Verdict.NOT_REPRODUCED)
    assert "**reproduced** (expected not-reproduced)" in parts.tables([departs])


def test_the_nearest_cell_differs_least() -> None:
    bad = cell(1, Verdict.REPRODUCED, {"a": "1", "b": "1"})
    far = cell(2, Verdict.NOT_REPRODUCED, {"a": "2", "b": "2"}, environment=Measured())
    near = cell(3, Verdict.NOT_REPRODUCED, {"a": "2", "b": "1"}, environment=Measured())
    fix = cell(4, Verdict.NOT_REPRODUCED, {"a": "1", "b": "1"}, variant="fix", environment=Measured())
    assert parts.find_nearest(bad, [bad, far, near, fix]) == near
    assert parts.find_nearest(bad, [bad, fix]) == fix
    assert parts.find_nearest(bad, [bad]) is None


@pytest.mark.system
def test_a_summary_of_many_cases_fits_a_job_and_keeps_what_departs() -> None:
    cells = []
    for number in range(3000):
        departs = number == 1500
        cells.append(
            cell(number, Verdict.REPRODUCED, {"a": "日" * 50}, case_id=f"case-{number}", case_digest=f"sha256:{number}",
                 expected=Verdict.NOT_REPRODUCED if departs else Verdict.REPRODUCED, reason="@x " * 100)
        )  # fmt: skip
    text = run_summary(run_of(cells), limit=200_000)
    assert len(text.encode()) <= 200_000
    assert text.splitlines()[6].startswith("| `case-1500` | the only cell | **reproduced** (expected not-reproduced) |")
    assert "shortened or left out" in text
    is_harmless(Page(text))


def test_a_failed_build_of_hundreds_of_cells_is_one_row_of_a_summary() -> None:
    cells = [cell(number, Verdict.BUILD_FAILED, {"a": str(number)}, reason="no torch 9") for number in range(500)]
    table = run_summary(run_of(cells)).partition("<details>")[0]
    [row] = [line for line in table.splitlines() if "build-failed |" in line]
    assert "`a=0` and 499 more |" in row


@given(hostile)
def test_a_summary_is_one_table_of_what_departs_and_each_case_folded(words: str) -> None:
    cells = [
        cell(1, Verdict.NOT_REPRODUCED, {"a": words}, expected=Verdict.NOT_REPRODUCED, case_id=words),
        cell(2, Verdict.BUILD_FAILED, {"a": "2"}, expected=Verdict.REPRODUCED, case_id=words, reason=words),
        cell(
            3, Verdict.REPRODUCED, {"a": "3"}, expected=Verdict.NOT_REPRODUCED, case_id="x", details=failed("x", words)
        ),
    ]
    text = run_summary(run_of(cells))
    page = Page(text)
    is_harmless(page)
    table, *folded = text.split("<details>")
    verdicts_shown = [line.split(" | ")[-2].strip("* ") for line in table.splitlines() if line.startswith("|")]
    assert verdicts_shown[2:] == [
        "reproduced** (expected not-reproduced)",
        "build-failed",
        "1 not-reproduced; all as expected",
    ]
    assert len(folded) == page.tags.count("summary") == 2


def test_csv_has_a_line_for_each_cell_and_no_formula() -> None:
    cells = [
        cell(
            1,
            Verdict.REPRODUCED,
            {"=1+1": "-O2"},
            reason='=HYPERLINK("http://evil.example")\n@x',
            environment=Measured(python="3.11"),
        ),
        cell(2, None, {"y": "+1"}, seconds=1.5),
    ]
    text = table_csv.csv(run_of(cells))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert len(rows) == 3
    first, second = (dict(zip(rows[0], row, strict=True)) for row in rows[1:])
    assert first["axis =1+1"] == "'-O2"
    assert first["reason"] == '\'=HYPERLINK("http://evil.example") @x'
    assert (first["verdict"], first["measured python"]) == ("reproduced", "3.11")
    assert (second["verdict"], second["axis y"], second["seconds"]) == ("cancelled", "'+1", "1.500")


@given(hostile)
def test_no_text_is_a_formula(text: str) -> None:
    assert not table_csv.plain(text).startswith(("=", "+", "-", "@", "\t", "\r", "\n", " "))
    assert table_csv.plain(text).isprintable()
