"""Which of the things with a version in a report the image of a draft installs with pip."""

from __future__ import annotations

from typing import Any

import pytest

from reprokit.case import placeholders
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
        "Python: 3.11.2\nGNU Make: 4.3\nNode.js: 18.1.0\nversion: 1.2.3\nLibrary version: 4.5.6\nwobble: 1.2.3",
        "This is torch 2.1.0 with numpy==1.26.4, and it works with 2.0.1.",
        "I do not use pip install wob==1, but conda.",
    ],
)
def test_what_nothing_shows_to_be_a_package_is_not_installed(text: str) -> None:
    assert pip(text) == []


@pytest.mark.parametrize(
    ("text", "installed"),
    [
        ("Python: 3.11.2\nnumpy: 1.26.4\nPyTorch version: 2.1.0", ["numpy==1.26.4", "torch==2.1.0"]),
        ("```\nattrs==22.1.0\nwobble==1.2.3\nnumpy==1.26.4\n```", ["attrs==22.1.0", "numpy==1.26.4", "wobble==1.2.3"]),
        ("```\n$ pip install wibble==1.2 1>a.txt 2>&1\n```", ["wibble==1.2"]),
    ],
)
def test_what_is_listed_or_installed_is_in_the_image(text: str, installed: list[str]) -> None:
    assert sorted(pip(text)) == installed


def test_a_version_in_which_environments_differ_is_an_axis() -> None:
    text = "".join(f"```\nPython: 3.11.2\ntorch: {one}\n```\n\n" for one in ("2.1.0", "2.2.0"))
    made = draft(f"# It dies\n\n{text}{PROGRAM}").data
    assert made["matrix"]["torch"] == ["2.1.0", "2.2.0"]
    assert "torch=={{ torch }}" in made["environment"]["pip"]


@pytest.mark.parametrize(
    ("listed", "options"),
    [
        (
            "paddlepaddle-gpu==2.6.2.post120",
            ["--extra-index-url https://www.paddlepaddle.org.cn/packages/stable/cu120/"],
        ),
        ("paddlepaddle-gpu==2.6.2", None),  # on Python's index
        ("torchvision==0.20.1+cu124", ["--extra-index-url https://download.pytorch.org/whl/cu124"]),
    ],
)
def test_a_build_for_cuda_comes_from_its_index(listed: str, options: list[str] | None) -> None:
    rows = f"```\n{listed}\nattrs==22.1.0\nnumpy==1.26.4\n```\n"
    environment = draft(f"# It dies\n\n{rows}\n{PROGRAM}").data["environment"]
    assert listed in environment["pip"]
    assert environment.get("pip_options") == options


def test_what_a_command_imports_is_installed_or_said() -> None:
    made = draft('# It ends\n\n```\n$ python -c "import scipy, wibble.go"\nValueError: x\n```\n')
    assert made.data["environment"]["pip"] == ["scipy=={{ scipy }}", "wibble=={{ wibble }}"]
    assert made.data["matrix"] == {name: [placeholders.MARK] for name in ("scipy", "wibble")}


def test_a_library_whose_absence_is_the_failure_is_not_installed() -> None:
    text = "- opencv-python: 4.5.5\n- OS: Ubuntu 20.04\n\n```\n$ python -c 'import cv2'\nImportError: {}\n```\n"
    missing = draft(text.format("libGL.so.1: cannot open shared object file: No such file or directory"))
    assert "apt" not in missing.data["environment"]
    assert "libgl1" in draft(text.format("numpy is too old")).data["environment"]["apt"]
