"""The way of one cell through the modules, as ARCHITECTURE.md lists it, and what only one module may do."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import FrameType

from reprokit.case.matrix import Selection
from tests.unit.run.test_runner import Project, project

__all__ = ["project"]

ROOT = Path(__file__).parents[3]
STEP = re.compile(r"^\d+\. `reprokit/([\w/]+)\.py`: `(\w+)`", re.M)
THREADS = re.compile(r"\bthreading\.Thread\(|\bThreadPoolExecutor\b|\bconcurrent\.futures\.\w*Executor\b")


def listed() -> list[tuple[str, str]]:
    """Module and function of each step that the page lists, in its order."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## The way of one cell")[2]
    return [(f"reprokit.{name.replace('/', '.')}", function) for name, function in STEP.findall(text.split("\n## ")[0])]


def test_a_cell_passes_the_modules_that_the_page_lists_in_their_order(project: Project) -> None:
    steps = listed()
    assert 8 <= len(steps) <= 15
    assert len({module for module, _ in steps}) == len(steps)
    met: list[tuple[str, str]] = []

    def see(frame: FrameType, event: str, _: object) -> None:
        step = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        if event == "call" and step in steps and step not in met:
            met.append(step)

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        assert project.run(selection=Selection(only=({"a": ("2",), "b": ("x",)},)), jobs=1) == 0
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert met == steps


def test_one_module_of_the_room_starts_threads_and_it_knows_nothing_of_cells() -> None:
    room = ROOT / "reprokit" / "run"
    assert [path.name for path in room.glob("*.py") if THREADS.search(path.read_text())] == ["threads.py"]
    imports = re.findall(r"^from (reprokit\S+)", (room / "threads.py").read_text(), re.M)
    assert all(name.startswith("reprokit.core") for name in imports)
