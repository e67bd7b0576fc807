"""Nodes of a real Ray cluster with another reprokit than the machine that starts the run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reprokit import __version__
from tests.ray_cluster import REPOSITORY, ray_cluster, with_engine

pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: fleet-versions
title: A toy
matrix: {os: [debian-12], a: ["1", "2"]}
command: work
expect: {failure: {exit_code: nonzero}, reproduces: none}
"""


def _checkout(folder: Path, file: str, old: str, new: str) -> dict[str, str]:
    """The environment of a node with a checkout of its own, in which one file differs."""
    environ = with_engine(folder / "code", "tests.unit.fakes", "module.FakeEngine()")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("reprokit", "dockerfiles"):
        shutil.copytree(REPOSITORY / name, folder / "checkout" / name, ignore=ignored)
    changed = folder / "checkout" / "reprokit" / file
    text = changed.read_text()
    assert old in text
    changed.write_text(text.replace(old, new))
    return {**environ, "PYTHONPATH": f"{folder / 'code'}:{folder / 'checkout'}:{REPOSITORY}"}


def test_nodes_with_another_reprokit_are_named_and_not_used(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text(CASE)
    with ray_cluster(tmp_path) as cluster:
        older = cluster.add(_checkout(tmp_path / "older", "core/version.py", f'"{__version__}"', '"0.0.1"'))
        edited = cluster.add(_checkout(tmp_path / "edited", "run/fleet/orders.py", "homes: tuple", "abodes: tuple"))
        run = cluster.run(tmp_path, "case.yaml", "--confirm", "never", "--base", "registry")
        assert run.wait(timeout=240) == 3
        said = (tmp_path / "log").read_text()
        assert "no node of the cluster can serve a cell" in said
        assert f"{older.id[:8]}): Python" in said
        assert f"has reprokit 0.0.1, and here is {__version__}" in said
        assert f"{edited.id[:8]}): Python" in said
        assert f"reprokit {__version__} of another source" in said
        assert not (tmp_path / "store").exists()
