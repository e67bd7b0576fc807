"""What the pages of a case and of a cell are made of."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.core.redaction import scrub
from reprokit.environment.measured import Measured
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.evidence.text import LineNumbers
from reprokit.report.history.series import gather
from reprokit.report.html.building import PagesRequest, build
from reprokit.report.html.case import write_case
from reprokit.report.html.cell import (
    MOST_THREADS,
    Log,
    Packer,
    ShownStacks,
    describe_cell,
    excerpt,
    find_stacks,
    last_states,
    thin_log,
)
from reprokit.report.html.gathering import RecordedCase, known_cases
from reprokit.report.html.overview import VERDICTS, row
from reprokit.report.html.writing import Folder, clean_texts, script
from tests.unit.nights import CASE, Nights


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path / "store")


def known(nights: Nights) -> RecordedCase:
    """The one case of the store."""
    [one] = known_cases(nights.store)
    return one


def page(nights: Nights) -> dict[str, Any]:
    """The case's page."""
    return pages(known(nights))[0]


def pages(*cases: RecordedCase) -> list[dict[str, Any]]:
    """What is written of these cases."""
    written: dict[str, dict[str, Any]] = {}
    folder: Any = SimpleNamespace(data=written.__setitem__)
    for one in cases:
        write_case(folder, one, lambda run, number: True, [], None)
    return list(written.values())


def cell(nights: Nights, number: int, text: str = "", **changes: Any) -> dict[str, Any]:
    """The page of a cell of the last run, whose trials have that log."""
    import dataclasses

    run: RunRecord = nights.store.run("last")
    record: CellRecord = dataclasses.replace(run.cells[number - 1], **changes)
    return describe_cell(known(nights), run, record, lambda trial: Log(text=text, file="logs/x")).to_json()


def test_cells_are_columns_with_a_letter_for_each_night(nights: Nights) -> None:
    for state in "RRN?FO":
        nights.run({"1": "N", "2": state})
    data = page(nights)
    cells = data["cells"]
    assert [VERDICTS[at] for at in cells["verdict"]] == ["not-reproduced", "different-failure"]
    assert cells["strip"] == ["NNNNNN", "RRnBfx"]  # in lower case what is not expected
    assert cells["fits"] == [1, 0]
    assert data["axes"] == [
        {"name": "os", "values": ["debian-12"]},
        {"name": "numpy", "values": ["1", "2"]},
    ]
    assert len(data["nights"]) == 6
    assert data["runs"][0]["found"] == {"not-reproduced": 1, "reproduced": 1}


def test_a_cell_that_the_matrix_has_and_no_run_had_is_there_without_a_verdict(nights: Nights) -> None:
    case = CASE.replace('["1", "2"]', '["1", "2", "3"]')
    nights.run({"1": "N", "2": "R"}, case=case)
    cells = page(nights)["cells"]
    assert cells["verdict"][2] == -1
    assert cells["number"][2] == -1
    assert cells["at"]["numpy"] == [0, 1, 2]


def test_values_of_an_axis_stand_in_their_own_order(nights: Nights) -> None:
    case = CASE.replace('["1", "2"]', '["1.10.0", "1.9.0", "1.8.0"]').replace('{numpy: "2"}', "{numpy: 1.9.0}")
    nights.run({"1.10.0": "N", "1.9.0": "R", "1.8.0": "N"}, case=case)
    assert page(nights)["axes"][1]["values"] == ["1.8.0", "1.9.0", "1.10.0"]


def test_the_same_change_of_many_cells_is_reported_once(nights: Nights) -> None:
    for state in "RRNN":
        nights.run(dict.fromkeys("123", state))
    [change] = page(nights)["changes"]
    assert change["words"] == "reproducing -> gone"
    assert change["count"] == 3
    assert change["cells"] == ["numpy=1", "numpy=2", "numpy=3"]


