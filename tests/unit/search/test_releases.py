"""Which values lie between two: asked of folders and of a small index, as pip would ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.files import CaseFile
from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core.errors import UsageError
from reprokit.environment.cases import load
from reprokit.search.package_index import tags
from reprokit.search.releases import AxisRange, Policy, Releases, find_pinned, find_releases
from tests.unit.serving import Quiet, serving

CASE = """
schema: reprokit/v1
id: demo
title: Demo
matrix:
  os: [debian-12]
  python: ["3.11"]
  demo: ["1.0", "1.2"]
  mode: [a, b, c]
  include: [{os: debian-12, python: "3.9", demo: "0.9", mode: a}]
environment:
  pip: ["demo-lib[extra]=={{ demo }}", other]
command: run {{ mode }}
"""
CELL = {"os": "debian-12", "python": "3.11", "demo": "1.0", "mode": "a"}


def case(tmp_path: Path, text: str = CASE) -> CaseFile:
    path = tmp_path / "demo.yaml"
    path.write_text(text)
    return load(str(path))[0]


def between(file: CaseFile, axis: str, low: str, high: str, **policy: Any) -> Releases:
    asked = AxisRange(file=file, cell=CELL, axis=axis, low=low, high=high, policy=Policy(**policy))
    return find_releases(asked)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where this host's pip looks for packages."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


def test_releases_between_two_are_those_that_the_python_of_the_cell_can_install(tmp_path: Path, wheels: Path) -> None:
    put(
        wheels,
        "demo_lib-0.9-py3-none-any.whl",
        "demo_lib-1.0-py3-none-any.whl",
        "demo_lib-1.1-cp310-cp310-manylinux2014_x86_64.whl",
        "demo_lib-1.1.1-cp311-cp311-win_amd64.whl",
        "demo_lib-1.1.2.tar.gz",
        "demo_lib-1.1.3-cp311-cp311-manylinux_2_99_x86_64.whl",
        "demo_lib-1.1.4-cp37-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "demo_lib-1.1.5rc1.tar.gz",
        "demo_lib-1.1.6+local-py3-none-any.whl",
        "demo_lib-1.2.0-py3-none-any.whl",
        "demo_lib-1.3-py3-none-any.whl",
        "demo-1.1.9.tar.gz",
    )
    found = between(case(tmp_path), "demo", "1.2", "1.0")
    assert found.values == ("1.0", "1.1.2", "1.1.4", "1.2")  # in order, and spelt as the case does
    assert found.of == "demo-lib"
    assert {value: why.split(",")[0] for value, why in found.left_out.items()} == {
        "1.1": "no wheel for Python 3.11.2 on x86-64 Linux",
        "1.1.1": "no wheel for Python 3.11.2 on x86-64 Linux",
        "1.1.3": "no wheel for Python 3.11.2 on x86-64 Linux",
        "1.1.5rc1": "a pre-release",
        "1.1.6+local": "a local version",
    }
    assert "1.1.5rc1" in between(case(tmp_path), "demo", "1.0", "1.2", pre=True).values


def test_an_end_that_cannot_be_installed_is_refused_with_a_near_match(tmp_path: Path, wheels: Path) -> None:
    put(wheels, "demo_lib-1.0-py3-none-any.whl", "demo_lib-1.4.1-py3-none-any.whl", "demo_lib-1.5-py2-none-any.whl")
    with pytest.raises(UsageError, match=r"demo-lib 1\.4\.2 is not available: no index .* did you mean '1\.4\.1'"):
        between(case(tmp_path), "demo", "1.0", "1.4.2")
    with pytest.raises(UsageError, match=r"demo-lib 1\.5 is not available: no wheel for Python 3\.11"):
        between(case(tmp_path), "demo", "1.0", "1.5")
    with pytest.raises(UsageError, match="'main' is not a version"):
        between(case(tmp_path), "demo", "1.0", "main")
    # An end that the case itself has may come from where this host does not look.
    assert between(case(tmp_path), "demo", "1.0", "1.2").values == ("1.0", "1.2")


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("option", ["index-url", "find-links", "extra-index-url"])
def test_an_index_of_an_untrusted_case_is_public_and_sees_no_login(
    option: str, trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Seen(Quiet):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization", ""))
            self.answer(404)

    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password w0rd\n")
    monkeypatch.setenv("PIP_NO_INDEX" if option == "find-links" else "PIP_INDEX_URL", str(tmp_path))
    with serving(Seen) as url:
        text = CASE.replace("environment:\n", f"environment:\n  pip_options: ['--{option}=http://{url}/simple']\n")
        file = replace(case(tmp_path, text), trust=trust)
        with suppress(UsageError):
            between(file, "demo", "1.0", "1.2")
    assert bool(asked) == ALLOWANCES[trust].credentials
    assert all(asked)


@pytest.mark.parametrize("option", ["index-url", "find-links", "extra-index-url"])
def test_a_folder_that_a_case_names_is_not_read_here(option: str, tmp_path: Path, wheels: Path) -> None:
    (tmp_path / "demo-lib").mkdir()
    (tmp_path / "demo-lib/index.html").write_text("<a href=demo_lib-1.1-py3-none-any.whl>1.1</a>")
    put(tmp_path, "demo_lib-1.1-py3-none-any.whl")
    text = CASE.replace("environment:\n", f"environment:\n  pip_options: ['--{option}=file://{tmp_path}']\n")
    assert between(case(tmp_path, text), "demo", "1.0", "1.2").values == ("1.0", "1.2")


class Index(Quiet):
    """A package index with one project, in JSON."""

    files: tuple[dict[str, object], ...] = ()

    def do_GET(self) -> None:
        there = self.path == "/simple/demo-lib/"
        body = json.dumps({"meta": {"api-version": "1.1"}, "name": "demo-lib", "files": self.files}).encode()
        kind = "application/vnd.pypi.simple.v1+json"
        self.answer(200 if there else 404, body if there else b"", Content_Type=kind)


@pytest.fixture
def index(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Index]]:
    class Own(Index):
        pass

    monkeypatch.delenv("PIP_NO_INDEX")
    with serving(Own) as address:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://{address}/simple")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # which is not asked for this host
        yield Own


def test_dates_and_withdrawn_releases_come_from_the_index(tmp_path: Path, index: type[Index]) -> None:
    def wheel(version: str, day: str, **more: object) -> dict[str, object]:
        return {"filename": f"demo_lib-{version}-py3-none-any.whl", "upload-time": f"{day}T10:00:00Z", **more}

    index.files = (
        wheel("1.0", "2020-01-01", yanked=True),
        wheel("1.0.1", "2020-02-01", yanked="broken\nmetadata"),
        wheel("1.0.2", "2020-03-01", yanked=False, **{"requires-python": ">=3.12"}),
        wheel("1.0.3", "2020-04-01", **{"requires-python": None}),
        wheel("1.1", "2020-05-01"),
        wheel("1.2", "2020-06-01"),
    )
    found = between(case(tmp_path), "demo", "1.0", "1.2")
    assert found.values == ("1.0", "1.0.3", "1.1", "1.2")  # an end may be withdrawn: pip installs what is pinned
    assert found.left_out == {"1.0.1": "yanked: broken metadata", "1.0.2": "needs Python >=3.12"}
    assert found.dates["1.1"] == "2020-05-01"
    limited = between(case(tmp_path), "demo", "1.0", "1.2", since="2020-04-15", before="2020-05-01")
    assert limited.values == ("1.0", "1.2")
    assert limited.left_out["1.0.3"] == "released 2020-04-01, before 2020-04-15"
    assert limited.left_out["1.1"] == "released 2020-05-01, not before 2020-05-01"


def test_an_index_that_does_not_answer_is_reported(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(wheels, "demo_lib-1.1-py3-none-any.whl")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    found = between(case(tmp_path), "demo", "1.0", "1.2")
    assert found.values == ("1.0", "1.1", "1.2")
    assert "has no answer for demo-lib: 127.0.0.1:" in found.unknown[0]
    assert "secret" not in found.unknown[0]
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(UsageError, match=r"has no answer for demo-lib.*\(see: pip config list\)"):
        between(case(tmp_path), "demo", "1.0", "1.2")
    monkeypatch.setenv("PIP_INDEX_URL", "http://[odd/simple")
    with pytest.raises(UsageError, match="is not an address"):
        between(case(tmp_path), "demo", "1.0", "1.2")
    monkeypatch.setenv("PIP_INDEX_URL", "file:///nowhere/simple")
    with pytest.raises(UsageError, match="it does not exist"):
        between(case(tmp_path), "demo", "1.0", "1.2")


def test_an_end_that_is_not_a_version_is_refused(tmp_path: Path, wheels: Path) -> None:
    for ends in (("odd", "1.2"), ("1.0", "odd"), ("1.0", "1." + "9" * 5000)):
        with pytest.raises(UsageError, match="is not a version of a Python package"):
            between(case(tmp_path), "demo", *ends)


def test_a_project_that_no_index_has_is_reported(tmp_path: Path, index: type[Index]) -> None:
    text = CASE.replace("demo-lib", "other-lib")
    found = between(case(tmp_path, text), "demo", "1.0", "1.2")
    assert found.values == ("1.0", "1.2")
    assert found.unknown == ("no index that was asked has other-lib: only the values of the matrix are known",)


ENDS = ({"filename": "demo_lib-1.0-py3-none-any.whl"}, {"filename": "demo_lib-1.2-py3-none-any.whl"})


@pytest.mark.parametrize(
    "odd",
    [
        {"filename": "demo_lib-1.1-py3-none-any.whl", "upload-time": 5, "requires-python": 5, "yanked": 1},
        {"filename": f"demo_lib-1.{'9' * 5000}-py3-none-any.whl"},
        {"filename": "demo_lib-1.1-py3-none-any.whl", "requires-python": ">=banana", "yanked": "\x1b[2Jno"},
        {"filename": "other-1.1-py3-none-any.whl"},
        {"filename": "../../demo-lib-1.1.exe"},
    ],
)
def test_odd_entries_of_an_index_are_ignored(odd: dict[str, object], tmp_path: Path, index: type[Index]) -> None:
    index.files = (*ENDS, odd)
    found = between(case(tmp_path), "demo", "1.0", "1.2")
    assert found.values == ("1.0", "1.2")
    assert "\x1b" not in "".join(found.left_out.values())


def test_an_answer_without_files_is_reported(tmp_path: Path, index: type[Index]) -> None:
    index.files = ({"filename": 3},)
    (tmp_path / "wheels" / "demo_lib-1.1-py3-none-any.whl").touch()
    assert "its answer lists no files" in between(case(tmp_path), "demo", "1.0", "1.2").unknown[0]


def test_the_package_of_an_axis_is_the_one_that_it_pins(tmp_path: Path) -> None:
    text = CASE.replace("demo-lib[extra]=={{ demo }}", "lib{{ '-gpu' if mode == 'b' else '' }}=={{ demo }}+cpu")
    assert find_pinned(case(tmp_path, text), CELL, "demo", "1.0") == ("lib",)
    assert find_pinned(case(tmp_path, text), CELL | {"mode": "b"}, "demo", "1.0") == ("lib-gpu",)
    for pip in ("lib>={{ demo }}", "lib==3.{{ demo }}", "lib", "{% if demo == '9' %}lib==9{% endif %}"):
        text = CASE.replace("demo-lib[extra]=={{ demo }}", pip)
        assert find_pinned(case(tmp_path, text), CELL, "demo", "1.0") == ()


def test_other_axes_have_the_values_of_the_matrix_or_the_catalog(tmp_path: Path) -> None:
    file = case(tmp_path)
    assert between(file, "mode", "c", "b").values == ("b", "c")
    with pytest.raises(UsageError, match=r"nothing is pinned by it"):
        between(file, "mode", "a", "d")
    assert between(file, "python", "3.9", "3.12").values == ("3.9", "3.10", "3.11", "3.12")
    assert len(between(file, "python", "3.11.1", "3.11.9").values) > 5
    assert between(file, "gcc", "11", "13").values == ("11", "12", "13")
    assert between(file, "os", "debian-11", "debian-13").values == ("debian-11", "debian-12", "debian-13")
    for axis, low, high in (("python", "3.1", "3.9"), ("os", "debian-11", "ubuntu-20.04"), ("gcc", "none", "12")):
        with pytest.raises(UsageError, match=f"--axis {axis}="):
            between(file, axis, low, high)


def test_wheel_tags_follow_the_interpreter_and_the_libc() -> None:
    names = {str(tag) for tag in tags("3.6.9", "2.27")}
    assert {"cp36-cp36m-manylinux1_x86_64", "cp32-abi3-manylinux_2_5_x86_64", "py3-none-any"} <= names
    assert not {"cp36-cp36-linux_x86_64", "cp36-cp36m-manylinux_2_28_x86_64"} & names
    assert "cp36-cp36m-manylinux2014_x86_64" not in {str(tag) for tag in tags("3.6.9", "2.12")}
    assert "cp38-cp38-manylinux2010_x86_64" in {str(tag) for tag in tags("3.8", "2.31")}


def test_a_package_of_any_step_of_pip_is_found_on_the_indexes_of_its_step(tmp_path: Path, wheels: Path) -> None:
    put(wheels, *(f"demo_lib-1.{minor}-py3-none-any.whl" for minor in range(3)))
    for step in ('["demo-lib=={{ demo }}"]', '{requirements: ["demo-lib=={{ demo }}"], options: [--pre]}'):
        text = CASE.replace('["demo-lib[extra]=={{ demo }}", other]', f"[[setuptools], {step}]")
        found = between(case(tmp_path, text), "demo", "1.0", "1.2")
        assert (found.of, found.values) == ("demo-lib", ("1.0", "1.1", "1.2"))
