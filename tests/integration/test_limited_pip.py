"""dockerfiles/pip_before.py as the pips of our environments run it, against an index on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.environment.model import PIPS
from tests.limited_pip import DAY, NEW, OLD, SCRIPTS, Installed, LimitedPip, old_and_new
from tests.package_index import PackageIndex, package_index, sdist, wheel

pytestmark = pytest.mark.integration

PYTHONS = {
    "20.3.4": ("2.7", "3.8", "3.9"),
    "21.3.1": ("3.6", "3.9", "3.10"),
    "24.0": ("3.12", "3.11", "3.10", "3.9", "3.8"),
    "25.3": ("3.14", "3.13", "3.12", "3.11", "3.10"),
}
"""A pip -> the Pythons with which it is tried, of which the first that is here is taken."""


def interpreter(version: str) -> str:
    """A Python of this host; '' for none."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += [path / "bin" for path in (Path.home() / ".pyenv" / "versions").glob(f"{version}.*")]
    programs = [folder / f"python{version}" for folder in folders if "shims" not in folder.parts]
    return next((str(path) for path in programs if path.is_file()), "")


@pytest.fixture(
    scope="module", params=["25.3", *(pytest.param(one, marks=pytest.mark.nightly) for one in PYTHONS if one != "25.3")]
)
def pip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LimitedPip:
    """Each pip that our environments have; skipped without a Python for it, or an index that has it."""
    version: str = request.param
    python = next(filter(None, map(interpreter, PYTHONS[version])), "")
    if not python:
        pytest.skip(f"no Python for pip {version} on this host")
    folder = tmp_path_factory.mktemp("pip")
    words = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), f"pip=={version}"]
    own = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    if own.returncode:
        pytest.skip(f"pip {version} cannot be fetched on this host")
    zipfile.ZipFile(next(folder.glob("*.whl"))).extractall(folder / "package")
    (folder / "scratch").mkdir()
    return LimitedPip(python=python, scratch=folder / "scratch", package=folder / "package")


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    """An index with old and new files."""
    with old_and_new() as served:
        yield served


def test_all_pips_of_our_environments_are_tried() -> None:
    assert set(PYTHONS) == set(PIPS.values())


def test_dependencies_come_as_they_were(pip: LimitedPip, index: PackageIndex) -> None:
    assert pip(index, "demo").versions == {"demo": "1.0", "dep": "1.5"}
    assert pip(index, "demo", before="2021-05-04T00:00:01Z").versions == {"demo": "2.0", "dep": "1.5"}
    assert pip(index, "demo", before="").versions == {"demo": "2.0", "dep": "2.0"}


def test_a_source_distribution_is_built_with_what_there_was(pip: LimitedPip, index: PackageIndex) -> None:
    assert "built_with = '1.0'" in pip(index, "built").modules["built"]
    assert "built_with = '2.0'" in pip(index, "built", before="").modules["built"]


def test_a_pinned_version_comes_whenever_it_was_received_and_what_it_needs_as_it_was(
    pip: LimitedPip, index: PackageIndex
) -> None:
    assert pip(index, "demo==2.0").versions == {"demo": "2.0", "dep": "1.5"}
    index.add(wheel("whole", "1.0", requires=("dep==2.0",)), OLD)
    assert pip(index, "whole").versions == {"whole": "1.0", "dep": "2.0"}


def test_what_only_came_later_is_refused_and_the_reason_says_what_hides_it(
    pip: LimitedPip, index: PackageIndex
) -> None:
    found = pip(index, "demo>=2")
    assert found.status == 1
    assert "ERROR: No matching distribution found for demo>=2" in found.output
    assert found.output.endswith(f"reprokit: environment.pip_before: the limit {DAY} hid 1 of 2 files of demo\n")
    assert found.reason.startswith(
        f"no file of demo>=2 that fits was received before {DAY}: environment.pip_before hides 1 of 2 files of demo; "
        "ask for an earlier version, or move"
    )


def test_an_index_that_does_not_say_when_it_received_a_file_ends_it(pip: LimitedPip, index: PackageIndex) -> None:
    index.add(wheel("odd", "1.0"), "9999-99-99")
    found = pip(index, "odd")
    assert found.status == 1
    assert (
        f"ERROR: environment.pip_before: {index.address}/odd/ does not say when it received odd-1.0-py2" in found.output
    )
    assert found.modules == {}
    assert "127.0.0.1" in found.reason
    assert "pin the version (odd==...), use an index that says so" in found.reason
    pinned = pip(index, "odd==1.0")
    assert pinned.versions == {"odd": "1.0"}
    assert "odd-1.0-py2.py3-none-any.whl is pinned: " in pinned.output


def test_files_of_an_index_that_does_not_say_are_left_out_where_another_does(
    pip: LimitedPip, index: PackageIndex
) -> None:
    undated = PackageIndex(html=True)
    for version in ("0.5", "1.0", "1.7", "2.0"):
        undated.add(wheel("dep", version, code=f"version = '{version}'; of_the_other_index = True\n"), None)
    with package_index(undated):
        both = ("--extra-index-url", undated.address)
        found = pip(index, "demo", *both)
        assert found.versions == {"demo": "1.0", "dep": "1.5"}
        assert f"files of {undated.address}/dep/ are not used: it does not say when" in found.output
        assert "other" not in pip(index, "dep==1.0", *both).modules["dep"]
        assert "is pinned: " in pip(index, "dep==1.7", *both).output
        late = pip(index, "dep==2.0", *both)  # the other index says when it received this version
        assert "other" not in late.modules["dep"]
        assert "is pinned: " not in late.output


