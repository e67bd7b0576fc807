"""A real Chromium, and reports of made-up stores that it opens from the disk. No container engine is needed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from reprokit.cli import invoke
from tests.browser import made
from tests.unit.serving import QuietFiles

DESKTOP, PHONE, NARROW = (1280, 800), (390, 844), (320, 700)
HERE = "http://127.0.0.1"


@pytest.fixture(scope="module")  # while it is open, no other test of this worker can run an event loop
def chromium() -> Iterator[Any]:
    """The system's Chromium, or the one that ``$CHROMIUM`` names."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra test")
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        pytest.skip("needs a Chromium: none is installed, and $CHROMIUM names none")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass(frozen=True)
class Site:
    """A report: its folder, and the newest run of each case."""

    folder: Path
    runs: dict[str, str]

    def cell(self, case: str, number: int) -> str:
        """The address of a cell of a case's newest run."""
        return f"/case/{case}/cell/{self.runs[case]}-{number}"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A report of :func:`made.small`."""
    folder = tmp_path_factory.mktemp("site")
    runs = made.small(folder / "store")
    # A path below a folder, with what an address has to quote.
    target = folder / "pages of a project" / "report"
    assert invoke(["report", *runs, "--store", str(folder / "store"), "-o", str(target)]) == 0
    return Site(target, runs)


@dataclass
class Looking:
    """A page that is looked at, with everything that went wrong in it."""

    page: Any
    base: str
    wrong: list[str] = field(default_factory=list)

    def go(self, route: str) -> Any:
        """Open an address of the report, in a new document; the page."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.base}#{route}")
        self.page.wait_for_selector("main > *:not(noscript)")
        self.page.wait_for_selector("main:not([aria-busy])")
        return self.page

    @property
    def route(self) -> str:
        """The address that is shown, behind the ``#``."""
        return str(self.page.evaluate("location.hash.slice(1)"))


Look = Callable[..., Looking]


@pytest.fixture
def look(chromium: Any, site: Site) -> Iterator[Look]:
    """Opens pages of the report; at the end nothing may have failed, or asked another host."""
    opened: list[tuple[Any, Looking]] = []

    def look(
        route: str = "/", *, theme: str = "light", size: tuple[int, int] = DESKTOP, base: str = "", **more: Any
    ) -> Looking:
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=theme, reduced_motion="reduce", **more
        )
        context.set_default_timeout(10_000)
        looking = Looking(context.new_page(), base or (site.folder / "index.html").as_uri())
        own = looking.base.rpartition("/")[0]
        page = looking.page

        def asked(request: Any) -> None:
            if not request.url.startswith((own, "about:", "data:", "blob:")):
                looking.wrong.append(f"asked {request.url}")

        def failed(request: Any) -> None:
            if request.failure != "net::ERR_ABORTED":  # by going on to the next page
                looking.wrong.append(f"failed {request.url} {request.failure}")

        page.on("request", asked)
        page.on("requestfailed", failed)
        page.on("response", lambda reply: reply.status >= 400 and looking.wrong.append(f"{reply.status} {reply.url}"))
        page.on("pageerror", lambda error: looking.wrong.append(f"error {error}"))
        page.on(
            "console", lambda line: line.type in ("error", "warning") and looking.wrong.append(f"console {line.text}")
        )
        page.on("dialog", lambda dialog: looking.wrong.append(f"dialog {dialog.message}") or dialog.dismiss())
        opened.append((context, looking))
        looking.go(route)
        return looking

    yield look
    wrong = [line for _, looking in opened for line in looking.wrong]
    for context, _ in opened:
        context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def served(site: Site) -> Iterator[str]:
    """The report behind a web server, at a path below its root, as GitHub Pages serves a project's."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(site.folder.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"{HERE}:{server.server_address[1]}/{site.folder.name}/index.html"
    server.shutdown()
    thread.join()
    server.server_close()
