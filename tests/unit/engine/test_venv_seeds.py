"""What new environments start from: which builds share one, when it no longer counts, and how a copy finds itself."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.cellspec import PipStepSpec
from reprokit.case.trust import Trust
from reprokit.engine.protocol import Build
from reprokit.engine.venv import keeping, layout, seeds
from reprokit.environment import dockerfile
from reprokit.environment.on_host import resolve_on
from tests.unit.engine.test_venv import HOST, spec


def build_of(python: str = "3.11", trust: Trust = Trust.OWN, pip: str = "", **changes: Any) -> Build:
    steps = (PipStepSpec(requirements=(pip,)),) if pip else ()
    asked = spec({"python": python}, pip=steps, **changes)
    rendered = dockerfile.render(resolve_on(HOST, asked), asked, sources={}, given_datasets=set())
    return Build(tag=rendered.tag("host"), dockerfile=rendered.dockerfile, context=rendered.context, trust=trust)


def tag(build: Build) -> str:
    seed = seeds.of(build)
    assert seed is not None
    return seed.tag


def test_environments_of_one_python_and_pip_start_from_the_same() -> None:
    one = tag(build_of(pip="six"))
    assert one == tag(build_of(pip="numpy<2", workdir="/elsewhere", setup="true"))
    others = [build_of(), build_of("3.9", pip="six"), build_of(pip="six", trust=Trust.REVIEWED)]
    assert len({one, *map(tag, others)}) == 4


def test_nothing_of_a_case_is_in_it_and_its_paths_are_as_long() -> None:
    build = build_of(pip="six", setup="echo mine", files={"mine.py": "x"})
    seed = seeds.of(build)
    assert seed is not None
    assert set(seed.context) == {"reprokit/venv.json", "reprokit/keeping_pip.py", "reprokit/relay.py"}
    assert "six" not in seed.dockerfile
    assert "pip install pip==24.0" in seed.dockerfile
    assert len(seed.tag.rpartition(":")[2]) == len(build.tag.rpartition(":")[2])
    assert seeds.of(Build(tag="reprokit/venv:x", dockerfile="", context={})) is None


def record(content: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
    return f"sha256={digest},{len(content)}"


@pytest.fixture
def seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> keeping.KeptVenv:
    """One with a program and a module."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(layout, "owner", lambda: None)
    folder = keeping.top() / "environments" / ("a" * 32)
    site = folder / "venv" / "lib" / "python3.11" / "site-packages"
    (site / "pip-24.0.dist-info").mkdir(parents=True)
    (folder / "venv" / "bin").mkdir()
    program = f"#!{folder}/venv/bin/python\nimport pip\n"
    files = {
        folder / "venv" / "bin" / "pip": program,
        folder / "venv" / "pyvenv.cfg": f"home = /usr/bin\ncommand = python3 -m venv {folder}/venv\n",
        site / "pip.py": f"# not {folder}/venv\n",
        site / "pip-24.0.dist-info" / "RECORD": f"../../../bin/pip,{record(program)}\npip.py,sha256=x,1\n",
    }
    for place, text in files.items():
        place.write_text(text)
    (folder / "venv" / "bin" / "pip").chmod(0o755)
    (folder / "venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    os.utime(site / "pip.py", ns=(10**18, 10**18 + 5))
    described = {"state": seeds.state(), "files": seeds.files(folder)}
    return keeping.complete(folder, f"reprokit/venv-seed:{'a' * 32}", described)


def test_a_copy_finds_itself_and_its_record_is_true(seed: keeping.KeptVenv) -> None:
    os.utime(seed.folder / keeping.DESCRIPTION, (0, 0))
    folder = seed.folder.with_name("b" * 32)
    folder.mkdir()
    seeds.copy(seed, folder)
    venv, site = folder / "venv", folder / "venv/lib/python3.11/site-packages"
    program = (venv / "bin" / "pip").read_text()
    assert program == f"#!{venv}/bin/python\nimport pip\n"
    assert (venv / "bin" / "pip").stat().st_mode & 0o777 == 0o755
    assert (venv / "pyvenv.cfg").read_text().endswith(f"-m venv {venv}\n")
    assert (site / "pip-24.0.dist-info" / "RECORD").read_text().startswith(f"../../../bin/pip,{record(program)}\n")
    assert (venv / "bin" / "python").readlink() == Path("/usr/bin/python3")
    assert (site / "pip.py").stat().st_mtime_ns == 10**18 + 5, "what is compiled counts by the time of its source"
    assert seeds.is_sound(seed), "the seed is as it was"
    assert (seed.folder / keeping.DESCRIPTION).stat().st_mtime > 0, "when it was used last, for gc"


@pytest.mark.parametrize("how", ["lost", "cut", "added", "written", "link", "folder", "all", "host"])
def test_one_that_changed_no_longer_counts(seed: keeping.KeptVenv, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seeds.is_sound(seed)
    site = seed.folder / "venv/lib/python3.11/site-packages"
    if how == "lost":
        (site / "pip.py").unlink()
    elif how == "cut":
        os.truncate(site / "pip.py", 3)
        os.utime(site / "pip.py", ns=(10**18, 10**18 + 5))
    elif how == "added":
        (site / "sitecustomize.py").touch()
    elif how == "written":
        (site / "pip.py").write_text((site / "pip.py").read_text().upper())
    elif how == "link":
        (seed.folder / "venv" / "bin" / "python").unlink()
        (seed.folder / "venv" / "bin" / "python").symlink_to("/usr/bin/python2")
    elif how == "folder":
        (site / "empty").mkdir()
    elif how == "all":
        shutil.rmtree(seed.folder / "venv")
    else:
        monkeypatch.setattr(keeping, "host_state", lambda: "after an upgrade of the host's packages")
    assert not seeds.is_sound(seed)


def test_one_without_a_description_of_ours_does_not_count(seed: keeping.KeptVenv) -> None:
    (seed.folder / keeping.DESCRIPTION).write_text(json.dumps({"tag": seed.description["tag"]}))
    found = keeping.find(seed.description["tag"])
    assert found is not None
    assert not seeds.is_sound(found)
