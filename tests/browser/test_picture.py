"""The picture of the README: the page of a case, and nothing that says where it was made."""

from __future__ import annotations

from typing import Any

import pytest

from docs.scripts.report_picture import HEIGHT, MOST_BYTES, PRIVATE, WIDTH, photograph
from tests.browser.conftest import Site


def test_the_page_of_a_case_becomes_a_small_picture(chromium: Any, site: Site) -> None:
    picture = photograph(chromium, site.folder / "index.html", "/case/grid", PRIVATE)
    assert picture.startswith(b"\x89PNG")
    assert (int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")) == (WIDTH, HEIGHT)
    assert len(picture) < MOST_BYTES


def test_a_page_that_shows_something_private_is_refused(chromium: Any, site: Site) -> None:
    with pytest.raises(ValueError, match="the page shows A function of a package"):
        photograph(chromium, site.folder / "index.html", "/case/grid", ["A function of a package"])
