"""``environment.sanitize``: in the image, and in the variables of trials."""

from __future__ import annotations

import dataclasses

import pytest

from reprokit.case.cellspec import CellSpec
from reprokit.environment import sanitizing
from tests.unit.environment.test_dockerfile import cell, rendered


def sanitized(kind: str, **axes: str) -> CellSpec:
    plain = cell({"os": "debian-12", **axes}, pip=["example"])
    return dataclasses.replace(plain, environment=dataclasses.replace(plain.environment, sanitize=kind))  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "library"), [("address", "asan"), ("thread", "tsan"), ("undefined", "ubsan")])
def test_what_is_compiled_gets_the_flags_and_what_interprets_the_library(kind: str, library: str) -> None:
    text = rendered(sanitized(kind, python="3.11", gcc="12")).dockerfile
    flags = f'CFLAGS="-fsanitize={kind} -fno-omit-frame-pointer -g"'
    assert flags in text
    assert text.index(flags) < text.index("example")
    assert f"lib{library}.so" in text
    variables = sanitizing.variables(sanitized(kind, python="3.11"))
    assert variables["LD_PRELOAD"] == sanitizing.PRELOADED
    assert variables["CXXFLAGS"].startswith(f"-fsanitize={kind}")


def test_leaks_are_looked_for_where_no_interpreter_leaks_by_design() -> None:
    assert "detect_leaks=0" in sanitizing.variables(sanitized("address", python="3.11"))["ASAN_OPTIONS"]
    alone = sanitizing.variables(sanitized("address", gcc="12"))
    assert "detect_leaks" not in alone["ASAN_OPTIONS"]
    assert "LD_PRELOAD" not in alone


def test_without_it_nothing_changes() -> None:
    assert sanitizing.variables(cell({"os": "debian-12", "python": "3.11"})) == {}
    assert "fsanitize" not in rendered(cell({"os": "debian-12", "python": "3.11"}, pip=["example"])).dockerfile
