"""Clang: the distribution's packages, or a program of the host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reprokit.core.errors import Unsupported
from reprokit.environment.axes.clang import read_wording
from reprokit.environment.catalog import OURS
from reprokit.environment.comparing import compare
from tests.unit.environment.builders import measured, on_host, rendered, resolved, script

PROGRAMS = {"clang": {"/usr/bin/clang": "14.0.6", "/usr/bin/clang-16": "16.0.6"}}


def test_every_release_is_one_that_is_known() -> None:
    assert set(OURS.table("clang")) == {name for name, release in OURS.releases().items() if release.bootstraps}


@pytest.mark.parametrize(
    ("axes", "package"),
    [
        ({"clang": "16"}, "clang-16"),
        ({"clang": "14.0", "python": "none"}, "clang-14"),
        ({"os": "ubuntu-18.04", "clang": "6"}, "clang-6.0"),
    ],
)
def test_the_package_of_the_release(axes: dict[str, str], package: str) -> None:
    part = resolved(axes).parts["clang"]
    headers = () if axes.get("python") == "none" else ("python3-dev",)
    assert part.apt == (package, "make", *headers)
    text = rendered(axes).dockerfile
    assert f" && apt-get install -y {' '.join(part.apt)} \\" in text
    assert f" && ln -s /usr/bin/{package.replace('clang', 'clang++')} /usr/local/bin/clang++\n" in text


def test_a_version_that_the_release_does_not_have_is_refused_with_those_that_do() -> None:
    reason = (
        "clang 18 is not available on debian-12: its packages have 13.0.1, 14.0.6, 15.0.6, 16.0.6, 19.1.7; "
        "other releases have 18.1.8 on debian-13, 18.1.3 on ubuntu-24.04"
    )
    with pytest.raises(Unsupported, match=re.escape(reason)):
        resolved({"clang": "18"})


def test_the_venv_engine_uses_a_program_of_the_host() -> None:
    text = script({"clang": "16"}, programs=PROGRAMS)
    assert 'ln -s /usr/bin/clang-16 "$TOOLS"/clang\nln -s /usr/bin/clang++-16 "$TOOLS"/clang++\n' in text
    with pytest.raises(Unsupported, match=re.escape("clang 15: this host has 14.0.6, 16.0.6")):
        on_host({"clang": "15"}, programs=PROGRAMS)
    with pytest.raises(Unsupported, match=re.escape("clang none: this host has Clang 14.0.6")):
        on_host({"clang": "none"}, measured={"clang": "14.0.6"})


@pytest.mark.system
@pytest.mark.parametrize("who", ["Debian ", "Ubuntu ", ""])
def test_it_is_measured_by_what_the_program_says(tmp_path: Path, who: str) -> None:
    seen = measured(tmp_path, clang=f"{who}clang version 16.0.6 (15~deb12u1)\nTarget: x86_64-pc-linux-gnu")
    assert seen.further["clang"] == "16.0.6"
    assert compare({"clang": "16"}, seen) == []
    assert compare({"clang": "none"}, seen) == ["the cell asks for clang none, the image measures Clang 16.0.6"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Ubuntu clang version 14.0.0-1ubuntu1.1", "14.0.0"),
        ("clang-14", "14"),
        ("16.0.6", "16.0.6"),
        ("Apple clang version 14.0.0 (clang-1400.0.29.202)", ""),
        ("Could not collect", ""),
    ],
)
def test_how_reports_write_it(text: str, version: str) -> None:
    assert read_wording(text) == version
