"""The cell page: its log, what differs elsewhere, and the way to other cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprokit.report import differences
from reprokit.report.differences import EnvironmentFacts
from tests.browser.conftest import Look, Site

FACTS = st.dictionaries(
    st.sampled_from([*differences.ORDER, "some other"]),
    st.dictionaries(st.sampled_from(["libc6", "a", "B", "libgomp1"]), st.sampled_from(["1", "2"]), max_size=3),
    max_size=4,
)


def lines(page: Any) -> list[int]:
    """The numbers of the log's lines that are shown."""
    return [int(text) for text in page.locator(".log .no").all_text_contents()]


def test_a_log_is_folded_around_what_matched(look: Look, site: Site) -> None:
    page = look(site.cell("grid", 5)).page
    assert lines(page) == list(range(93, 113))
    hits = page.locator(".log mark").all_inner_texts()
    assert hits[0] == "Traceback (most recent call last):"
    assert hits[-1] == "ValueError: no such thing"
    page.get_by_role("button", name="Show 40 lines above line 93").click()
    assert lines(page) == list(range(53, 113))
    page.get_by_role("button", name="unfold all").click()
    assert lines(page) == list(range(1, 205))
    assert "main go.py:3" in page.locator(".frames").inner_text()


def test_a_line_is_named_by_an_address(look: Look, site: Site) -> None:
    looking = look(site.cell("grid", 5))
    page = looking.page
    page.locator("[data-line='101'] .no").click()
    assert looking.route.endswith("?at=L101")
    looking.go(site.cell("grid", 5) + "?trial=2&at=L7")
    assert lines(page)[:15] == list(range(1, 16))
    assert page.locator(".chosen .no").inner_text() == "7"
    assert page.locator(".trial[aria-pressed=true]").inner_text().split()[:2] == ["R", "2"]
    whole = page.get_by_role("group", name="The line that prints the whole log")
    assert whole.inner_text() == f"reprokit show {site.runs['grid']} 5 --log --trial 2"


def test_the_lines_of_a_log_that_was_cut_have_the_numbers_of_the_whole_output(look: Look, site: Site) -> None:
    looking = look(site.cell("hostile", 1) + "?trial=3")
    page = looking.page
    assert lines(page) == [1, 2, 102, 103]
    assert "103 lines, 1 matched" in page.locator(".log-bar").inner_text()
    page.locator(".hit .no").click()
    looking.go(looking.route)
    assert page.locator(".chosen .text").inner_text() == "what matched"


def test_a_trial_is_chosen_by_click_and_by_key(look: Look, site: Site) -> None:
    looking = look(site.cell("grid", 23))
    page = looking.page
    page.locator(".trial").nth(1).click()
    assert looking.route.endswith("?trial=2")
    assert page.locator(".log .text").all_text_contents() == ["fine"]
    page.locator("h1").click()
    page.keyboard.press("t")
    assert looking.route.endswith("?trial=3")


def test_stacks_are_folded_and_innermost_first(look: Look, site: Site) -> None:
    page = look(site.cell("one", 1)).page
    crash = page.locator("details", has_text="Stacks of the crash")
    assert crash.get_attribute("open") is None
    crash.locator("summary").click()
    assert "SIGSEGV" in crash.locator("h3").first.inner_text()
    frames = crash.locator(".thread").first.locator("li").all_inner_texts()
    assert "PyObject_Size" in frames[0]
    assert frames[-1].startswith("<module>")
    page.locator(".trial").nth(1).click()
    hang = page.locator("details", has_text="Stacks at the time limit")
    hang.locator("summary").click()
    hang.get_by_text("the same in 3 of 3 looks").wait_for()  # filled where it is opened


def test_long_lines_wrap_when_asked(look: Look, site: Site) -> None:
    page = look(site.cell("hostile", 1) + "?trial=2").page
    log = page.locator(".log")
    wide = "(log) => log.scrollWidth > log.clientWidth + 1"
    assert log.evaluate(wide)
    page.get_by_role("button", name="wrap lines").click()
    assert not log.evaluate(wide)


def test_the_nearest_cell_with_another_verdict_is_compared(look: Look, site: Site) -> None:
    page = look(site.cell("grid", 5)).page
    part = page.get_by_role("region", name="What is different where the verdict is another")
    part.wait_for()
    assert part.locator("p a").inner_text() == "python=3.9 numpy=1.26.4 mode=a"
    assert part.locator("tbody tr").all_inner_texts() == ["packages beneath the frameworks\tnumpy\t2.0.2\t1.26.4"]


