"""``environment.pip_before`` as a user writes it, on the real engines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import own_cache, remove_image
from tests.integration.test_run import User
from tests.limited_pip import OLD, old_and_new
from tests.package_index import PackageIndex, sdist, wheel

pytestmark = pytest.mark.integration

OURS = "reprokittest"
"""How the names of projects begin that no other index has."""
CASE = """\
schema: reprokit/v1
id: packages-of-a-day
title: What is not pinned comes as it was on a day
matrix:
  day: [2021-05-04, 2030-01-01]
environment:
  pip:
    - [OURSdemo, OURSbuilt]
    - [OURSbuilder]
    - {requirements: [OURSapart], options: [--no-build-isolation]}
  pip_before: "{{ day }}"
  setup: pip install --target of_setup OURSdep
files:
  say.py: |
    import OURSdemo, OURSdep, OURSbuilt, OURSapart
    versions = OURSdemo.version, OURSdep.version, OURSbuilt.built_with, OURSapart.built_with
    print(*versions, open("of_setup/OURSdep.py").read())
command: |
  python say.py | tee said
  ! grep '^1.0 1.5 1.0 1.0 version = "1.5"$' said
expect:
  failure: {exit_code: 1, output: 1.0 1.5 1.0 1.0}
  reproduces: [{day: 2021-05-04}]
""".replace("OURS", OURS)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index on loopback beside that of this host, which has pip."""
    with old_and_new(OURS) as served:
        served.add(sdist(f"{OURS}apart", "1.0", f"{OURS}builder"), OLD)
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", served.address)
        yield served


@pytest.fixture
def user(index: PackageIndex, tmp_path: Path) -> Iterator[User]:
    someone = User(tmp_path)
    someone.write("case.yaml", CASE)
    someone.write("seen.txt", "")
    yield someone
    for tag in set(re.findall(r"reprokit/img:[0-9a-f]{32}", (tmp_path / "seen.txt").read_text())):
        remove_image(tag)


def note_images(user: User) -> None:
    """Remember what to remove."""
    with (user.folder / "seen.txt").open("a") as seen:
        seen.write(" ".join(cell["image"]["tag"] for cell in user.cells() if cell["image"]))


@pytest.mark.usefixtures("engine")
def test_packages_of_a_day_with_and_without_isolation_and_from_a_lock(user: User, index: PackageIndex) -> None:
    said = user.types("run", "case.yaml")
    note_images(user)
    assert "all as expected" in said
    there = {cell["cell"]["day"]: cell["environment"]["packages"]["pip"] for cell in user.cells()}
    assert there["2021-05-04"].items() >= {f"{OURS}demo": "1.0", f"{OURS}dep": "1.5", f"{OURS}builder": "1.0"}.items()
    assert there["2030-01-01"].items() >= {f"{OURS}demo": "2.0", f"{OURS}dep": "2.0", f"{OURS}builder": "2.0"}.items()

    # A later wheel of a version that was built from source is not what a lock holds. A locked setup reaches no index.
    index.add(wheel(f"{OURS}built", "1.0", code='version, built_with = "1.0", "no one"\n'), "2024-01-01T00:00:00Z")
    made = f"mkdir of_setup && echo 'version = \"1.5\"' > of_setup/{OURS}dep.py"
    user.write("case.yaml", re.sub(r"(?<=  setup: ).*", lambda _: made, CASE))
    user.types("lock", "case.yaml", "--only", "day=2021-05-04")
    assert f"{OURS}built-1.0.tar.gz" in (user.folder / "case.lock.yaml").read_text()
    said = user.types("run", "case.yaml", "--locked", "--only", "day=2021-05-04")
    note_images(user)
    assert "all as expected" in said


@pytest.mark.usefixtures("engine")
def test_an_index_without_times_fails_the_build_and_is_named(user: User, index: PackageIndex) -> None:
    index.html = True
    user.write("case.yaml", CASE.replace(f"{OURS}demo, {OURS}built", f"{OURS}built, {OURS}demo"))  # no layer has that
    said = user.types("run", "case.yaml", "--only", "day=2021-05-04", status=3)
    note_images(user)
    assert f"build-failed: environment.pip_before: {index.address}/{OURS}" in said
    assert "does not say when it received" in said


@pytest.mark.nightly
def test_virtual_environments_of_this_host_have_packages_of_a_day(index: PackageIndex, tmp_path: Path) -> None:
    with own_cache():
        user = User(tmp_path)
        user.write("case.yaml", CASE)
        said = user.types("run", "case.yaml", "--engine", "venv")
        assert "all as expected" in said
