"""The registry of axes: complete, in order, and all that a new axis needs is one file."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from reprokit.environment import probe
from reprokit.environment.axes import AXES, AXIS_NAMES, RESOLVING
from reprokit.environment.axis import Axis
from reprokit.environment.catalog import OURS
from reprokit.environment.comparing import Compared, compare, compared
from reprokit.environment.measured import FURTHER, Measured

ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "reprokit" / "environment" / "axes"


def test_every_file_of_the_folder_is_an_axis_and_the_first_five_keep_their_order() -> None:
    assert AXIS_NAMES[:5] == ("os", "python", "gcc", "cuda", "cudnn")
    assert len(AXES) == len([path for path in FOLDER.glob("*.py") if path.name != "__init__.py"])
    assert (
        len(set(AXIS_NAMES)) == len({axis.place for axis in AXES}) == len({axis.matters for axis in AXES}) == len(AXES)
    )


def test_an_axis_is_resolved_behind_those_that_decide_on_it() -> None:
    before: set[str] = set()
    for axis in RESOLVING:
        assert set(axis.after) <= before
        before.add(axis.name)


def test_the_scripts_that_measure_are_plain_sh() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    words = [str(shellcheck), "--shell=sh", "-"]
    done = subprocess.run(words, input=probe.command()[2], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_no_part_of_an_axis_can_be_left_out() -> None:
    assert [one.name for one in dataclasses.fields(Axis) if one.default is not dataclasses.MISSING] == []
    assert [one.name for one in dataclasses.fields(Axis) if one.default_factory is not dataclasses.MISSING] == []
    values = {one.name: getattr(AXES[0], one.name) for one in dataclasses.fields(Axis)}
    del values["measure"]
    with pytest.raises(TypeError, match="measure"):
        Axis(**values)


@pytest.mark.parametrize("axis", AXES, ids=AXIS_NAMES)
def test_every_axis_is_measured_as_missing_where_the_probe_prints_nothing_of_it(axis: Axis) -> None:
    assert axis.measure.read({}) is None
    nothing = Measured.parse("##end\n").versions
    if axis.syntax.versions:
        assert axis.differs("none", nothing, OURS) == ""
    else:
        assert axis.differs("debian-12", nothing, OURS) == "the cell asks for os debian-12, the image is unknown"


@pytest.mark.parametrize("axis", FURTHER, ids=lambda axis: axis.name)
def test_an_environment_that_was_recorded_before_an_axis_existed_is_not_said_to_differ(axis: Axis) -> None:
    old = Measured.from_json({"python": "3.11.2", "os": "debian-12"})
    assert compare({axis.name: "1"}, old) == []
    new = Measured.parse("##end\n")
    assert compare({axis.name: "1"}, new) == [f"the cell asks for {axis.name} 1, the image has no {axis.title}"]
    assert compare({axis.name: "1"}, Measured.from_json(new.to_json())) == compare({axis.name: "1"}, new)


@pytest.mark.system
def test_a_new_axis_is_one_file(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "reprokit", tmp_path / "reprokit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "dockerfiles", tmp_path / "dockerfiles")
    text = (FOLDER / "cmake.py").read_text().replace("cmake", "madeup").replace("CMake", "Made-up")
    text = text.replace('catalog.rows("madeup", "wheels")', '("3.27.9", "4.0.3")')  # or a table that sites add to
    text = text.replace("place=60", "place=65").replace("matters=60", "matters=65")
    (tmp_path / "reprokit" / "environment" / "axes" / "madeup.py").write_text(text)
    program = """
        import sys
        from reprokit.environment import probe, dockerfile
        from reprokit.environment.comparing import compare
        from reprokit.environment.resolving import resolve
        from reprokit.environment.supply import Supply
        from reprokit.environment.cases import json_schema, load_text
        from reprokit.environment.measured import Measured
        from reprokit.case.render import render

        file = load_text("x.yaml", sys.argv[1])
        spec = render(file.case, {"madeup": "3.27"})
        environment = resolve(spec, Supply(base_source="bootstrap"))
        text = dockerfile.render(environment, spec, sources={}, given_datasets=set()).dockerfile
        assert "pip install madeup==3.27.9" in text, text
        assert "section madeup; madeup --version" in probe.command()[2]
        said = compare({"madeup": "3.27"}, Measured.parse("##madeup\\nmadeup version 4.0.3\\n##end\\n"))
        assert said == ["the cell asks for madeup 3.27, the image measures Made-up 4.0.3"], said
        assert "madeup" in json_schema()["$defs"]["Matrix"]["properties"]
        assert environment.to_json()["madeup"] == "3.27.9"
        print("as one file says")
    """
    case = 'schema: reprokit/v1\nid: x\ntitle: x\nmatrix: {madeup: ["3.27"]}\ncommand: "true"\n'
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", textwrap.dedent(program), case]
    done = subprocess.run(words, capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=120)
    assert done.stdout == "as one file says\n", done.stderr
    listed = [sys.executable, "-m", "reprokit", "validate", "--help"]
    done = subprocess.run(listed, capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=120)
    assert "--madeup A,B" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("asked", "measured", "differs"),
    [
        ("2.13.0+cpu", "2.13.0+cpu", False),
        ("2.13.0", "2.13.0+cpu", False),
        ("2.13", "2.13.0+cpu", False),
        ("2.13.0+cu118", "2.13.0+cpu", True),
        ("2.13.0+cpu", "2.13.0", True),
        ("2.12", "2.13.0+cpu", True),
        ("nightly", "2.13.0+cpu", None),
    ],
)
def test_a_free_axis_that_names_a_package_is_compared_with_what_is_installed_and_decides_nothing(
    asked: str, measured: str, differs: bool | None
) -> None:
    image = Measured(packages={"pip": {"Some_Torch": measured}, "apt": {}})
    (found,) = compared({"some-torch": asked}, image)
    words = f"the cell asks for some-torch {asked}, the image measures {measured}" if differs else ""
    assert (found.measured, found.differs) == (None if differs is None else measured, words)
    assert compare({"some-torch": asked}, image) == []
    assert compared({"some-torch": asked, "python": "3"}, None) == [
        Compared(axis="some-torch", asked=asked),
        Compared(axis="python", asked="3"),
    ]
