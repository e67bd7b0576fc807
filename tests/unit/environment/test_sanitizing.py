"""``environment.sanitize``: in the image, and in the variables of trials."""

from __future__ import annotations

import dataclasses

import pytest

from reprokit.case.cellspec import CellSpec, Limits
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


@pytest.mark.parametrize("kind", sanitizing.COMPUTE)
def test_a_tool_for_the_gpu_runs_the_command_and_the_image_says_where_it_is_not(kind: str) -> None:
    spec = dataclasses.replace(sanitized(kind, python="3.11"), limits=Limits(gpus=1))
    assert sanitizing.unmet(spec) == ""
    assert sanitizing.variables(spec) == {"NVCC_APPEND_FLAGS": "-lineinfo"}
    tool, *words = sanitizing.command(spec)
    assert tool == sanitizing.COMPUTE_SANITIZER
    assert words[: words.index(spec.command[0])] == [
        *("--tool", kind, "--target-processes", "all", "--error-exitcode", "1")
    ]
    assert tuple(words[-len(spec.command) :]) == spec.command
    text = rendered(spec).dockerfile
    assert f"sanitize: {kind} needs compute-sanitizer, which this image does not have" in text
    assert text.index("NVCC_APPEND_FLAGS") < text.index("example") < text.index("needs compute-sanitizer")
    assert "sanitizer.so" not in text


def test_without_a_gpu_of_the_cell_it_is_not_run() -> None:
    assert "write resources.gpus: 1" in sanitizing.unmet(sanitized("memcheck", python="3.11"))
    assert sanitizing.unmet(sanitized("address", python="3.11")) == ""
    assert sanitizing.command(sanitized("address", python="3.11")) == sanitized("address", python="3.11").command
