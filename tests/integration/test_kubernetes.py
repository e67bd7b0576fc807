"""A run on Kubernetes, against a stand-in of its API: no API server can be installed from the indexes of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.test_slurm import CASE, CELLS
from tests.kubernetes_api import kubernetes_api

pytest.importorskip("kubernetes", reason="needs the client of Kubernetes: pip install '.[kubernetes]'")
pytestmark = pytest.mark.integration


def test_what_pods_lose_is_run_again_and_counts_once(tmp_path: Path, tiny: str) -> None:
    (tmp_path / "toy.yaml").write_text(CASE % {"pid": f"k-{os.getpid()}", "image": tiny, "seconds": 1})
    container = {
        "name": "main",
        "image": "site/reprokit",
        "env": [{"name": "XDG_CACHE_HOME", "value": f"{tmp_path}/cache"}],
        "resources": {"limits": {"amd.com/gpu": "1", "memory": "8Gi"}},
    }
    pod = {"metadata": {"labels": {"team": "a"}}, "spec": {"serviceAccountName": "sa", "containers": [container]}}
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    with kubernetes_api(tmp_path, {1: "evicted", 2: "cut", 4: "removed"}) as api:
        words = [sys.executable, "-m", "reprokit", "run", *CELLS, "--json", "result.json"]
        words += ["--store", "store", "--on", "kubernetes:lab/lab?template=pod.yaml"]
        environ = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")}
        done = subprocess.run(
            words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=180
        )
        assert done.returncode == 0, done.stderr
        assert len(api.asked) == 6
        assert len(api.jobs) == 2, "those that came whole are removed"
    cells = json.loads((tmp_path / "result.json").read_text())["cases"][0]["cells"]
    assert [cell["verdict"] for cell in cells] == ["not-reproduced"] * 3 + ["reproduced"] * 3
    logs = [tmp_path / "store" / trial["log"] for cell in cells for trial in cell["trials"]]
    assert [log.read_text().count("began") for log in logs] == [1] * len(set(logs)) == [1] * 30
    lost = str([cell["details"]["node"].get("lost") for cell in cells])
    assert all(word in lost for word in ("Evicted", "does not know the job any more", "knode"))
    job = api.asked[0]
    template = job["spec"]["template"]
    assert job["spec"]["backoffLimit"] == 0
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["spec"]["serviceAccountName"] == "sa"
    assert template["spec"]["containers"][0]["resources"]["limits"] == {"memory": "8Gi"}
