"""The pages of a case of ten thousand cells: how long it takes to write, paint, filter and scroll them, to open a cell.

Needs a Chromium, ``taskset`` and the extra ``test``. The browser has one core, shared with all its processes.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reprokit.cli import invoke
from tests.browser import made

SHAPES = {
    "100 x 100": {"first": 100, "second": 100},
    "10 x 10 x 10 x 5 x 2": {"first": 10, "second": 10, "third": 10, "fourth": 5, "fifth": 2},
}
TIMES = 5
"""Of which the median is reported."""
# Between what was asked and what is seen: the second frame begins after the first was painted.
PAINTED = "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));"
READY = """
new MutationObserver((_, watcher) => {
  if (!document.querySelector('[role=grid]')) return;
  watcher.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.ready = performance.now(); }));
}).observe(document, {childList: true, subtree: true});
"""
FILTER = f"""async () => {{
  const select = document.querySelector('[data-control^="is "]');
  const button = document.querySelector('[data-control^="show "]');
  const from = performance.now();
  if (select) {{ select.value = '3'; select.dispatchEvent(new Event('change')); }} else button.click();
  {PAINTED}
  return performance.now() - from;
}}"""
SCROLL = """async () => {
  const area = document.querySelector('.scroll');
  const frames = [];
  let before = await new Promise(requestAnimationFrame);
  for (let step = 1; step <= 60; step++) {
    area.scrollTop = step * 30;
    area.scrollLeft = step * 10;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - before);
    before = now;
  }
  return frames;
}"""
OPEN = f"""async () => {{
  const from = performance.now();
  document.querySelectorAll('[role=gridcell]')[55].click();
  if (document.querySelector('.listed a')) document.querySelector('.listed a').click();
  while (!document.querySelector('.log')) await new Promise((done) => setTimeout(done, 1));
  {PAINTED}
  return performance.now() - from;
}}"""


def report(folder: Path) -> Iterator[str]:
    """A line of figures for each shape."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not program or not shutil.which("taskset"):
        sys.exit("needs chromium and taskset")
    wrapper = folder / "one-core"
    wrapper.write_text(f'#!/bin/sh\nexec taskset -c 0 {program} "$@"\n')
    wrapper.chmod(0o755)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(wrapper), args=["--no-sandbox"])
        for name, shape in SHAPES.items():
            site = folder / name.replace(" ", "")
            made.large(site / "store", shape)
            began = time.perf_counter()
            invoke(["report", "large", "--store", str(site / "store"), "-o", str(site / "site")])
            wrote = time.perf_counter() - began
            files = [path for path in (site / "site").rglob("*") if path.is_file()]
            case = (site / "site/data/case/large.js").stat().st_size
            yield (
                f"{name} cells, 3 nights: written in {wrote:.1f} s; {len(files)} files, "
                f"{sum(path.stat().st_size for path in files) / 1e6:.1f} MB; the case page reads {case / 1e6:.2f} MB"
            )
            found = [_look(browser, site / "site/index.html") for _ in range(TIMES)]
            median = {key: statistics.median(one[key] for one in found) for key in found[0]}
            yield "  one core, median of {}: {}".format(
                TIMES, ", ".join(f"{key} {ms:.0f} ms" for key, ms in median.items())
            )
        browser.close()


def _look(browser: Any, index: Path) -> Mapping[str, float]:
    """Milliseconds, of a fresh browser profile."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.add_init_script(READY)
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        """Milliseconds for which the page's main thread was busy so far, whatever else the machine does."""
        metrics = session.send("Performance.getMetrics")["metrics"]
        return 1000 * float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    page.goto(f"{index.as_uri()}#/case/large")
    page.wait_for_function("window.ready")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    matrix = page.evaluate("window.ready")
    matrix_busy = busy()
    page.wait_for_selector(".course")
    frames = sorted(page.evaluate(SCROLL))
    page.wait_for_timeout(300)
    before = busy()
    filtered = page.evaluate(FILTER)
    filtered_busy = busy() - before
    opened = page.evaluate(OPEN)
    context.close()
    return {
        "first paint": paint,
        "matrix painted": matrix,
        "of which busy": matrix_busy,
        "filter": filtered,
        "of which busy in it": filtered_busy,
        "frame while scrolling": statistics.median(frames),
        "slowest frame but one": frames[-2],
        "open a cell": opened,
    }
