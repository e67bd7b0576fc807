"""Which of the things with a version in a report the image of a draft installs with pip."""

from __future__ import annotations

from typing import Any

import pytest

from reprokit.intake.drafting import draft

PROGRAM = "```python\nimport scipy\nscipy.go()\n```\n\n```\nValueError: no\n```\n"


def pip(text: str) -> list[str]:
    """What is installed beside the package that the program imports."""
    found: dict[str, Any] = dict(draft(f"# It dies\n\n{text}\n\n{PROGRAM}").data.get("environment", {}))
    return [one for one in found.get("pip", []) if not one.startswith("scipy")]


@pytest.mark.parametrize(
    "text",
    [
        "Environment: Python 3.11.2, macOS Catalina 10.15.5, framework 1.5.1",
        "Python: 3.11.2\nGNU Make: 4.3\nversion: 1.2.3\nLibrary version: 4.5.6",
        "The image is lab/wobble:v0.4.2",
    ],
)
def test_what_nothing_shows_to_be_a_package_is_not_installed(text: str) -> None:
    assert pip(text) == []


@pytest.mark.parametrize(
    ("text", "installed"),
    [
        ("Python: 3.11.2\nwobble: 1.2.3\nnumpy: 1.26.4", ["wobble==1.2.3", "numpy==1.26.4"]),
        ("With wobble 1.2.3 it dies.\n\n```\n$ pip install wobble\n```", ["wobble==1.2.3"]),
        ("With wobble 1.2.3 it dies in /v/lib/python3.11/site-packages/wobble/x.py", ["wobble==1.2.3"]),
        (
            "Used:\n\n```console\nwob-lint --version\nwob-lint 26.3.0 using wob-core:2.20.3 wob-compat:25.12.1\n```",
            ["wob-lint==26.3.0", "wob-core==2.20.3", "wob-compat==25.12.1"],
        ),
        ("pyTorch_version: 1.6.0\nPython: 3.8.1\nnumpy: 1.19.1", ["torch==1.6.0", "numpy==1.19.1"]),
    ],
)
def test_what_is_listed_or_used_is_installed(text: str, installed: list[str]) -> None:
    assert sorted(pip(text)) == sorted(installed)


def test_what_is_not_installed_is_named_in_a_comment() -> None:
    made = draft(f"# It dies\n\nEnvironment: Python 3.11.2, macOS Catalina 10.15.5, framework 1.5.1\n\n{PROGRAM}")
    assert "not known as packages, and not installed: catalina 10.15.5" in str(made.notes["environment", "pip"])


def test_what_is_built_with_pytorch_comes_from_its_index() -> None:
    made = draft(f"# It dies\n\nPython: 3.10.2\ntorchvision: 0.20.1+cu124\n\n{PROGRAM}").data["environment"]
    assert "torchvision==0.20.1+cu124" in made["pip"]
    assert made["pip_options"] == ["--extra-index-url https://download.pytorch.org/whl/cu124"]


@pytest.mark.parametrize(
    ("rows", "installed"),
    [
        ("pandas: 2.0.3", ["pandas==2.0.3", "numpy<2"]),
        ("pandas: 2.2.2", ["pandas==2.2.2"]),
        ("pandas: 2.0.3\nnumpy: 1.24.4", ["pandas==2.0.3", "numpy==1.24.4"]),
    ],
)
def test_numpy_is_not_newer_than_what_is_built_with_it(rows: str, installed: list[str]) -> None:
    assert pip(f"Python: 3.11.2\n{rows}") == installed
