"""CMake: a wheel in the virtual environment, in a step of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reprokit.core.errors import Unsupported
from reprokit.environment.axes.cmake import read_wording
from reprokit.environment.catalog import OURS
from reprokit.environment.comparing import compare
from reprokit.environment.versions import order
from tests.unit.environment.builders import artefact, measured, on_host, pins, rendered, resolved, script


@pytest.mark.parametrize(("asked", "version"), [("3.27", "3.27.9"), ("3", "3.31.10"), ("4.0.2", "4.0.2")])
def test_the_newest_wheel_that_the_value_names(asked: str, version: str) -> None:
    found = resolved({"cmake": asked})
    assert found.parts["cmake"].wheels == (f"cmake=={version}",)
    assert found.served_by["cmake"] == f"wheels cmake=={version}"
    assert found.to_json()["cmake"] == version


def test_wheels_are_listed_oldest_first() -> None:
    wheels = OURS.rows("cmake", "wheels")
    assert list(wheels) == sorted(wheels, key=order)


@pytest.mark.parametrize(
    ("axes", "reason"),
    [
        ({"cmake": "3.99"}, "cmake 3.99 is not available: PyPI has wheels of 3.18, 3.20"),
        ({"cmake": "3.27", "python": "none"}, "cmake 3.27.9 from wheels need an interpreter with pip"),
    ],
)
def test_what_cannot_be_installed_is_refused(axes: dict[str, str], reason: str) -> None:
    with pytest.raises(Unsupported, match=re.escape(reason)):
        resolved(axes)


def test_nothing_is_installed_without_the_axis_or_for_none() -> None:
    assert resolved({}).parts == resolved({"cmake": "none"}).parts == {}
    assert rendered({"cmake": "none"}).dockerfile == rendered({}).dockerfile


def test_it_has_a_step_between_large_packages_and_the_others() -> None:
    text = rendered({"cmake": "3.27"}, pip=("torch==2.0.1", "six")).dockerfile
    steps = [
        text.index(f"pip install {words}") for words in ("pip==", "torch==2.0.1", "cmake==3.27.9", "torch==2.0.1 six")
    ]
    assert steps == sorted(steps)


def test_a_lock_pins_it_in_its_own_step_and_nowhere_else() -> None:
    held = pins(pip=(artefact("cmake", "3.27.9"), artefact("six", "1.16.0")), apt={"python3": "3.11"})
    image = rendered({"cmake": "3.27"}, held, pip=("six",))
    assert image.context["reprokit/axis_cmake.lock"] == artefact("cmake", "3.27.9").requirement.encode() + b"\n"
    assert b"cmake" not in bytes(image.context["reprokit/pip_small.lock"])  # type: ignore[arg-type]
    assert "-r /run/reprokit/axis_cmake.lock" in image.dockerfile


def test_the_venv_engine_installs_it_with_the_environments_own_pip() -> None:
    assert "\npip install cmake==4.0.3\n" in script({"cmake": "4.0"})
    with pytest.raises(Unsupported, match=re.escape("cmake none: this host has CMake 3.25.1")):
        on_host({"cmake": "none"}, measured={"cmake": "3.25.1"})


def test_it_is_measured_by_what_the_program_says(tmp_path: Path) -> None:
    seen = measured(tmp_path, cmake="cmake version 3.31.0\n\nCMake suite maintained and supported by Kitware")
    assert seen.further["cmake"] == "3.31.0"
    assert compare({"cmake": "3.31"}, seen) == compare({"cmake": "3.31.0.1"}, seen) == []
    assert compare({"cmake": "4.0"}, seen) == ["the cell asks for cmake 4.0, the image measures CMake 3.31.0"]


@pytest.mark.parametrize("text", ["cmake version 3.22.1", "CMake 3.22.1", "version 3.22.1", "3.22.1"])
def test_how_reports_write_it(text: str) -> None:
    assert (read_wording(text), read_wording("Could not collect")) == ("3.22.1", "")
