"""A recorded cell as a bundle: reprokit and its script give the same end where there is no image and no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.integration.test_run import REPOSITORY, User
from tests.integration.test_store_servers import s3_host, s3fs
from tests.private_engine import private_engine
from tests.servers import s3_server

pytestmark = [pytest.mark.integration, pytest.mark.engines]
CASE = REPOSITORY / "cases" / "ptxas_unknown_arch.yaml"
REFUSED = "ptxas fatal   : Value 'sm_90' is not defined for option 'gpu-name'"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a bundle that was unpacked."""
    user = User(tmp_path_factory.mktemp("bundle"))
    user.types("run", str(CASE), "--cuda", "11.7", "--json", "result.json")
    said = user.types("bundle", "last", "arch=sm_90", "-o", "bug.tar.gz")
    assert "arch=sm_90: reproduced" in said
    assert "bugs.tar.gz: 2 cells" in user.types("bundle", "last", "--all", "-o", "bugs.tar.gz")
    with tarfile.open(user.folder / "bug.tar.gz") as archive:
        assert all(one.isreg() and (one.uid, one.mtime) == (0, 0) for one in archive)
    subprocess.run(["tar", "xf", "bug.tar.gz"], cwd=user.folder, check=True)
    folder = user.folder / "ptxas-unknown-arch"
    assert (folder / "case.yaml").read_text() == CASE.read_text()
    assert REFUSED in (folder / "logs" / "trial-1.log").read_text()
    assert json.loads((folder / "environment.json").read_text())["cuda"] == "11.7"
    about = json.loads((folder / "bundle.json").read_text())
    assert (about["format"], about["verdict"]) == ("reprokit-bundle/v1", "reproduced")
    assert str(user.folder) not in (folder / "README.md").read_text() + (folder / "run.sh").read_text()
    return folder


def runs(folder: Path, program: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        ["sh", str(folder / "run.sh"), program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_it_runs_on_an_engine_without_any_image_or_network(bundle: Path, tmp_path: Path) -> None:
    if shutil.which("docker") is None:
        pytest.skip("needs the docker client")
    user = User(tmp_path)
    with private_engine() as other:
        engine = other.engine()
        assert engine.wire.client().images() == []
        user.environment["DOCKER_HOST"] = other.url
        assert "same verdict as recorded: reproduced" in user.types("run", str(bundle.parent / "bug.tar.gz"), "--yes")
        [cell] = user.cells()
        assert (cell["verdict"], cell["cell"]["cuda"]) == ("reproduced", "11.7")
        # The names that the archive gives are not taken.
        [name] = [name for image in engine.wire.client().images() for name in image["RepoTags"]]
        assert name.startswith("reprokit/img:stranger-bundle-")
        engine.remove_image(name)
        several = user.types("run", str(bundle.parent / "bugs.tar.gz"), "--yes")
        assert several.count("same verdict as recorded: ") == 2
        for image in engine.wire.client().images():
            engine.remove_image(image["RepoTags"][0])
        for _ in range(2):  # loaded, and found
            status, said = runs(bundle, "docker", DOCKER_HOST=other.url)
            assert (status, REFUSED in said) == (255, True), said
            assert "recorded: reproduced" in said


@pytest.mark.nightly
def test_it_runs_from_a_bucket(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as address:
        s3_host(address, monkeypatch)
        s3fs().mkdir("reprokit-bundles")
        s3fs().put_file(str(bundle.parent / "bug.tar.gz"), "reprokit-bundles/bug.tar.gz")
        user = User(tmp_path)
        said = user.types("run", "s3://reprokit-bundles/bug.tar.gz", "--yes")
        assert "same verdict as recorded: reproduced" in said
        [cell] = user.cells()
        assert (cell["verdict"], cell["cell"]["cuda"]) == ("reproduced", "11.7")


def test_it_runs_in_podman(bundle: Path, podman_service: str) -> None:
    status, said = runs(bundle, "podman", CONTAINER_HOST=podman_service)
    assert (status, REFUSED in said) == (255, True), said
