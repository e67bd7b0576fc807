"""Write docs/images/report.png: the page of a case, from a real run that is recorded now.

``python -m docs.scripts.report_picture`` needs a container engine and a Chromium (``$CHROMIUM``, or one on the
PATH). The picture is refused where the page shows a path or the name of this machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from reprokit.cli import invoke

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "report.png"
CASE, CASE_ID = "cases/ptxas_unknown_arch.yaml", "ptxas-unknown-arch"
WIDTH, HEIGHT = 1200, 760
MOST_BYTES = 250_000
PRIVATE = [text for text in (platform.node(), str(ROOT), str(Path.home()), tempfile.gettempdir()) if len(text) > 2]
"""What says where the picture was made."""


def main() -> int:
    """Run the case, write its pages, photograph the page of the case; the exit status."""
    os.chdir(ROOT)  # the page shows the path of the case as it was given
    with tempfile.TemporaryDirectory() as temporary:
        store, site = Path(temporary, "store"), Path(temporary, "site")
        if status := invoke(["run", CASE, "--store", str(store)]):
            print(f"the run ended with {status}: no picture is written", file=sys.stderr)
            return status
        if status := invoke(["report", CASE_ID, "--store", str(store), "-o", str(site)]):
            return status
        program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
            picture = photograph(browser, site / "index.html", f"/case/{CASE_ID}", PRIVATE)
            browser.close()
    if len(picture) >= MOST_BYTES:
        print(f"the picture has {len(picture)} bytes; the limit is {MOST_BYTES}", file=sys.stderr)
        return 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(picture)
    return 0


def photograph(browser: Any, index: Path, route: str, private: Sequence[str]) -> bytes:
    """The page at a route, as PNG. Raises ValueError where it shows one of the ``private`` texts."""
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    try:
        page.goto(f"{index.as_uri()}#{route}")
        page.wait_for_selector("main > *:not(noscript)")
        page.wait_for_selector("main:not([aria-busy])")
        shown = page.inner_text("body")
        if found := [text for text in private if text in shown]:
            raise ValueError(f"the page shows {', '.join(found)}")
        picture: bytes = page.screenshot()
    finally:
        page.close()
    return picture


if __name__ == "__main__":
    sys.exit(main())
