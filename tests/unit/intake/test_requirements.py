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
        ("pyTorch_version: 1.6.0\nPython: 3.8.1\nnumpy: 1.19.1", ["torch==1.6.0", "numpy==1.19.1"]),
    ],
)
def test_what_is_listed_or_used_is_installed(text: str, installed: list[str]) -> None:
    assert sorted(pip(text)) == sorted(installed)


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("2.6.2.post120", ["--extra-index-url https://www.paddlepaddle.org.cn/packages/stable/cu120/"]),
        ("2.6.2", None),  # on Python's index
    ],
)
def test_a_build_of_paddlepaddle_for_cuda_comes_from_its_index(version: str, options: list[str] | None) -> None:
    listed = f"```\npaddlepaddle-gpu=={version}\nnumpy==1.26.4\n```\n"
    found = draft(f"# It dies\n\n{listed}\n```python\nimport paddle\n```\n")
    environment = found.data["environment"]
    assert f"paddlepaddle-gpu=={version}" in environment["pip"]
    assert environment.get("pip_options") == options


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


def test_where_the_output_of_pip_goes_is_not_installed() -> None:
    data = draft("# It ends\n\n```\n$ pip install wibble==1.2 1>a.txt 2>&1\n$ python -m wibble\nfatal: x\n```\n").data
    assert data["environment"]["pip"] == ["wibble==1.2"]


def test_a_package_is_called_by_its_own_name_where_a_program_has_another() -> None:
    text = "```python\nimport wibble as wb\nwb.go()\n```\n\n```\nwb==1.7.2 scipy==1.6.3 anndata==0.7.6\n```\n"
    pip = draft(f"# It ends\n\n{text}").data["environment"]["pip"]
    assert not [one for one in pip if one.startswith("wb")]


def test_the_numpy_that_is_listed_is_installed_beside_what_needs_an_old_one() -> None:
    listed = "numpy==1.18.4\ntensorflow==2.2.0\nscipy==1.3.1"
    text = f"# It ends\n\n```\n$ pip install numpy\nfatal: x\n```\n\n```\n{listed}\n```\n"
    assert "numpy==1.18.4" in draft(text).data["environment"]["pip"]


def test_sql_is_not_run_by_sqlite_where_another_database_is_meant() -> None:
    sql = "```sql\ncreate table wob (a int);\nselect a from wob;\n```\n"
    assert "sqlite3" in draft(f"# SQLite gives a wrong sum\n\n{sql}").data["command"]
    assert "TODO(reprokit)" in draft(f"# Hive gives a wrong sum\n\n{sql}").data["command"]


def test_imports_of_java_are_not_a_program_of_python() -> None:
    java = "import org.wib.Wob;\n\npublic class Go {\n  public static void main(String[] a) {\n"
    java += "    new Wob().go();\n  }\n}\n"
    files = draft(f"# It hangs\n\n{java}").data["files"]
    assert [name.rpartition(".")[2] for name in files] == ["java"]


def test_what_a_command_imports_is_installed_or_said() -> None:
    made = draft('# It ends\n\n```\n$ python -c "import scipy, wibble.go"\nValueError: x\n```\n')
    assert made.data["environment"]["pip"] == ["scipy"]
    assert any(text.startswith("The command or its traceback imports wibble: ") for text in made.missing)
