"""The overview in a real browser: found by words, filters and keys, and kept in the address."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.conftest import PHONE, Look
from tests.browser.test_pages import violations

FOCUSED = "document.activeElement.textContent"


def titles(page: Any) -> list[str]:
    """The cases that are shown, in their order."""
    found: list[str] = page.locator("table.cases tbody a.title").all_inner_texts()
    return found


def test_a_case_is_found_and_opened_by_keys_alone(look: Look) -> None:
    looking = look()
    page, keys = looking.page, looking.page.keyboard
    every = titles(page)
    keys.press("/")
    keys.type("grid not-reproduced")
    assert looking.route == "/?q=grid+not-reproduced"
    assert len(titles(page)) == 1
    assert page.locator("#live").inner_text() == f"1 of {len(every)} cases shown"
    keys.press("Enter")
    assert page.evaluate(FOCUSED) == titles(page)[0]
    keys.press("Enter")
    page.wait_for_selector("h1:not(:text('Cases'))")
    assert looking.route == "/case/grid"
    page.go_back()
    page.wait_for_selector("table.cases")
    assert looking.route == "/?q=grid+not-reproduced"
    assert page.evaluate(FOCUSED) == titles(page)[0]  # where one was
    keys.press("Escape")
    assert titles(page) == every
    assert looking.route == "/"


def test_j_and_k_walk_through_the_cases(look: Look) -> None:
    page = look().page
    rows = titles(page)
    seen = []
    for key in "jjk":
        page.keyboard.press(key)
        seen.append(page.evaluate(FOCUSED))
    assert seen == [rows[0], rows[1], rows[0]]


def test_what_is_chosen_is_in_the_address_and_comes_from_it(look: Look) -> None:
    looking = look("/?status=departs&sort=case")
    page = looking.page
    assert page.locator(".pick[aria-pressed=true]").inner_text().split()[0] == "✗"
    departing = titles(page)
    page.get_by_label("Verdict").select_option("flaky")
    assert "verdict=flaky" in looking.route
    assert set(titles(page)) <= set(departing)
    page.locator(".pick").first.click()
    assert looking.route == "/?verdict=flaky&sort=case"
    page.get_by_role("searchbox").fill("no such words")
    assert page.locator("table.cases tbody").inner_text() == "No case fits."
    page.get_by_role("button", name="Clear").click()
    assert looking.route == "/?sort=case"
    assert page.evaluate("document.activeElement.id") == "search"


def test_a_tag_leads_to_its_cases(look: Look) -> None:
    looking = look()
    tag = looking.page.locator("a.facet.tag").first
    words = tag.inner_text()
    tag.click()
    looking.page.wait_for_function("(words) => document.getElementById('by-tag').value === words", arg=words)
    assert looking.route.startswith("/?tag=")
    assert len(titles(looking.page)) == looking.page.locator("a.facet.tag", has_text=words).count()


def test_squares_say_in_words_what_they_show(look: Look) -> None:
    page = look().page
    strips = page.locator(".last-runs")
    assert strips.count()
    for strip in strips.all():
        said = strip.get_attribute("aria-label")
        squares = strip.locator("span").all()
        assert said.startswith(f"Last {len(squares)} run")
        assert len(re.findall(r"\d{4}-\d\d-\d\d ", said)) == len(squares)
        assert all(square.inner_text() in "✓✗?•" for square in squares)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_help_names_the_keys_and_the_verdicts(look: Look, theme: str) -> None:
    page = look(theme=theme).page
    page.keyboard.press("?")
    said = page.locator("dialog").inner_text()
    assert "search" in said
    assert "environment-mismatch" in said
    assert violations(page) == []
    page.keyboard.press("j")  # what is behind does not move
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


def test_the_theme_that_was_chosen_stays(look: Look, served: str) -> None:
    looking = look(base=served)
    page = looking.page
    button = page.get_by_role("button", name="Theme")
    button.click()
    button.click()
    assert button.inner_text() == "Theme: dark"
    looking.go("/case/grid")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_filters_unfold_on_a_phone(look: Look) -> None:
    page = look(size=PHONE).page
    assert not page.get_by_label("Tag").is_visible()
    page.get_by_role("button", name="Filters").click()
    assert page.get_by_label("Tag").is_visible()
    assert violations(page) == []