def test_an_inconclusive_cell_is_compared_with_one_that_was_decided(look: Look, site: Site) -> None:
    page = look(site.cell("grid", 3)).page
    part = page.get_by_role("region", name="The nearest cell that was decided")
    part.wait_for()
    assert "python=3.9 numpy=1.26.4 mode=a" in part.inner_text()
    assert "no image that was measured" in part.inner_text()


def test_keys_lead_to_the_next_cell_the_fix_and_the_matrix(look: Look, site: Site) -> None:
    looking = look(site.cell("grid", 5))
    page = looking.page
    for key, number in (("n", 7), ("p", 5), ("x", 6), ("x", 5)):
        page.keyboard.press(key)
        # The page itself: its address changes first.
        page.wait_for_selector(f".cell-head code:text-is('reprokit shell {site.runs['grid']}:{number}')")
        assert looking.route == site.cell("grid", number)
    page.keyboard.press("m")
    page.wait_for_selector("[role=grid]")


def test_lines_are_copied(look: Look, site: Site) -> None:
    page = look(site.cell("grid", 5), permissions=["clipboard-read", "clipboard-write"]).page
    part = page.get_by_role("region", name="Repeat it")
    part.get_by_role("button").first.click()
    part.get_by_text("Copied").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == "reprokit run cases/grid.yaml --only os=debian-12,python=3.9,numpy=2.0.2,mode=a"


def test_a_cell_of_an_earlier_night_says_that_it_is(look: Look, site: Site) -> None:
    before = site.cell("grid", 5).replace("20260106-020000-0006", "20260105-020000-0005")
    page = look(before).page
    notice = page.locator(".notice").inner_text()
    assert notice.startswith("What counts for this cell now is of another run: reproduced, 2026-01-06")


def test_the_page_begins_with_the_case_its_signature_its_command_and_a_shell(look: Look, site: Site) -> None:
    said = look(site.cell("grid", 5)).page.locator(".cell-head").inner_text()
    assert said.startswith("A function of a package fails on new versions")
    assert "exception: ValueError" in said
    assert "python go.py" in said
    assert f"reprokit shell {site.runs['grid']}:5" in said


def test_words_are_found_in_a_log(look: Look, site: Site) -> None:
    looking = look(site.cell("grid", 5))
    page = looking.page
    page.keyboard.press("/")
    page.keyboard.type("STEP 1")  # 1 and 10 to 19
    status = page.get_by_role("region", name="3 trials").get_by_role("status")
    assert status.inner_text() == "1 of 11"
    assert 2 in lines(page)
    page.keyboard.press("Enter")
    assert (status.inner_text(), page.locator(".chosen .no").inner_text()) == ("2 of 11", "11")
    assert looking.route.endswith("?at=L11")
    page.get_by_role("searchbox").fill("no such words")
    assert status.inner_text() == "not found"


def test_a_log_has_its_colours_and_hides_nothing_by_them(look: Look, site: Site) -> None:
    page = look(site.cell("hostile", 1)).page
    red = page.locator(".log .ansi-1")
    assert red.inner_text() == "red"
    assert red.evaluate("(one) => getComputedStyle(one).color") != page.locator(".log .text").first.evaluate(
        "(one) => getComputedStyle(one).color"
    )
    hidden = page.locator(".log .text", has_text="concealed").locator("span")
    behind = page.locator(".log").evaluate("(one) => getComputedStyle(one).backgroundColor")
    looks = hidden.evaluate("(one) => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor]")
    assert looks[0] not in (behind, "rgba(0, 0, 0, 0)")  # neither concealed, nor black on black
    assert looks[1] == "rgba(0, 0, 0, 0)"
    assert "\u001b" not in page.locator(".log").inner_text()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_differences_are_those_of_reprokit_diff(look: Look) -> None:
    page = look("/case/grid").page
    order = {"concerns": list(differences.ORDER), "unmeasured": list(differences.ASKED)}

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(before=FACTS, after=FACTS, measured=st.booleans())
    def same(before: Mapping[str, Any], after: Mapping[str, Any], measured: bool) -> None:
        sides = [
            EnvironmentFacts(name="", title="", facts=before),
            EnvironmentFacts(name="", title="", facts=after, measured=measured),
        ]
        said = [[one.concern, one.name, one.before, one.after] for one in differences.compare(*sides)]
        cells = [{"facts": side.facts, "packages": {}, "measured": side.measured} for side in sides]
        shown = page.evaluate(
            "([data, one, other]) => reprokit.compare(data, one, other).map((each) => Object.values(each))",
            [order, *cells],
        )
        assert shown == said

    same()