def test_an_index_of_html_alone_ends_it(pip: LimitedPip, index: PackageIndex) -> None:
    index.html = True
    for name in ("demo", "demo>=1", "demo==1.*"):
        found = pip(index, name)
        assert found.status == 1
        assert f"ERROR: environment.pip_before: {index.address}/demo/ does not say when it received" in found.output
    dependency = pip(index, "demo==1.0")
    assert f"environment.pip_before: {index.address}/dep/ does not say" in dependency.output
    assert dependency.modules == {}


def test_an_isolated_build_ends_as_well_where_the_index_does_not_say(pip: LimitedPip, index: PackageIndex) -> None:
    index.times |= {f"builder-{version}-py2.py3-none-any.whl": None for version in ("1.0", "2.0")}
    found = pip(index, "built")
    assert found.status == 1
    assert f"environment.pip_before: {index.address}/builder/ does not say" in found.output


def test_an_index_that_refuses_json_has_nothing(pip: LimitedPip, index: PackageIndex) -> None:
    index.strict = True
    found = pip(index, "demo")
    assert found.status == 1
    assert "No matching distribution found for demo" in found.output
    assert "of files of" not in found.output


def test_an_index_that_is_busy_once_is_asked_again(pip: LimitedPip, index: PackageIndex) -> None:
    index.flaky = True
    assert pip(index, "demo").versions == {"demo": "1.0", "dep": "1.5"}


def test_folders_and_addresses_are_not_limited(pip: LimitedPip, index: PackageIndex, tmp_path: Path) -> None:
    name, content = wheel("local", "9.0")
    (tmp_path / name).write_bytes(content)
    assert pip(index, "local", "--find-links", str(tmp_path)).versions == {"local": "9.0"}
    assert pip(index, "local", "--find-links", tmp_path.as_uri()).versions == {"local": "9.0"}
    assert pip(index, str(tmp_path / name)).versions == {"local": "9.0"}
    file = "dep-2.0-py2.py3-none-any.whl"
    assert pip(index, f"dep @ {index.address.removesuffix('/simple')}/files/{file}").versions == {"dep": "2.0"}


def test_a_tree_of_pages_in_a_folder_is_an_index_that_does_not_say(
    pip: LimitedPip, index: PackageIndex, tmp_path: Path
) -> None:
    name, content = wheel("local", "9.0")
    (tmp_path / "simple" / "local").mkdir(parents=True)
    (tmp_path / "simple" / "local" / name).write_bytes(content)
    (tmp_path / "simple" / "local" / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')
    found = pip(index, "local", "--extra-index-url", (tmp_path / "simple").as_uri())
    assert found.status == 1
    assert "does not say when it received local-9.0" in found.output


def test_a_locked_build_takes_what_is_pinned_and_its_isolated_builds_what_there_was(
    pip: LimitedPip, index: PackageIndex
) -> None:
    index.add(sdist("both", "1.0", "builder"), OLD)
    index.add(wheel("both", "1.0", code='version = "1.0"; late = True\n'), NEW)
    found = pip(index, "--no-deps", "dep==2.0", "both==1.0")
    assert found.versions == {"dep": "2.0", "both": "1.0"}  # the index has no earlier file of dep 2.0
    assert "built_with = '1.0'" in found.modules["both"]


def test_thousands_of_files_take_seconds(pip: LimitedPip, index: PackageIndex) -> None:
    for number in range(4000):
        index.files[f"many-1.{number}-py2.py3-none-any.whl"] = b""
        index.times[f"many-1.{number}-py2.py3-none-any.whl"] = NEW
    index.add(wheel("many", "0.5"), OLD)
    assert pip(index, "many").versions == {"many": "0.5"}


def test_a_script_of_setup_keeps_to_it_however_it_calls_pip(
    pip: LimitedPip, index: PackageIndex, tmp_path: Path
) -> None:
    shim = tmp_path / "limited" / "pip"
    shim.mkdir(parents=True)
    (shim / "__init__.py").write_bytes((SCRIPTS / "pip_of_setup.py").read_bytes())
    environ = {"PYTHONPATH": str(shim.parent), "REPROKIT_PIP_BEFORE_FOLDER": str(SCRIPTS)}
    install = ["install", "--no-cache-dir", "--target", "there", "--index-url", index.address]

    def called(name: str, words: list[str], *what: str) -> Installed:
        return pip.run(tmp_path / name, [*words, *install, *what], **environ)

    assert called("module", ["-m", "pip"], "demo").versions == {"demo": "1.0", "dep": "1.5"}
    console = "import sys; from pip._internal.cli.main import main; sys.exit(main())"
    assert called("program", ["-c", console], "demo").versions == {"demo": "1.0", "dep": "1.5"}
    assert "built_with = '1.0'" in called("built", ["-m", "pip"], "built").modules["built"]
    late = called("late", ["-m", "pip"], "demo>=2")
    assert "hid 1 of 2 files of demo" in late.output
