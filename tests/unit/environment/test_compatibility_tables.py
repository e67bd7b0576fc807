"""``make data``: what an index has and a table lacks. The index is a stand-in that answers as pip does."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from docs.scripts import compatibility_tables
from reprokit.environment import catalog, tables
from reprokit.environment.catalog import OURS

CACHES = (tables._ours, tables._merged, catalog._builds)


class Index:
    """An index that has what the tables have, and ``more``: a package -> releases with a wheel for every Python."""

    def __init__(self) -> None:
        self.more: dict[str, tuple[str, ...]] = {}
        self.has = {package.name: dict(OURS.builds()[package.name]) for package in compatibility_tables.PACKAGES}
        self.lists = {
            package.name: tables.table(name)[key.strip('"')]
            for name, packages in compatibility_tables.LISTS.items()
            for key, package in packages.items()
        }
        self.lists["cuda-toolkit"] = [f"{release}.0" for release in OURS.cuda_wheels()]
        frameworks = tables.table("frameworks")
        self.lists["jax"] = [release for name in ("jax", "jax-pip") for release in frameworks[name]["builds"]]
        self.pythons = list(tables.table("python")["uv"]["pythons"])

    def available(self, package: str, python: str) -> list[str]:
        rows = self.has.get(package, {})
        own = [release for release, row in rows.items() if python in row.pythons]
        return [*own, *self.lists.get(package, ()), *self.more.get(package, ())]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """With it, the tables are a copy in tmp_path."""
    found = Index()
    shutil.copytree(tables.DATA, tmp_path / "data")
    monkeypatch.setattr(tables, "DATA", tmp_path / "data")
    monkeypatch.setattr(compatibility_tables, "available", found.available)
    monkeypatch.setattr(compatibility_tables, "uv_pythons", lambda: found.pythons)
    forget()
    yield found
    monkeypatch.undo()
    forget()


def forget() -> None:
    for cache in CACHES:
        cache.cache_clear()


def data(*words: str) -> Result:
    return CliRunner().invoke(compatibility_tables.main, list(words))


def test_tables_that_have_all_have_no_gaps(index: Index) -> None:
    assert data().exit_code == 0


@pytest.mark.parametrize(
    ("table", "row", "gap"),
    [
        ("builds", r'  "2\.13\.0": .*\n', "builds.yaml: torch 2.13.0"),
        ("builds", r", 3\.14(?=\], cuda: \"12.8\", cudnn: \"9.10.2.21\")", "builds.yaml: torch 2.9.0"),
        ("nccl", r"2\.27\.5, ", "nccl.yaml: nvidia-nccl-cu12 2.27.5"),
        ("cmake", r"4\.4\.2, ", "cmake.yaml: cmake 4.4.2"),
        ("cuda", r'  "12\.4\.1": \{nvcc[^}]*\}\n', "cuda.yaml: cuda-toolkit 12.4.1"),
        ("frameworks", r'    "2\.14": .*\n', "frameworks.yaml: torch 2.14.0, 2.14.1"),
        ("frameworks", r'    "3\.1": .*\n', "frameworks.yaml: paddlepaddle-gpu 3.1.0, 3.1.1"),
        ("python", r"3\.13\.5,\s", "python.yaml: uv's Pythons 3.13.5"),
    ],
)
def test_a_row_that_was_taken_out_is_named(index: Index, table: str, row: str, gap: str) -> None:
    path = tables.DATA / f"{table}.yaml"
    text, times = re.subn(row, "", path.read_text("utf-8"), count=1)
    assert times == 1
    path.write_text(text, encoding="utf-8")
    forget()
    found = data()
    assert (found.exit_code, found.output) == (1, f"{gap}\n")


def test_a_release_that_came_out_is_named(index: Index) -> None:
    index.more = {"torch": ("99.0",), "nvidia-cudnn-cu13": ("99.1.0.1",)}
    found = data()
    assert found.exit_code == 1
    assert found.output.splitlines() == [
        "builds.yaml: torch 99.0",
        "cudnn.yaml: nvidia-cudnn-cu13 99.1.0.1",
        "frameworks.yaml: torch 99.0",
    ]


@pytest.mark.parametrize("package", ["torch", "nvidia-nccl-cu12", "cuda-toolkit"])
@pytest.mark.parametrize("words", [(), ("--write",)])
def test_an_index_that_lost_a_package_is_unavailable(index: Index, package: str, words: Sequence[str]) -> None:
    for had in (index.has, index.lists):
        had.pop(package, None)
    before = {path: path.read_bytes() for path in tables.DATA.iterdir()}
    found = data(*words)
    expected = 0 if (package, words) == ("cuda-toolkit", ("--write",)) else 3
    assert found.exit_code == expected
    assert expected == 0 or package in found.output
    assert {path: path.read_bytes() for path in tables.DATA.iterdir()} == before


def test_what_is_written_is_what_was_read_and_what_came_out(index: Index) -> None:
    before = {path.name: path.read_bytes() for path in tables.DATA.iterdir()}
    assert data("--write").exit_code == 0
    assert {path.name: path.read_bytes() for path in tables.DATA.iterdir()} == before
    index.more = {"nvidia-nccl-cu13": ("99.1.0",), "paddlepaddle": ("99.0.0",)}
    assert data("--write").exit_code == 0
    forget()
    assert data().output.splitlines() == ["frameworks.yaml: paddlepaddle-gpu 99.0.0"]
