"""Nodes with fake GPUs (tests/fake_nvml) on a real Ray cluster: a cell goes where it is served, or hears why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_nvml import H200, V100, FakeNvml
from tests.ray_cluster import RayCluster, ray_cluster, with_engine

pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: fleet-gpus
title: GPUs of a fleet
matrix:
  os: [debian-12]
  ask: [any, V100, H200, large, three, new]
  n: ["1", "2", "3"]
  cuda: [none]
  exclude: [{ask: large, n: "3"}, {ask: large, n: "2"}, {ask: three, n: "3"}, {ask: three, n: "2"}, {ask: new}]
  include: [{os: debian-12, ask: new, n: "1", cuda: "13.0"}]
env: {SECONDS: "0.5"}
command: work
resources:
  gpus: "{{ {'any': 0, 'three': 3}.get(ask, 1) }}"
  gpu_model: "{{ ask if ask in ('V100', 'H200') else '' }}"
  gpu_memory: "{{ '100g' if ask == 'large' else '1g' }}"
expect: {failure: {exit_code: nonzero}, reproduces: none}
"""


class GpuNode:
    """A machine with GPUs of its own, as a node of the cluster."""

    def __init__(self, cluster: RayCluster, folder: Path, *gpus: str, driver: str = "550.54.15", cpus: int = 2) -> None:
        nvml = FakeNvml(folder)
        nvml.gpus(*gpus, driver=driver)
        config = folder / "config.toml"
        config.write_text(f'gpu_leases = "{folder / "leases"}"\nbase_images = "registry"\n')
        self.host = folder / "host"
        made = f"module.ProcessEngine(module.Path({str(self.host)!r}))"
        environ = with_engine(folder / "code", "tests.gpu_host.engine", made)
        environ |= {**nvml.environment, "REPROKIT_CONFIG": str(config)}
        self.ray = cluster.add(environ, num_cpus=cpus, num_gpus=len(gpus))

    def said(self, name: str) -> list[str]:
        file = self.host / name
        return file.read_text().split() if file.exists() else []


@pytest.mark.nightly
def test_cells_go_to_the_gpus_that_serve_them_and_are_unsupported_where_no_node_can(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text(CASE)
    with ray_cluster(tmp_path) as cluster:
        plain = GpuNode(cluster, tmp_path / "plain")
        volta = GpuNode(cluster, tmp_path / "volta", *(f"GPU-V{n}|{V100}|ok" for n in range(2)), driver="470.82.01")
        hopper = GpuNode(cluster, tmp_path / "hopper", *(f"GPU-H{n}|{H200}|ok" for n in range(2)))
        run = cluster.run(tmp_path, "case.yaml", "--confirm", "never")
        status = run.wait(timeout=240)
        said = (tmp_path / "log").read_text()
        result = json.loads((tmp_path / "result.json").read_text())
        cells: list[dict[str, Any]] = result["cases"][0]["cells"]
        at = {node.ray.id[:8]: name for name, node in (("plain", plain), ("volta", volta), ("hopper", hopper))}
        seen: dict[str, set[str]] = {}
        for cell in cells:
            where = at[cell["details"]["node"]["name"][-9:-1]] if cell["trials"] else cell["verdict"]
            seen.setdefault(cell["cell"]["ask"], set()).add(where)
        assert status == 3, said
        assert seen["V100"] == {"volta"}, said
        assert seen["H200"] == seen["large"] == {"hopper"}
        assert seen["any"] <= set(at.values())
        reasons = {cell["cell"]["ask"]: cell["reason"] for cell in cells if cell["verdict"] == "unsupported"}
        assert set(reasons) == {"three", "new"}
        assert "3 GPUs" in reasons["three"]
        assert "CUDA 13.0 needs an NVIDIA driver" in reasons["new"]
        used = {gpu for node in (volta, hopper) for gpu in node.said("ran")}
        assert {name[:5] for name in used} == {"GPU-V", "GPU-H"}
        assert not [line for node in (volta, hopper) for line in node.said("twice")]

        # A node that joins later serves what no node could, once the run is resumed.
        late = GpuNode(cluster, tmp_path / "late", *(f"GPU-L{n}|{V100}|ok" for n in range(4)))
        cluster.run(tmp_path, "--resume").wait(timeout=240)
        said = (tmp_path / "log").read_text()
        cells = json.loads((tmp_path / "result.json").read_text())["cases"][0]["cells"]
        left = {cell["cell"]["ask"] for cell in cells if cell["verdict"] == "unsupported"}
        assert left == {"new"}, said
        three = next(cell for cell in cells if cell["cell"]["ask"] == "three")
        assert late.ray.id[:8] in three["details"]["node"]["name"]
        assert len(set(late.said("ran")[0].split(","))) == 3
