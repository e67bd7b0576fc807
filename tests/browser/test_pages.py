"""Every page in a real browser: accessible in each theme and width, quiet, and from a disk as from a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprokit.cli import invoke
from tests.browser import made
from tests.browser.conftest import DESKTOP, NARROW, PHONE, Look, Site
from tests.browser.made import CHINESE, HOSTILE

PAGES = {
    "overview": "/",
    "case": "/case/grid",
    "case as a table": "/case/grid?view=table",
    "case of which squares hold one cell": "/case/grid?mode=b",
    "cell": "CELL/grid/5",
    "cell without an image": "CELL/grid/3",
    "hostile case": "/case/hostile",
    "Chinese cell": "CELL/chinese/1",
    "odd case": "/case/odd",
    "case of one cell": "/case/one",
    "cell of which the log is gone": "CELL/odd/1",
    "cell of an older run": "/case/grid/cell/20260102-020000-0002-5",
    "run": "/run/20260102-020000-0002",
    "runs": "/runs",
}
TARGETS = "{'target-size': {enabled: true}}"  # of WCAG 2.2: off unless it is asked for
IMPACTS = "({violations}) => violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join('  ')) "


def address(site: Site, page: str) -> str:
    """The address of one of PAGES."""
    route = PAGES[page]
    if route.startswith("CELL/"):
        _, case, number = route.split("/")
        return site.cell(case, int(number))
    return route


def violations(page: Any) -> list[str]:
    """What axe finds, one line for each rule that is broken."""
    import axe_playwright_python

    script = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script)
    # Stylesheets of a page that is opened from the disk cannot be fetched again.
    found: list[str] = page.evaluate(f"axe.run(document, {{preload: false, rules: {TARGETS}}}).then({IMPACTS})")
    return found


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_what_axe_objects_to(look: Look, site: Site, theme: str, size: tuple[int, int]) -> None:
    looking = look(theme=theme, size=size)
    found = {name: violations(looking.go(address(site, name))) for name in PAGES}
    assert found == {name: [] for name in PAGES}


def test_no_page_is_wider_than_a_small_phone(look: Look, site: Site) -> None:
    looking = look(size=NARROW)
    for name in PAGES:
        page = looking.go(address(site, name))
        page.wait_for_timeout(100)  # what is filled in after the first paint
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0], name


def test_the_pages_work_below_a_path_of_a_server(look: Look, site: Site, served: str) -> None:
    looking = look(base=served)
    for name in PAGES:
        page = looking.go(address(site, name))
        assert page.locator("h1").first.inner_text() != "Not found", name


def test_dark_is_dark_and_light_is_light(look: Look) -> None:
    backgrounds = [
        look("/case/grid", theme=theme).page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        for theme in ("light", "dark")
    ]
    lightness = [sum(map(int, text.removeprefix("rgb(").removesuffix(")").split(", "))) for text in backgrounds]
    assert lightness[0] > 600
    assert lightness[1] < 200


def test_hostile_texts_are_shown_as_what_they_are(look: Look, site: Site) -> None:
    looking = look("/case/hostile")
    page = looking.page
    said = HOSTILE.replace("\u202e", "⟨U+202E⟩")
    assert said in page.locator("h1").inner_text()
    assert page.locator("main img, main script, main iframe").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    for number in (1, 2, 3, 4):
        looking.go(site.cell("hostile", number))
        assert said in page.locator(".log").inner_text()
        assert page.locator(".reason-why").first.inner_text() == said
    for route in (site.cell("hostile", 1), "/case/hostile", "/case/hostile?view=table", "/"):
        page = looking.go(route)
        page.wait_for_timeout(100)  # what is filled in after the first paint
        assert "\u202e" not in page.locator("body").inner_text()
    assert page.evaluate("document.title").startswith("reprokit")
    assert "<img" in page.locator("main").inner_text()


def test_values_that_addresses_have_to_quote_are_filtered_by(look: Look) -> None:
    looking = look("/case/hostile?view=table")
    page = looking.page
    page.locator("table.cells").first.locator("td a").last.click()
    page.wait_for_selector(".log")
    assert "a&b=c#d?e/f%20" in page.locator("h1").inner_text()


def test_names_that_objects_inherit_are_names_as_any(look: Look, site: Site) -> None:
    looking = look("/case/odd?view=table")
    page = looking.page
    rows = [
        [cell.split("\n")[-1] for cell in row.split("\t")[:3]]
        for row in page.locator("table.cells tbody").first.locator("tr").all_inner_texts()
    ]
    assert rows == [
        ["reproduced", "1", "(absent)"],
        ["not-reproduced", "2", "(absent)"],
        ["reproduced", "1", "a"],
        ["reproduced", "1", "b"],
        ["not-reproduced", "2", "b"],
        ["not run", "2", "a"],
    ]
    looking.go(site.cell("odd", 1))
    assert page.locator("h1").inner_text() == "__proto__=1"
    page.get_by_text("one axis away: __proto__ 1 → 2").wait_for()


def test_a_log_that_is_gone_is_not_taken_for_none(look: Look, site: Site) -> None:
    said = look(site.cell("odd", 1)).page.get_by_role("region", name="1 trial").inner_text()
    assert "the log is gone" in said
    assert "no output" not in said


def test_what_is_not_known_now_is_not_shown_as_known(look: Look) -> None:
    looking = look("/?q=odd")
    page = looking.page
    assert page.locator("tbody .status .hidden").inner_text() == "Inconclusive"
    assert page.locator(".c-tally").last.inner_text().split("\n")[-2:] == [
        "1 inconclusive since",
        "fix holds in 1 of 3",
    ]
    part = page.locator(".square.some")
    assert part.get_attribute("title").endswith("1 of 5 cells: 1 unsupported")
    looking.go("/case/odd")
    assert "1 cell inconclusive since" in page.locator("header.case-head").inner_text()
    statement = page.locator(".statement").inner_text()
    assert "From 5 decided cells; not decided: 1 more in the matrix." in statement
    assert (
        "With the fix\ngone in 1 of the 3 cells where it reproduced, in one trial each "
        "(a failure in nearly every run is not excluded); not decided in 2" in statement
    )


def test_a_line_of_a_million_characters_is_shown_in_part(look: Look, site: Site) -> None:
    page = look(site.cell("hostile", 1) + "?trial=2").page
    line = page.locator(".log .hit")
    assert len(line.locator(".text").inner_text()) == 2000
    line.locator("button").click()
    assert len(line.locator(".text").inner_text()) == 22_000


def test_a_chinese_log_is_shown_in_a_chinese_font(look: Look, site: Site) -> None:
    page = look(site.cell("chinese", 1)).page
    assert page.locator(".log .hit .text").inner_text() == CHINESE
    assert page.locator(".log").get_attribute("lang") == "zh-Hans"
    assert page.locator(".log .hit .text").evaluate("(text) => getComputedStyle(text).fontFamily").startswith("ui-mono")
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    node = session.send("DOM.querySelector", {"nodeId": root, "selector": ".log .hit .text"})["nodeId"]
    fonts = [one["familyName"] for one in session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]]
    # Fonts that hold these characters say so in their name, those of Debian among them.
    assert any(word in name for name in fonts for word in ("CJK", "SC", "WenQuanYi", "Han", "Hei")), fonts


def test_paper_shows_everything_and_no_controls(look: Look, site: Site) -> None:
    page = look(site.cell("grid", 5), theme="dark").page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("header.top").is_visible()
    assert page.locator(".log").evaluate("(log) => getComputedStyle(log).maxHeight") == "none"


@pytest.mark.parametrize("route", ["/case/nothing-of-that-name", "/case/grid/cell/20250101-020000-0000-5"])
def test_a_page_that_is_not_there_says_so(look: Look, route: str) -> None:
    said = look(route).page.locator("main").inner_text()
    assert ("nothing-of-that-name" if "nothing" in route else "run 20250101-020000-0000 is not in this report") in said


NIGHTS = 12
SECOND = "20260102-020000-0002"


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of a store of twelve nights: its address."""
    folder = tmp_path_factory.mktemp("year")
    made.grid(made.Maker(folder / "store"), NIGHTS)
    assert invoke(["report", "--store", str(folder / "store"), "-o", str(folder / "site")]) == 0
    assert not Path(folder, "site", "data", "cells", SECOND).exists()
    return (folder / "site" / "index.html").as_uri()


