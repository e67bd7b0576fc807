"""Which command and which program a report's draft runs, by how the report shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reprokit.case import placeholders
from reprokit.intake import commands, pieces, programs
from reprokit.intake.draft import Draft
from reprokit.intake.drafting import draft

FAILS = "```\nwobble: error: cannot read the file\n```\n"
TRACE = (
    '```\nTraceback (most recent call last):\n  File "{}", line {}, in <module>\n    {}\nValueError: no wobble\n```\n'
)
ROLES = yaml.safe_load((Path(__file__).parent / "roles.yaml").read_text(encoding="utf-8"))


def made(text: str) -> Draft:
    return draft(f"# Wobble is broken\n\n{text}")


def command(text: str) -> str:
    found = str(made(text).data["command"]).strip()
    return "" if found == placeholders.COMMAND else found


@pytest.mark.parametrize(("line", "role"), ROLES.items())
def test_roles_of_lines(line: str, role: str) -> None:
    assert commands.role_of(line) == role


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```shell\nwobble check\n```\n", "wobble check"),  # a program in no table, alone in a shell's fence
        ("```\npython train.py --x 1 \\\n  --y\n```\n", "python train.py --x 1 \\\n  --y"),
        ("```sh\n(venv) me-MacBook:src me$ wobble go\nwobble: error: cannot open\n```\n", "wobble go"),
        ("```\nPS C:\\proj> python a.py --x\nKeyError: 'x'\n```\n", "python a.py --x"),
        ("Command: `wib-system-a -usb -drive file=a.img`\n", "wib-system-a -usb -drive file=a.img"),
        ("- `python fit.py --steps 2`\n", "python fit.py --steps 2"),
        ("```\n!python a.py --x\n```\n", "python a.py --x"),
        ("```\ncd /data/wobble\npython3 -m wobble\n```\n", "# line 4, not here: cd /data/wobble\npython3 -m wobble"),
        ("```\n$ pip install wibble==0.3\na.cpp:12:5: error: 'x' was not declared in this scope\n```\n",
         "pip install wibble==0.3"),
    ],
)  # fmt: skip
def test_a_command_behind_a_prompt_in_a_fence_or_in_a_form(text: str, found: str) -> None:
    assert command(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "I run python train.py --x 1, and it hangs.\n",
        "make sure that it works\n",
        "```sh\nwobble begins\nreading the file\nwobble: error: cannot read the file\n```\n",
        "```\nnumpy 1.26.4\nmake 4.3\nninja 1.11.1 pypi_0 pypi\n```\n",
        "```\npip list\nnvidia-smi\npython --version\n```\n",
        "It fails without a word about it.\n\n```shell\n_No response_\n```\n",
        "```\ng++ -m64 -I/usr/include -c a.cc\na.cc:3:4: error: no wob\n```\n",
    ],
)
def test_other_text_becomes_no_command(text: str) -> None:
    assert command(text) == ""


def test_of_several_commands_the_one_that_prints_the_failure_or_starts_its_script_is_run() -> None:
    other = "```\n$ python get.py --all\n```\n\n"
    assert command(f"{other}```\n$ python fit.py --x\n{TRACE.format('fit.py', 3, 'go()')[4:]}") == "python fit.py --x"
    assert (
        command(f"{other}```\n$ python fit.py --x\n```\n\n{TRACE.format('fit.py', 3, 'go()')}") == "python fit.py --x"
    )
    found = made(f"{other}```\n$ python fit.py --x\n```\n\n{FAILS}")
    assert found.data["command"] == placeholders.COMMAND
    assert any("line 4 (python get.py --all); line 8 (python fit.py --x)" in text for text in found.missing)


def test_variables_are_of_the_case_and_folders_of_the_machine_are_not() -> None:
    found = made("```\n$ export A=b PATH=/x\n$ B=c C=$D python a.py\nKeyError: 'x'\n```\n")
    assert found.data["env"] == {"A": "b"}
    assert found.data["command"] == "B=c C=$D python a.py"
    assert any("sets PATH to folders of the reporter's machine" in text for text in found.missing)


def test_a_command_with_something_to_fill_in_is_open() -> None:
    found = made("```\n$ python fit.py --data path/to/<name>\n```\n")
    assert found.data["command"].startswith(f"# {placeholders.MARK}: fill in")
    assert "The command contains placeholders (<...>, path/to, xxx): fill them in." in found.missing


def test_what_is_installed_and_cloned_is_of_the_image() -> None:
    text = """```bash
git clone https://git.example/o/wibble.git
cd wibble
git checkout v1.2
pip install numpy==1.26.4 --extra-index-url https://w.example/simple
sudo apt-get install -y libgl1
mkdir build && cd build
cmake .. && make -j4
```
"""
    found = made(text).data
    assert found["sources"] == {"wibble": {"git": "https://git.example/o/wibble", "ref": "v1.2", "path": "wibble"}}
    assert found["environment"] == {
        "apt": ["libgl1"], "pip": ["numpy==1.26.4"], "pip_options": ["--extra-index-url https://w.example/simple"],
    }  # fmt: skip
    lines = found["command"].split("\n")
    assert [line for line in lines if not line.startswith("#")] == [
        "cd wibble", "mkdir build && cd build", "cmake .. && make -j4", "",
    ]  # fmt: skip
    assert "resources" not in found


PROGRAM = "```python\nimport scipy\nx = scipy.wob()\nx.go(1)\n```\n\n"


def test_the_only_program_is_run_and_a_traceback_names_it() -> None:
    assert made(PROGRAM).data["command"] == "python repro.py"
    found = made(PROGRAM + TRACE.format("wobble_bug.py", 3, "x.go(1)")).data
    assert found["command"] == "python wobble_bug.py"
    assert found["files"] == {"wobble_bug.py": "import scipy\nx = scipy.wob()\nx.go(1)\n"}
    assert found["environment"]["pip"] == ["scipy=={{ scipy }}"]


def test_of_several_programs_the_one_whose_lines_a_traceback_shows_is_run() -> None:
    other = PROGRAM.replace("go(1)", "go(2)")
    assert made(PROGRAM + other).data["command"] == placeholders.COMMAND
    found = made(other + PROGRAM + TRACE.format("<stdin>", 3, "x.go(1)")).data
    assert "go(1)" in found["files"]["repro.py"]


def test_a_program_beside_a_command_that_starts_none_decides_nothing() -> None:
    found = made(f"```\n$ make check\n```\n\n{PROGRAM}{FAILS}")
    assert found.data["command"] == placeholders.COMMAND
    assert any("line 4 (make check); lines 8 to 10 (a program)" in text for text in found.missing)


def test_named_files_that_the_command_or_a_program_needs_are_in_the_case() -> None:
    text = (
        "`fit.py`\n\n```python\nimport lib\nlib.go('points.csv')\n```\n\n"
        "lib.py\n```python\ndef go(x): print(x)\n```\n\n"
        "points.csv\n```\nid,x\n1,2\n```\n\nunused.yaml\n```yaml\na: 1\n```\n\n```bash\npython fit.py\n```\n"
    )
    assert sorted(made(text).data["files"]) == ["fit.py", "lib.py", "points.csv"]


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("```pycon\n>>> import wib\n>>> for x in wib:\n...     x.go()\nTraceback\n```", "for x in wib:\n    x.go()"),
        ("```\nIn [1]: from wib import one\nIn [2]: one(2)\nOut[2]: True\n```", "from wib import one\none(2)"),
        ("```cpp\n#include <w.h>\nint main() {}\n```", "int main() {}"),
        ("```python\nmodel.fit(x,\n    ...\nfor\n```", "model.fit(x,"),
    ],
)
def test_programs_of_consoles_and_of_other_languages(text: str, program: str) -> None:
    (found,) = programs.find_scripts(pieces.cut_report(text).pieces)
    assert program in found.text


@pytest.mark.parametrize(
    "text", ["```\nimport org.wib.Wob;\n```", "```python\nimport torch\nprint(torch.__version__)\n```"]
)
def test_what_only_prints_versions_or_looks_like_python_is_not_a_program(text: str) -> None:
    assert not programs.find_scripts(pieces.cut_report(text).pieces)


def test_what_a_program_lacks_is_said() -> None:
    found = made("```python\nimport wibble\nmodel.fit(wibble.x)\n```\n")
    assert "repro.py uses model, but does not define or import it." in found.missing
    assert found.data["matrix"] == {"wibble": ["TODO(reprokit)"]}
    assert "repro.py is a part of a program: complete it." in made("```python\nx = (\n```\n").missing


def test_a_program_of_tests_is_run_by_pytest() -> None:
    found = made("```python\nfrom wob import go\n\n\ndef test_go():\n    assert go() == 1\n```\n").data
    assert found["command"] == "python -m pytest test_repro.py"
    assert found["environment"]["pip"] == ["wob=={{ wob }}", "pytest"]


def test_a_program_is_not_started_by_itself_where_the_text_names_a_command() -> None:
    found = made("```python\nfrom wob import go\n\n\ndef test_go():\n    go()\n```\nWith `pytest -rs`, not.\n")
    assert found.data["command"] == placeholders.COMMAND
    assert list(found.data["files"]) == ["test_repro.py"]
    assert any("line 10 (pytest -rs)" in text for text in found.missing)
    assert made("```python\nimport wob\nwob.go()\n```\nSee `wob.py` and `a b`.\n").data["command"] == "python repro.py"


def test_what_is_installed_is_not_taken_from_the_only_command_which_may_be_what_fails() -> None:
    report = "```console\n$ pip install wobble==0.3\n  × Failed to build `wib`\n```\n"
    assert "environment" not in made(report).data
    assert any("line 4 (pip install wobble==0.3)" in text for text in made(report).missing)
    assert made(f"{report}```console\n$ wobble\n```\n").data["environment"]["pip"] == ["wobble==0.3"]


def test_a_program_to_compile_has_no_command_where_the_report_shows_none() -> None:
    found = made("```c\n#include <w.h>\nint main(void) { return w(); }\n```\n")
    assert "TODO" in found.data["command"]
    assert "The report shows no command that compiles repro.c: write it under command." in found.missing
    assert list(found.data["files"]) == ["repro.c"]
