"""How large each room may be: the table ``tool.reprokit.budgets`` of pyproject.toml. `make lint` runs it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
BUDGETS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["reprokit"]["budgets"]


def measured(path: str) -> dict[str, int]:
    """The lines and files of Python below a folder or in a module, which is a room, too."""
    folder = ROOT / path
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    return {"lines": sum(len(file.read_bytes().splitlines()) for file in files), "files": len(files)}


def exceeded(path: str, budget: dict[str, int]) -> list[str]:
    """What is over the budget, in words."""
    found = measured(path)
    return [
        f"{path} has {found[key]} {key}, {found[key] - most} over its budget of {most}: make it smaller, or raise "
        "tool.reprokit.budgets in pyproject.toml with a line in CHANGELOG.md that says what goes for it"
        for key, most in budget.items()
        if found[key] > most
    ]


@pytest.mark.parametrize("path", BUDGETS)
def test_what_has_a_budget_is_within_it(path: str) -> None:
    assert not exceeded(path, BUDGETS[path]), "\n".join(exceeded(path, BUDGETS[path]))


def test_every_room_has_a_budget() -> None:
    packages = {path.parent.name for path in ROOT.glob("reprokit/*/__init__.py")}
    assert {"reprokit", "tests", *(f"reprokit/{name}" for name in packages)} == set(BUDGETS)


def test_what_is_larger_is_found() -> None:
    assert re.search(r"has \d+ lines, \d+ over its budget of 1:.*CHANGELOG", exceeded("reprokit/core", {"lines": 1})[0])
    assert exceeded("reprokit/core/version", {"lines": 1000, "files": 1}) == []