def test_a_link_of_ten_runs_ago_opens(look: Look, year: str) -> None:
    page = look(f"/case/grid/cell/{SECOND}-5", base=year).page
    assert page.locator("h1").inner_text() == "python=3.9 numpy=2.0.2 mode=a"
    said = page.locator(".cell-head").inner_text()
    assert "reproduced" in said
    assert "ValueError: no such thing" in said
    assert f"reprokit show {SECOND} 5" in said
    assert "What counts for this cell now is of another run: reproduced, 2026-01-12" in said
    page.get_by_role("link", name=SECOND).click()
    page.wait_for_selector(".run")
    assert page.locator("h1").inner_text() == f"Run {SECOND}"


def test_a_run_has_first_what_departs_and_folds_what_passed(look: Look, year: str) -> None:
    looking = look(f"/run/{SECOND}", base=year)
    page = looking.page
    assert "3 not as expected" in page.locator(".cell-head").inner_text()
    groups = [" ".join(text.split()) for text in page.locator(".named > li").all_inner_texts()]
    assert groups[0] == "· not-reproduced departs all trials passed python=3.9 numpy=2.0.2 mode=b"
    assert "reproduced ValueError: no such thing · 4 cells" in groups[3]
    page.get_by_text("15 cells passed").click()
    page.get_by_role("link", name="python=3.9 numpy=1.26.4 mode=a", exact=True).click()
    page.wait_for_selector(".cell-head .of-case")
    assert looking.route == f"/case/grid/cell/{SECOND}-1"
    looking.go(f"/run/{SECOND}")
    page.keyboard.press("n")
    page.wait_for_selector("h1:text-is('Run 20260103-020000-0003')")


def test_all_runs_are_listed_the_newest_first(look: Look, year: str) -> None:
    page = look("/runs", base=year).page
    assert page.locator("h1").inner_text() == f"{NIGHTS} runs"
    runs = page.locator("tbody a.mono").all_inner_texts()
    assert (len(runs), runs[0], runs[-1]) == (NIGHTS, "20260112-020000-000c", "20260101-020000-0001")
    page.locator("tbody a.mono").last.click()
    page.wait_for_selector("h1:text-is('Run 20260101-020000-0001')")


def test_the_column_that_fails_is_in_sight_on_a_phone(look: Look, tmp_path: Path) -> None:
    made.large(tmp_path / "store", {"torch": 24, "cuda": 3}, nights=1)
    assert invoke(["report", "--store", str(tmp_path / "store"), "-o", str(tmp_path / "site")]) == 0
    for query in ("x=torch&y=cuda", "view=table"):
        page = look(f"/case/large?{query}", base=(tmp_path / "site/index.html").as_uri(), size=(360, 740)).page
        page.wait_for_timeout(100)  # it is scrolled once it is painted
        failing = page.locator(".sq.off, .sq.fails, td .v-reproduced").first.bounding_box()
        assert failing["x"] >= 0
        assert failing["x"] + failing["width"] <= 360
