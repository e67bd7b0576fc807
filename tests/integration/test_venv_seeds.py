"""What environments of ``--engine venv`` start from: made once, by whoever is first, and out of every build's reach."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reprokit.core.errors import BuildFailed, Cancelled
from reprokit.engine.protocol import Build
from reprokit.engine.site import Site
from reprokit.engine.venv import building, keeping, seeds
from reprokit.environment.model import Python
from tests.conftest import never, reachable_cache
from tests.integration.test_run import User

pytestmark = pytest.mark.integration

SCRIPT = """\
step() {{ printf '\\036%s\\n' "$*"; }}
step 'make {name}'
set -e
python3 -m venv --without-pip "$VENV"
cat /proc/sys/kernel/random/uuid > "$VENV/made"
{more}
"""


@pytest.fixture(scope="module")
def cache(venv_sandbox: None) -> Iterator[Path]:
    with reachable_cache() as folder:
        yield folder


@pytest.fixture
def name() -> str:
    """Of a Python that no other test has."""
    return uuid.uuid4().hex


def build_of(name: str, script: str = "true", more: str = "true") -> Build:
    context = {
        seeds.SCRIPT: SCRIPT.format(name=name, more=more).encode(),
        seeds.DESCRIPTION: b'{"workdir": "/workspace", "prefix": "/usr"}',
        "reprokit/keeping_pip.py": b"",
        "reprokit/relay.py": b"",
    }
    script = f'step() {{ printf "\\036%s\\n" "$*"; }}\nset -e\nstep mine\n{script}\n'
    return Build(tag=f"reprokit/venv:{uuid.uuid4().hex}", dockerfile=script, context=context)


def made(build: Build, said: list[str] | None = None) -> str:
    """What tells the seed that an environment started from."""
    log: list[str] = [] if said is None else said
    building.build(build, Site(), lambda progress: log.append(progress.log or f"# {progress.name}\n"), never())
    return (keeping.get(build.tag).folder / "venv" / "made").read_text()


def seed_of(build: Build) -> Path:
    seed = seeds.of(build)
    assert seed is not None
    kept = keeping.find(seed.tag)
    assert kept is not None
    return kept.folder


def test_it_is_made_once_also_by_several_at_a_time(cache: Path, name: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        several = list(pool.map(lambda _: made(build_of(name)), range(3)))
    assert len(set(several)) == 1
    said: list[str] = []
    assert made(build_of(name), said) == several[0]
    assert said == ["# mine\n"], "the step that makes it is not shown where it was not made"


def test_no_build_reaches_it(cache: Path, name: str) -> None:
    first = made(build := build_of(name))
    seed = seed_of(build)
    script = f'echo x > "{seed}/venv/made" || true; ls "{seed}" || true; ls "{seed.parent}"; echo x > "$VENV/made"'
    said: list[str] = []
    assert made(other := build_of(name, script), said) == "x\n", "its own copy is its own"
    text = "".join(said)
    assert text.count("No such file or directory") == 2, text
    assert text.rpartition("\n# ")[2].split()[-1] == keeping.get(other.tag).folder.name, "it sees itself alone"
    assert made(build_of(name)) == first


@pytest.mark.parametrize("how", ["damaged", "half-made", "removed"])
def test_one_that_is_not_in_order_is_made_again(cache: Path, name: str, how: str) -> None:
    first = made(build := build_of(name))
    seed = seed_of(build)
    if how == "damaged":
        (seed / "venv" / "pyvenv.cfg").write_text("")
    elif how == "half-made":
        (seed / keeping.DESCRIPTION).unlink()
    else:
        (one,) = [one for one in keeping.kept() if one.parts.keys() == {str(seed)}]
        assert keeping.discard(one)
    again = made(other := build_of(name))
    assert again != first
    assert seed_of(other) == seed
    assert "home = " in (keeping.get(other.tag).folder / "venv" / "pyvenv.cfg").read_text()


def test_one_that_cannot_be_made_fails_the_build_and_stays_nowhere(cache: Path, name: str) -> None:
    with pytest.raises(BuildFailed) as failed:
        made(build := build_of(name, more="echo no way; exit 3"))
    assert failed.value.step == f"make {name}"
    assert "no way" in failed.value.tail
    with pytest.raises(AssertionError):
        seed_of(build)
    assert keeping.find(build.tag) is None


def test_a_cancelled_build_leaves_none(cache: Path, name: str) -> None:
    cancel = threading.Event()
    build = build_of(name, more="sleep 600")
    with pytest.raises(Cancelled):
        building.build(build, Site(), lambda _: cancel.set(), cancel)
    with pytest.raises(AssertionError):
        seed_of(build)


CASE = """\
schema: reprokit/v1
id: venv-seeded
title: An environment with pip
environment: {pip: ["six==1.16.0"]}
files:
  check.py: |
    import base64, hashlib, importlib.util, pathlib, subprocess, sys, sysconfig
    site = pathlib.Path(sysconfig.get_path("purelib"))
    [record] = site.glob("pip-*.dist-info/RECORD")
    for line in record.read_text().splitlines():
        name, digest, size = line.rsplit(",", 2)
        if digest:
            text = (site / name).read_bytes()
            found = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == ("sha256=" + found, len(text)), line
    said = subprocess.check_output(["pip", "--version"], text=True)
    assert str(site) in said, said
    import pip
    assert pathlib.Path(importlib.util.cache_from_source(pip.__file__)).exists(), "compiled"
command: python check.py
expect: {failure: {exit_code: nonzero}, reproduces: none}
"""


def test_pip_of_an_environment_is_as_if_it_had_been_installed_there(cache: Path, tmp_path: Path) -> None:
    user = User(tmp_path)
    user.write("case.yaml", CASE)
    user.types("run", "case.yaml", "--engine", "venv")
    (cell,) = user.cells()
    assert cell["verdict"] == "not-reproduced", cell["reason"]
    packages = cell["environment"]["packages"]["pip"]
    assert (packages["pip"], packages["six"]) == (Python(version=cell["environment"]["python"]).pip, "1.16.0")
    assert {"reprokit/venv", "reprokit/venv-seed"} <= {one.key.partition(":")[0] for one in keeping.kept()}
