"""The tables of ``data/``: what is known of programs and of what reports call things. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

ROWS: Mapping[tuple[str, str], str] = {
    ("commands", ""): "programs",
    ("environments", ""): "programs blocks roles called packages",
    ("environments", "programs"): "kind starts goes_on blanks facts values examples",
    ("environments", "blocks"): "kind keys example",
    ("failures", ""): "lines",
    ("failures", "lines"): "pattern building signal examples",
    ("languages", "*"): "infos start sign needs",
    ("packages", "*"): "pip apt",
}
"""Table and place -> the keys there: of the table itself (''), of each of its rows (*), or of the rows of one key."""


@cache
def table(name: str = "environments") -> Mapping[str, Any]:
    """A table, by the name of its file. Raises ValueError, with the row, for a key that nothing reads."""
    import yaml

    text = resources.files("reprokit.intake").joinpath(f"data/{name}.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.safe_load(text)
    check(name, found)
    return found


def check(name: str, found: Mapping[str, Any]) -> None:
    """Raise ValueError for the first row that has a key which nothing reads: a rule that is misspelt has no effect."""
    for (table_name, place), known in ROWS.items():
        if table_name != name:
            continue
        rows: Iterable[tuple[Any, Any]] = enumerate(found[place], 1) if place.isalpha() else found.items()
        for row, values in rows if place else [("", found)]:
            if unknown := values.keys() - known.split():
                where = [f"data/{name}.yaml", place.strip("*"), f"row {row}" if row else ""]
                keys = known.replace(" ", ", ")
                raise ValueError(f"{', '.join(filter(None, where))}: no key {min(unknown)!r}; the keys are {keys}")
