"""What the pages of a case and of a cell are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.matrix import as_group
from reprokit.core.redaction import scrub
from reprokit.environment.measured import Measured
from reprokit.evidence.records import CellRecord, ImageRecord, RunRecord
from reprokit.evidence.text import LineNumbers
from reprokit.report.history.series import gather
from reprokit.report.html.building import PagesRequest, build, thinned
from reprokit.report.html.case import case_data
from reprokit.report.html.cell import NAME, ONLY, Log, cell_data, excerpt
from reprokit.report.html.gathering import RecordedCase, known_cases
from reprokit.report.html.overview import VERDICTS
from tests.unit.nights import CASE, Nights


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path / "store")


def known(nights: Nights) -> RecordedCase:
    """The one case of the store."""
    [one] = known_cases(nights.store)
    return one


def page(nights: Nights, has_page: Any = lambda run, number: True) -> dict[str, Any]:
    """The case's page."""
    return case_data(known(nights), has_page)


def cell(nights: Nights, number: int, text: str = "", **changes: Any) -> dict[str, Any]:
    """The page of a cell of the last run, whose trials have that log."""
    import dataclasses

    run: RunRecord = nights.store.run("last")
    record: CellRecord = dataclasses.replace(run.cells[number - 1], **changes)
    return cell_data(known(nights), run, record, lambda trial: Log(text=text, file="logs/x"))


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


def test_only_nights_with_pages_have_numbers(nights: Nights) -> None:
    for _ in range(3):
        nights.run({"1": "N", "2": "R"})
    last = nights.store.run("last").id
    data = page(nights, lambda run, number: run == last)
    assert data["pages"] == {2: (1, 2)}
    assert data["cells"]["page"] == [1, 1]
    assert page(nights, lambda run, number: False)["pages"] == {}


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
            "name": "os",
            "asked": "debian-12",
            "measured": "ubuntu-22.04",
            "differs": "the cell asks for os debian-12, the image is ubuntu-22.04",
        },
        {"name": "numpy", "asked": "2", "measured": "2.1", "differs": ""},
    ]


IMAGE = ImageRecord(tag="reprokit/img:abc", id="sha256:1")
FILES = "--mount=type=bind,source=/home/me/store/runs/r/001-nightly-case/files/go.py,target=/workspace/go.py,readonly"


def by_hand(nights: Nights, repeat: str, **changes: Any) -> list[str]:
    """The lines by hand of a cell that ``repeat`` repeats, as the page puts them together."""
    data = cell(nights, 2, image=IMAGE, repeat=repeat, dockerfile="FROM x", **changes)
    pieces = {NAME: f"repro-{data['number']}", ONLY: as_group(data["cell"])}
    return ["".join(pieces.get(one, one) for one in line) for line in data["byHand"]]


def test_lines_by_hand_need_nothing_of_the_machine_that_ran_it(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    lines = by_hand(nights, f"docker run --rm {FILES} reprokit/img:abc bash -c 'python go.py'")
    assert lines == [
        "reprokit render nightly.yaml --only os=debian-12,numpy=2 -o repro-2",
        "DOCKER_BUILDKIT=1 docker build -t repro-2 repro-2/*/",
        "docker run --rm repro-2 bash -c 'python go.py'",
    ]


@pytest.mark.parametrize(
    ("repeat", "changes"),
    [
        ("docker run --mount=type=bind,source=/data/big,target=/workspace/data reprokit/img:abc go", {}),
        ("docker run reprokit/img:abc go", {"cell": {"os": "debian-12", "numpy": "9"}}),  # of an option, not the case
        ("docker run reprokit/img:abc go", {"case_digest": "sha256:other"}),
        ("", {}),
    ],
)
def test_there_are_none_where_lines_would_not_do(nights: Nights, repeat: str, changes: Mapping[str, Any]) -> None:
    nights.run({"1": "N", "2": "R"})
    assert by_hand(nights, repeat, **changes) == []


def test_packages_are_apart_from_the_few_facts(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    data = cell(nights, 2)
    assert data["packages"] == {"packages beneath the frameworks": {"numpy": "2"}}
    assert data["facts"]["command"] == {"command": "python go.py"}
    assert "packages beneath the frameworks" not in data["facts"]


def test_a_log_comes_without_colours_and_whole_while_it_is_small(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    data = cell(nights, 2, "\x1b[31mred\x1b[0m\n\nend\n")
    assert data["log1"] == {"lines": 3, "parts": [[1, "red\n\nend"]], "cuts": []}
    assert excerpt("", set()) == {"lines": 0, "parts": [], "cuts": []}
    assert excerpt("a\n[reprokit: 9 bytes (4 lines) cut]\nf\n", set())["cuts"] == [(2, 3)]


LINES = st.lists(st.text(st.characters(exclude_characters="\n\r\x1b\x00", exclude_categories=["Cs"]), max_size=40))


@given(lines=LINES, judged=st.sets(st.integers(1, 60)), most=st.sampled_from([0, 100, 100_000]))
def test_every_line_of_an_excerpt_is_that_line_of_the_log(lines: list[str], judged: set[int], most: int) -> None:
    text = "".join(f"{line}\n" for line in lines * 30)
    found = excerpt(text, judged, most)
    whole = lines * 30
    assert found["lines"] == len(whole)
    shown = {}
    for first, part in found["parts"]:
        shown |= dict(enumerate(part.split("\n"), first))
    assert all(whole[number - 1] == line for number, line in shown.items())
    assert judged & set(range(1, len(whole) + 1)) <= shown.keys()
    assert not whole or {1, len(whole)} <= shown.keys()


def test_of_a_long_log_the_ends_and_what_was_judged_are_kept() -> None:
    lines = [f"line {number}" for number in range(1, 100_001)]
    found = excerpt("\n".join(lines), {50_000})
    assert found["parts"][0][0] == 1
    assert found["parts"][1][0] == 50_000 - 50
    assert found["parts"][-1][1].endswith("line 100000")
    assert sum(len(part[1]) for part in found["parts"]) < 200_000


def test_a_line_of_a_long_log_is_cut_with_a_word_about_it() -> None:
    found = excerpt("x" * 1_000_000, set())
    [[_, line]] = found["parts"]
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

    found, shown, note, kept = thinned(text, judged, clean)
    parts = excerpt(found, judged, kept=kept)
    assert parts["lines"] == len(text.rstrip("\n").split("\n"))
    lines = {at: line for first, part in parts["parts"] for at, line in enumerate(part.split("\n"), first)}
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
    found, _, _, kept = thinned(text, {20_000}, str)
    assert excerpt(found, {20_000}, kept=kept)["cuts"] == LineNumbers(text).cuts == [(15_001, 899), (30_002, 1798)]


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
    pages = [case_data(one, lambda run, number: True) for one in known_cases(nights.store)]
    assert [one["cells"]["number"] for one in pages] == [[1, 2], [1, -1]]
