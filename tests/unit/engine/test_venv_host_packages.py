"""Packages that a cell takes from a Python environment of this host: which, when, and how that describes them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.cellspec import PipStepSpec
from reprokit.core.errors import Unsupported
from reprokit.engine.venv import host as venv_host
from reprokit.environment import dockerfile
from reprokit.environment.host import Host
from reprokit.environment.model import HostDistribution, HostPackage, Interpreter
from reprokit.environment.on_host import resolve_on
from tests.unit.engine.test_venv import HOST, spec

SITE = "/opt/own/lib/python3.11/site-packages"


def distribution(name: str, version: str) -> HostDistribution:
    return HostDistribution(
        name=name, version=version, site=SITE, info=f"{name}-{version}.dist-info", entries=(name,), record="0" * 16
    )


TORCH = HostPackage(
    name="torch",
    place="/opt/own",
    version="2.11.0+cu130",
    python="3.11.2",
    distributions=(distribution("torch", "2.11.0+cu130"), distribution("sympy", "1.14.0")),
)
WITH_TORCH = replace(HOST, packages=(TORCH,))


def resolved(*requirements: str, host: Host = WITH_TORCH, **cell: str) -> tuple[HostPackage, ...]:
    environment = resolve_on(host, spec(cell, pip=(PipStepSpec(requirements=requirements),)))
    assert environment.host is not None
    return environment.host.packages


def test_only_a_cell_that_asks_for_that_version_gets_it() -> None:
    assert resolved("torch==2.11.0") == (TORCH,)
    assert resolved("Torch==2.11.0+cu130", "requests") == (TORCH,)
    assert resolved("requests") == ()
    assert resolved("torch==2.11.0", host=HOST) == ()


@pytest.mark.parametrize("asked", ["torch", "torch>=2", "torch==2.11.*", "torch==2.6.0", "torch==2.11.0+cpu"])
def test_another_version_is_unsupported_and_never_replaced(asked: str) -> None:
    with pytest.raises(Unsupported) as error:
        resolved(asked)
    assert str(error.value) == (
        "torch comes from /opt/own on this host (host_packages), which has 2.11.0+cu130: the case asks for "
        f"{asked}, and only torch==2.11.0 is served"
    )


def test_a_package_that_is_not_there_is_unsupported_with_the_reason() -> None:
    host = replace(HOST, packages=(HostPackage(name="torch", place="/opt/own", why="it is not installed there"),))
    with pytest.raises(Unsupported, match=r"torch comes from /opt/own on this host .*: it is not installed there"):
        resolved("torch==2.11.0", host=host)


def test_what_the_cell_asks_for_in_another_version_is_installed_for_it() -> None:
    (package,) = resolved("torch==2.11.0", "sympy==1.12")
    assert [one.name for one in package.distributions] == ["torch"]
    (package,) = resolved("torch==2.11.0", "sympy>=1.12")
    assert [one.name for one in package.distributions] == ["torch", "sympy"]


def test_what_two_packages_bring_comes_from_one_of_them() -> None:
    other = replace(
        TORCH,
        name="jax",
        place="/opt/other",
        version="0.5.0",
        distributions=(distribution("jax", "0.5.0"), distribution("sympy", "1.13.0"), distribution("torch", "2.6.0")),
    )
    host = replace(HOST, packages=(TORCH, other))
    jax, torch = resolved("jax==0.5.0", "torch==2.11.0", host=host)
    assert [(one.name, one.version) for one in jax.distributions] == [("jax", "0.5.0"), ("sympy", "1.13.0")]
    assert [(one.name, one.version) for one in torch.distributions] == [("torch", "2.11.0+cu130")]
    (alone,) = resolved("jax==0.5.0", host=host)
    assert alone == other


def test_the_python_is_one_that_can_import_it() -> None:
    older = Interpreter(version="3.10.4", path="/usr/bin/python3.10", prefix="/usr")
    host = replace(HOST, pythons=(*HOST.pythons, older), packages=(replace(TORCH, python="3.10.12"),))
    environment = resolve_on(host, spec(pip=(PipStepSpec(requirements=("torch==2.11.0",)),)))
    assert environment.host is not None
    assert environment.host.python == older
    with pytest.raises(Unsupported, match=r"python 3\.11 is not on this host as its packages need it: torch 2\.11\.0"):
        resolved("torch==2.11.0", host=host, python="3.11")


def test_the_script_links_it() -> None:
    asked = spec(pip=(PipStepSpec(requirements=("torch==2.11.0",)),))
    environment = resolve_on(WITH_TORCH, asked)
    made = dockerfile.render(environment, asked, sources={}, given_datasets=())
    assert f"link {SITE} torch\n" in made.dockerfile
    assert f'cp -R {SITE}/torch-2.11.0+cu130.dist-info "$site/"' in made.dockerfile
    assert "pip install torch==2.11.0\n" in made.dockerfile, "pip, inside, is who checks the version"
    other = replace(TORCH, distributions=(replace(TORCH.distributions[0], record="1" * 16), TORCH.distributions[1]))
    changed = resolve_on(replace(HOST, packages=(other,)), asked)
    again = dockerfile.render(changed, asked, sources={}, given_datasets=())
    assert again.dockerfile != made.dockerfile, "another build of the same version makes another environment"


def install(site: Path, name: str, files: dict[str, str], *requires: str, record: bool = True) -> None:
    """A distribution as pip leaves it."""
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = files | {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"}
    if record:
        files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD", "../../../bin/it"))
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


def described(folder: Path, site: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, HostPackage]:
    """What is found of packages in an environment whose Python has that folder of packages alone."""
    python = folder / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho '{json.dumps(['3.11.2', str(site)])}'\n")
    python.chmod(0o755)
    place = python.parents[1]
    monkeypatch.setenv("REPROKIT_HOST_PACKAGES", ",".join(f"{name}={place}" for name in names))
    return {one.name: one for one in venv_host.host_packages()}


def test_an_environment_describes_what_a_package_requires_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path, "own-torch", {"own_torch/__init__.py": ""}, "nv-one", 'nv-two ; platform_system == "Linux"', "gone"
    )
    install(tmp_path, "nv-one", {"nv/one/__init__.py": "", "single.py": ""}, 'extra-only ; extra == "more"')
    install(tmp_path, "nv-two", {"nv/two/__init__.py": ""}, "own_torch")
    install(tmp_path, "extra-only", {"extra_only.py": ""})
    install(tmp_path, "by-hand", {"by_hand.py": ""}, record=False)
    found = described(tmp_path, tmp_path, monkeypatch, "own-torch", "by-hand", "absent")
    assert found["absent"].why == "it is not installed there"
    assert "has no list of its files" in found["by-hand"].why
    assert (found["own-torch"].version, found["own-torch"].python) == ("1.0", "3.11.2")
    assert {one.name: one.entries for one in found["own-torch"].distributions} == {
        "own-torch": ("own_torch",),
        "nv-one": ("nv/one", "single.py"),
        "nv-two": ("nv/two",),
    }


def test_only_what_lies_in_the_folder_of_packages_is_served_from_where_it_really_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "lib"
    install(real, "own-torch", {"own_torch/__init__.py": "", str(tmp_path / "share" / "own.txt"): ""})
    editable = '{"url": "file:///src", "dir_info": {"editable": true}}'
    install(real, "in-place", {"in_place.pth": "/src", "in_place-1.0.dist-info/direct_url.json": editable})
    (tmp_path / "lib64").symlink_to("lib")
    found = described(tmp_path, tmp_path / "lib64", monkeypatch, "own-torch", "in-place")
    [one] = found["own-torch"].distributions
    assert (one.site, one.entries) == (str(real), ("own_torch",))
    assert (
        found["in-place"].why == "in-place is an editable install, whose modules lie elsewhere: install it without -e"
    )


def test_a_folder_on_path_that_cannot_be_read_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = tmp_path / "python3.11"
    python.write_bytes(b"\x7fELF")
    monkeypatch.setenv("PATH", f"{tmp_path / ('x' * 300)}:{tmp_path}")  # a name that the system refuses, for root too
    assert str(python) in venv_host.candidates()