def test_the_explanation_names_its_axes(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    explanation = page(nights)["explanation"]
    assert explanation["claim"] == "exact"
    assert explanation["words"] == "numpy = 2"
    assert explanation["axes"] == ["numpy"]


def test_each_cell_has_what_the_case_asked_for_in_it(nights: Nights) -> None:
    templated = CASE.replace("python go.py", "python go.py {{ numpy }}")
    nights.run(
        {"1": "N", "2": "R"}, case=f"{templated}env: {{A: '{{{{ numpy }}}}'}}\nfix: {{command: python fixed.py}}\n"
    )
    found = [cell(nights, 1), cell(nights, 2), cell(nights, 2, variant="fix")]
    asked = [(one["facts"]["command"]["command"], one["facts"]["environment variables"]) for one in found]
    assert asked == [("python go.py 1", {"A": "1"}), ("python go.py 2", {"A": "2"}), ("python fixed.py", {"A": "2"})]


def test_what_was_asked_for_stands_beside_what_was_measured(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    measured = Measured(os="ubuntu-22.04", packages={"pip": {"NumPy": "2.1"}, "apt": {}})
    rows = cell(nights, 2, environment=measured)["asked"]
    assert rows == [
        {
            "axis": "os",
            "asked": "debian-12",
            "measured": "ubuntu-22.04",
            "differs": "the cell asks for os debian-12, the image is ubuntu-22.04",
        },
        {"axis": "numpy", "asked": "2", "measured": "2.1", "differs": ""},
    ]


def test_packages_are_apart_from_the_few_facts(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    data = cell(nights, 2)
    assert data["packages"] == {"packages beneath the frameworks": {"numpy": "2"}}
    assert data["facts"]["command"] == {"command": "python go.py"}
    assert "packages beneath the frameworks" not in data["facts"]


def test_a_log_comes_with_its_colours_and_whole_while_it_is_small(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    data = cell(nights, 2, "\x1b[31mred\x1b[0m\n\x1b[2J\x1b]0;title\x07\nend\n")  # no more of a terminal's language
    assert data["log1"] == {"lines": 3, "parts": [[1, "\x1b[31mred\x1b[0m\n\nend"]], "cuts": []}
    assert excerpt("", set()).to_json() == {"lines": 0, "parts": [], "cuts": []}
    assert excerpt("a\n[reprokit: 9 bytes (4 lines) cut]\nf\n", set()).cuts == [(2, 3)]


def test_a_line_that_was_overwritten_comes_as_a_terminal_leaves_it() -> None:
    text = "10 %\r90 %\r100 %\x1b[K\r\x1b[K\nwindows\r\n\r\nValueError: no\rbar\n"
    assert last_states(text, {4}) == "100 %\x1b[K\nwindows\n\nValueError: no\rbar\n"  # what was judged stays


LINES = st.lists(st.text(st.characters(exclude_characters="\n\r\x1b\x00", exclude_categories=["Cs"]), max_size=40))


@given(lines=LINES, judged=st.sets(st.integers(1, 60)), most=st.sampled_from([0, 100, 100_000]))
def test_every_line_of_an_excerpt_is_that_line_of_the_log(lines: list[str], judged: set[int], most: int) -> None:
    text = "".join(f"{line}\n" for line in lines * 30)
    found = excerpt(text, judged, most)
    whole = lines * 30
    assert found.lines == len(whole)
    shown = {}
    for first, part in found.parts:
        shown |= dict(enumerate(part.split("\n"), first))
    assert all(whole[number - 1] == line for number, line in shown.items())
    assert judged & set(range(1, len(whole) + 1)) <= shown.keys()
    assert not whole or {1, len(whole)} <= shown.keys()


def test_a_line_of_a_long_log_is_cut_with_a_word_about_it() -> None:
    found = excerpt("x" * 1_000_000, set())
    [[_, line]] = found.parts
    assert len(line) < 100_000
    assert line.endswith("... 950000 more characters")


KEY = "-----BEGIN PRIVATE KEY-----\n" + "Ab1+Ab1+Ab1+Ab1+\n" * 30 + "-----END PRIVATE KEY-----"
LONG_LOG = [f"line {number} of /home/alice/run" for number in range(1, 40_001)]


def seen_of(text: str, judged: set[int]) -> tuple[dict[int, str], str, str, int]:
    """Lines of the page by number, the copied log, what is said of it, and how many characters were scrubbed."""
    sizes: list[int] = []

    def clean(one: str) -> str:
        sizes.append(len(one))
        return scrub(one).text

    found, shown, note, kept = thin_log(text, judged, clean)
    parts = excerpt(found, judged, kept=kept)
    assert parts.lines == len(text.rstrip("\n").split("\n"))
    lines = {at: line for first, part in parts.parts for at, line in enumerate(part.split("\n"), first)}
    return lines, shown, note, sum(sizes)


def test_of_a_long_log_only_what_is_shown_is_scrubbed() -> None:
    text = "\n".join(LONG_LOG) + "\n"
    lines, shown, note, scrubbed = seen_of(text, {20_000})
    assert scrubbed < len(text) // 3
    assert {1, 19_950, 20_000, 20_050, 40_000} <= lines.keys()
    assert all(line == f"line {number} of ~/run" for number, line in lines.items())
    assert "alice" not in shown
    head, rest = shown.split(f"\n[... {note} ...]\n")
    copied = [*head.split("\n"), *rest.rstrip("\n").split("\n")]
    assert set(copied) <= {f"line {number} of ~/run" for number in range(1, 40_001)}
    left = sum(len(line) + 1 for line in LONG_LOG) - sum(len(line) + len("/home/alice") for line in copied)
    assert note == f"{left:,} characters of {len(text):,} are left out in the middle"


def test_of_a_long_log_that_was_cut_lines_keep_the_numbers_of_the_whole_output() -> None:
    cut = "[reprokit: 9000 bytes (900 lines) cut]"
    text = "\n".join([*LONG_LOG[:15_000], cut, *LONG_LOG[15_000:30_000], cut, *LONG_LOG[30_000:]])
    found, _, _, kept = thin_log(text, {20_000}, str)
    assert excerpt(found, {20_000}, kept=kept).cuts == LineNumbers(text).cuts == [(15_001, 899), (30_002, 1798)]


def test_of_a_long_log_a_key_and_a_long_line_give_nothing_away() -> None:
    # A key that begins above what is shown, and a word that is longer than what is shown of its line.
    token = "ghp_" + "a1B2" * 9
    middle = [*LONG_LOG[:20_000], *KEY.split("\n"), "x" * 47_000 + " " + "y" * 2_100 + " " + token + "z" * 50_000]
    text = "\n".join([*middle, *LONG_LOG[20_000:]])
    lines, shown, _, _ = seen_of(text, {20_032 + 50, 20_033})
    everything = "\n".join([*lines.values(), shown])
    assert "Ab1+" not in everything
    assert "a1B2" not in everything
    assert lines[20_033].endswith(f" ... {len(token) + 50_000} more characters")
    assert lines[20_034] == "line 20001 of ~/run"
    [word, *_] = seen_of("x" * 300_000, set())[0].values()
    assert re.fullmatch(r"x{40000,} \.\.\. \d+ more characters", word)


@pytest.mark.system
def test_a_cell_page_of_a_long_log_says_what_is_left_out(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    (nights.store.folder / "runs/none.log").write_text("\n".join(LONG_LOG))
    target = nights.store.folder / "pages"
    build(nights.store, target, PagesRequest(), lambda text: scrub(text).text)
    written = "".join(path.read_text() for path in target.glob("data/**/*") if path.is_file())
    assert "alice" not in written
    assert "characters of 1,1" in written
    assert "line 40000 of ~/run" in written


def test_series_of_other_cases_do_not_matter(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    nights.run({"1": "R"}, case=CASE.replace("id: nightly", "id: other"), case_id="other")
    assert len(gather(nights.store).series) == 3
    found = pages(*known_cases(nights.store))
    assert [one["cells"]["number"] for one in found] == [[1, 2], [1, -1]]


FIXED = CASE + "fix: {summary: Another call, command: python fixed.py}\n"


def test_a_case_of_which_the_newest_night_decided_nothing_is_inconclusive(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    assert row(known(nights)).status == "as-expected"
    nights.run({"1": "?", "2": "?"})
    one = row(known(nights))
    assert (one.status, one.blind) == ("inconclusive", 2)
    assert one.tally == {"not-reproduced": 1, "reproduced": 1}  # what is known still is
    assert page(nights)["blind"] == 2
    nights.run({"1": "N", "2": "N"})
    nights.run({"1": "?", "2": "?"})
    assert row(known(nights)).status == "departs"


def test_a_night_of_a_part_of_the_matrix_says_so(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    nights.run({"2": "R"})
    nights.run({"3": "R"}, case=CASE.replace('"2"]', '"2", "3"]'))
    nights.run({"1": "N", "2": "R"})
    strip = row(known(nights)).strip
    assert [(one.words, one.whole) for one in strip] == [
        ("1 not-reproduced, 1 reproduced", True),
        ("1 of 2 cells: 1 reproduced", False),
        ("other cells: 1 reproduced; 1 departs", False),
        ("1 not-reproduced, 1 reproduced", True),
    ]


@pytest.mark.parametrize(
    ("with_it", "expected"),
    [
        ("NN", (2, 2, 0)),
        ("N?", (2, 1, 0)),
        ("NO", (2, 1, 0)),  # what fails otherwise is not fixed
        ("??", (2, 0, 0)),
        ("NR", (2, 1, 1)),
        ("N", (1, 1, 0)),  # the other was run without it alone
    ],
)
def test_in_how_many_cells_a_fix_was_decided(nights: Nights, with_it: str, expected: tuple[int, int, int]) -> None:
    nights.run({"1": "R", "2": "R"}, case=FIXED)
    assert row(known(nights)).fix is None
    nights.run(dict(zip("12", with_it, strict=False)), case=FIXED, variant="fix")
    found = row(known(nights)).fix
    assert found is not None
    assert (found.cells, found.gone, found.left) == expected
    assert page(nights)["explanation"]["fix"] == found.to_json()


def test_cells_that_were_not_run_since_the_case_was_edited_have_their_past(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R", "4": "R"})
    nights.run({"1": "N"}, case=CASE.replace("Run every night", "Another title"))
    data = page(nights)
    cells = data["cells"]
    assert cells["number"] == [1, -1]
    assert cells["strip"] == ["NN", "R"]
    assert data["states"][cells["state"][1]] == "reproducing since 2026-01-01; not run since the case was edited"
    assert data["former"] == 1  # numpy 4


def test_what_a_claim_does_not_rest_on_is_said_beside_it(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R", "3": "?"}, case=CASE.replace('"2"]', '"2", "3", "4"]'))
    explanation = page(nights)["explanation"]
    assert (explanation["decided"], explanation["open"]) == (2, ["1 build-failed", "1 more in the matrix"])


def test_variables_named_as_our_own_keys_are_cleaned() -> None:
    def clean(text: str) -> str:
        return text.replace("secret", "-")

    value = {
        "id": "secret",
        "cell": {"run": "secret", "name": "secret"},
        "facts": {"environment variables": {"status": "secret"}},
        "asked": [{"name": "secret", "asked": "secret"}],
    }
    assert clean_texts(value, clean) == {
        "id": "secret",
        "cell": {"run": "-", "name": "-"},
        "facts": {"environment variables": {"status": "-"}},
        "asked": [{"name": "secret", "asked": "-"}],
    }


def test_what_cells_share_is_cleaned_by_where_it_stands(tmp_path: Path) -> None:
    packer = Packer(Folder(tmp_path, str), lambda text: text.replace("secret", "-"), lambda *_: Log(text=""))
    page: Any = SimpleNamespace(number=1, to_json=lambda: {"build": {"name": "secret"}, "facts": {"name": "secret"}})
    packer._write("k", [page])
    assert '"values":[{"name":"secret"},{"name":"-"}]' in (tmp_path / "data" / "k.js").read_text()


def test_no_key_of_data_is_what_an_object_inherits_from() -> None:
    assert (
        script("k", {"__proto__": ['"__proto__":']})
        == r"""reprokit.data("k",{["__proto__"]:["\"__proto__\":"]});""" + "\n"
    )
    key = 'a,"__proto__'  # its end is part of another key
    assert script("k", {"a": 1, "__proto__": {key: 2}}) == (
        r"""reprokit.data("k",{"a":1,["__proto__"]:{"a,\"__proto__":2}});""" + "\n"
    )


GOLDEN = Path(__file__).parents[2] / "golden" / "stacks"


def test_no_stacks_no_section() -> None:
    assert find_stacks("fine\n") is None


def test_the_thread_that_crashed_comes_first_with_both_kinds_of_frames() -> None:
    found = find_stacks((GOLDEN / "c-extension.log").read_text())
    assert found is not None
    assert found.threads[0].name.endswith(": SIGSEGV")
    calls = [call for call, _ in found.threads[0].frames]
    assert calls[0] == "PyObject_Size"
    assert calls[-1] == "<module>"
    assert (found.more, found.missing) == (0, "")


def test_of_a_hang_the_last_look_is_shown_with_how_often_it_was_the_same() -> None:
    found = find_stacks((GOLDEN / "hang-queue.log").read_text())
    assert found is not None
    assert found.title.startswith("Stacks at the time limit: ")
    assert any(one.name.endswith("the same in 3 of 3 looks") for one in found.threads)


def test_why_there_are_none() -> None:
    found = find_stacks("fine\n[reprokit: no stacks: ptrace is refused]\n")
    assert found == ShownStacks(title="No stacks", threads=(), more=0, missing="ptrace is refused")


def test_a_page_has_a_bounded_number_of_threads() -> None:
    text = (GOLDEN / "hang-queue.log").read_text()
    head, *lines = text[text.rindex("[reprokit: stacks of process") :].splitlines()
    thread = [line for line in lines if line.startswith("    ")][:2]
    many = "".join(f"Thread {number} (idle)\n" + "\n".join(thread) + "\n" for number in range(1, 101))
    found = find_stacks(f"x\n{head}\n{many}{lines[-1]}\n")
    assert found is not None
    assert (len(found.threads), found.more) == (MOST_THREADS, 100 - MOST_THREADS)


@pytest.mark.parametrize("cut", range(0, 3000, 97))
def test_a_cut_log_is_not_a_defect(cut: int) -> None:
    text = (GOLDEN / "c-extension.log").read_text()
    find_stacks(text[:-cut] if cut else text)
