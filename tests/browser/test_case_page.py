"""The case page: the matrix as a picture, its filters and keys, and the addresses that name a view of it."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import PHONE, Look, Site


def labels(page: Any) -> list[str]:
    """What each square says to those who do not see it."""
    found: list[str] = page.locator(".sq[role=gridcell]").evaluate_all("(all) => all.map((one) => one.ariaLabel)")
    return found


def heads(page: Any) -> tuple[list[str], list[str]]:
    """The values across and down."""
    return page.locator("[role=columnheader].col").all_inner_texts(), page.locator("[role=rowheader]").all_inner_texts()


def test_cells_are_found_in_the_overview_and_lead_to_their_case(look: Look) -> None:
    page = look("/").page
    page.keyboard.press("/")
    page.keyboard.type("function package")
    rows = page.locator("table.cases tbody a.title")
    assert rows.all_inner_texts() == ["A function of a package fails on new versions"]
    rows.click()
    page.wait_for_selector("[role=grid]")
    assert page.evaluate("document.title").startswith("A function")


def test_the_picture_takes_the_axes_of_the_explanation_and_says_how_cells_mix(look: Look) -> None:
    page = look("/case/grid").page
    assert heads(page) == (["3.9", "3.10", "3.11"], ["1.26.4", "2.0.2"])
    assert labels(page) == [
        "2 cells: 0 of 1 reproduce, 1 unsupported",
        "2 cells: 0 of 1 reproduce, 1 build failed",
        "2 cells: 0 of 2 reproduce, 1 not as expected",
        "2 cells: 2 of 2 reproduce",
        "2 cells: 2 of 2 reproduce",
        "2 cells: 2 of 2 reproduce, 1 not as expected",
    ]


def test_a_filter_leaves_one_cell_to_a_square_and_stands_in_the_address(look: Look) -> None:
    looking = look("/case/grid")
    page = looking.page
    page.get_by_label("mode", exact=True).select_option(label="b (6)")
    shown = ["unsupported", "build failed", "different failure, not as expected"]
    shown += ["reproduced", "reproduced", "flaky, not as expected"]
    assert labels(page) == shown
    assert looking.route == "/case/grid?mode=b"
    looking.go(looking.route)
    assert labels(page) == shown
    page.get_by_role("button", name="with the fix").click()
    assert labels(page) == ["not reproduced"] * 6
    assert looking.route == "/case/grid?variant=fix&mode=b"


def test_verdicts_are_distinguished_without_colour(look: Look) -> None:
    page = look("/case/grid?mode=b").page
    squares = page.locator(".sq[role=gridcell]")
    letters = squares.evaluate_all("(all) => all.map((one) => one.firstChild.textContent)")
    assert letters == ["U", "B", "x", "R", "R", "F"]
    hatched = squares.evaluate_all("(all) => all.map((one) => getComputedStyle(one).backgroundImage !== 'none')")
    assert hatched == [True, True, False, False, False, False]
    outlined = squares.evaluate_all("(all) => all.map((one) => getComputedStyle(one).boxShadow !== 'none')")
    assert outlined == [False, False, True, False, False, True]


def test_axes_are_chosen_and_swapped(look: Look) -> None:
    looking = look("/case/grid?x=mode&y=numpy")
    page = looking.page
    assert heads(page) == (["a", "b"], ["1.26.4", "2.0.2"])
    page.get_by_role("button", name="Swap the axes").click()
    assert heads(page) == (["1.26.4", "2.0.2"], ["a", "b"])
    page.get_by_label("across", exact=True).select_option("python")
    assert heads(page)[0] == ["3.9", "3.10", "3.11"]
    assert looking.route == "/case/grid?x=python&y=mode"


def test_one_verdict_is_chosen_in_the_legend(look: Look) -> None:
    looking = look("/case/grid?mode=b&view=table")
    page = looking.page
    assert page.locator("tbody tr").count() >= 6
    page.get_by_role("button", name="flaky").click()
    assert page.locator("table.cells").first.locator("tbody tr").count() == 1
    assert "show=flaky" in looking.route
    page.get_by_role("button", name="picture").click()
    assert page.locator(".sq.faint[role=gridcell]").count() == 5


def test_arrow_keys_move_enter_opens_and_back_comes_back(look: Look, site: Site) -> None:
    looking = look("/case/grid?mode=b")
    page = looking.page
    page.locator("[role=gridcell][tabindex='0']").focus()
    for key in ("ArrowDown", "End", "ArrowLeft", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.ariaLabel") == "flaky, not as expected"
    assert page.locator(".tip").is_visible()
    assert "in 12 of 18 trials" in page.locator(".tip").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector(".log")
    assert looking.route == site.cell("grid", 23)
    page.go_back()
    page.wait_for_selector("[role=grid]")
    assert looking.route == "/case/grid?mode=b"
    assert page.get_by_label("mode", exact=True).evaluate("(one) => one.selectedOptions[0].text") == "b (6)"


def test_a_square_of_several_cells_lists_them(look: Look) -> None:
    page = look("/case/grid").page
    page.locator(".sq[role=gridcell]").nth(2).click()
    listed = page.get_by_role("group", name="2 cells of python 3.11, numpy 1.26.4")
    assert listed.locator("a").all_inner_texts() == ["mode=a", "mode=b"]
    page.keyboard.press("Enter")
    page.wait_for_selector(".log")


def test_the_pointer_tells_of_a_cell(look: Look) -> None:
    page = look("/case/grid?mode=b").page
    page.locator(".sq[role=gridcell]").nth(5).hover()
    said = page.locator(".tip").inner_text()
    assert "python 3.11 · numpy 2.0.2" in said
    assert "expected: reproduced" in said
    assert "ValueError: no such thing" in said


def test_the_page_begins_with_what_is_known(look: Look) -> None:
    page = look("/case/grid").page
    names, texts = (page.locator(f".statement {tag}").all_inner_texts() for tag in ("dt", "dd"))
    said = dict(zip(names, texts, strict=True))
    assert page.locator(".statement .lead").inner_text() == (
        "In one trial each (elsewhere a failure in nearly every run is not excluded), it failed where numpy = 2.0.2"
    )
    assert said["Expected"] == "fails in all cells"
    assert "python=3.11 numpy=2.0.2 mode=b: flaky; reproduced was expected" in said["Seen"]
    assert said["How it fails"].startswith("ValueError: no such thing\n6 cells: ")
    assert said["Last change"].startswith("2 runs ago, in 2026-01-04 02:00; none since")
    assert "not reproduced → reproduced: python=3.9 numpy=2.0.2 mode=b" in said["Last change"]


def test_history_has_first_what_changed_then_what_departs_then_what_reproduces(look: Look) -> None:
    page = look("/case/grid").page
    page.wait_for_selector(".course")
    names = page.locator(".course .cell-name").all_inner_texts()
    assert names[0] == "python=3.9 numpy=2.0.2 mode=b"
    assert names[1:3] == ["python=3.11 numpy=1.26.4 mode=b", "python=3.11 numpy=2.0.2 mode=b"]
    assert all("numpy=2.0.2" in name for name in names[3:7])
    assert names[7] == "python=3.9 numpy=1.26.4 mode=a"


def test_history_tells_what_changed_and_links_the_nights_that_have_pages(look: Look, site: Site) -> None:
    page = look("/case/grid").page
    page.wait_for_selector(".course")
    change = page.locator(".change")
    assert "not reproducing → reproducing" in change.inner_text()
    assert "python=3.9 numpy=2.0.2 mode=b" in change.inner_text()
    strip = page.locator(".course", has_text="python=3.9 numpy=2.0.2 mode=b").locator(".night")
    assert [one.split(": ")[1] for one in strip.evaluate_all("(all) => all.map((one) => one.title)")] == [
        *["not reproduced, not as expected"] * 3,
        *["reproduced"] * 3,
    ]
    strip.last.click()
    page.wait_for_selector(".log")
    page.go_back()
    page.wait_for_selector(".course")
    strip.nth(1).click()  # of a run whose cells have no pages
    page.wait_for_selector(".cell-head")
    assert page.locator(".verdict").inner_text().split() == ["·", "not-reproduced", "departs"]


def test_a_phone_shows_the_same(look: Look) -> None:
    page = look("/case/grid?mode=b", size=PHONE, has_touch=True).page
    page.locator(".sq[role=gridcell]").nth(3).tap()
    page.wait_for_selector(".log")
    assert page.locator(".log.wrap").count() == 1
