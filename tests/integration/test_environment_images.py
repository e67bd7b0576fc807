"""Images of real cells on the real engine: what the probe measures, what the layers share, what is left in them."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.cellspec import CellSpec, DatasetSpec, EnvironmentSpec, Limits
from reprokit.case.trust import Trust
from reprokit.engine import bases, bootstrap, site
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.protocol import Build, ImageInfo, Mount, Progress
from reprokit.environment import dockerfile
from reprokit.environment.catalog import OURS
from reprokit.environment.comparing import compare
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from reprokit.run.measuring import run_probe
from tests.conftest import as_files, remove_image, trial

pytestmark = pytest.mark.integration


def cell(axes: dict[str, str], **parts: Any) -> CellSpec:
    environment = {key: parts.pop(key) for key in ("apt", "pip", "setup", "image") if key in parts}
    environment["cuda_libraries"] = "none"  # some GB; test_cuda_libraries.py has them
    defaults: dict[str, Any] = {"sources": {}, "files": {}, "datasets": {}, "env": {}, "workdir": "/workspace"}
    if "files" in parts:
        parts["files"] = as_files(parts["files"])
    return CellSpec(
        cell=axes,
        environment=EnvironmentSpec(**environment),
        command=("true",),
        limits=Limits(),
        **{**defaults, **parts},
    )


def built(engine: DockerEngine, spec: CellSpec, progress: list[Progress] | None = None) -> ImageInfo:
    environment = resolve(spec, Supply(base_source="bootstrap"))
    rendered = dockerfile.render(environment, spec, sources={}, given_datasets=())
    cancel = threading.Event()
    try:
        base = bases.ensure(engine, environment.base, Trust.OWN, cancel, lambda _: None)
    except Exception as error:
        if "install mmdebstrap" in str(error):
            pytest.skip(str(error))
        raise
    seen = progress.append if progress is not None else lambda _: None
    build = Build(
        tag=rendered.tag(base.id),
        dockerfile=rendered.dockerfile,
        context=rendered.context,
        labels={"org.reprokit.image": "1"},
    )
    return engine.build(build, site.current(), seen, cancel)


def output(engine: DockerEngine, image: ImageInfo, script: str, **changes: object) -> str:
    chunks: list[bytes] = []
    ending = engine.run(trial(image.tag, script, **changes), chunks.append, threading.Event())
    text = b"".join(chunks).decode()
    assert ending.exit_code == 0, text
    return text


def test_a_debian_measures_as_asked(engine: DockerEngine) -> None:
    """Others are in test_run.py, each night."""
    axes = {"os": "debian-12", "python": "3.11", "gcc": "12"}
    image = built(engine, cell(axes))
    measured = run_probe(engine, image, cancel=threading.Event())
    assert compare(axes, measured) == []
    assert (measured.cuda, measured.cudnn, measured.driver) == (None, None, None)
    assert measured.packages["apt"][f"gcc-{axes['gcc']}"]
    assert measured.packages["pip"]["pip"]
    names = output(engine, image, "for c in gcc cc g++ c++ x86_64-linux-gnu-gcc; do $c -dumpversion; done")
    assert set(names.split()) == {axes["gcc"]}


@pytest.mark.nightly
def test_the_further_axes_measure_as_asked_and_go_together(engine: DockerEngine) -> None:
    axes = {"os": "debian-12", "python": "3.11", "cuda": "12.1", "cmake": "3.31", "clang": "16", "nccl": "2.18"}
    image = built(engine, cell(axes))
    measured = run_probe(engine, image, cancel=threading.Event())
    assert compare(axes, measured) == []
    further = measured.further
    assert (further["cmake"], further["clang"], further["nccl"]) == ("3.31.10", "16.0.6", "2.18.3")
    script = "echo 'int main(void) { return 0; }' > /tmp/x.c; clang /tmp/x.c -o /tmp/x && /tmp/x && command -v clang++"
    assert output(engine, image, script) == "/usr/local/bin/clang++\n"


def test_an_old_python_measures_as_asked(engine: DockerEngine) -> None:
    """Its venv comes with pip 9, which has to replace itself through the site's settings; then the index serves."""
    image = built(engine, cell({"os": "ubuntu-18.04", "python": "3.6"}, pip=("iniconfig==1.1.1",)))
    measured = run_probe(engine, image, cancel=threading.Event())
    assert compare({"os": "ubuntu-18.04", "python": "3.6.9", "gcc": "none"}, measured) == []
    assert (measured.packages["pip"]["pip"], measured.packages["pip"]["iniconfig"]) == ("21.3.1", "1.1.1")


@pytest.mark.nightly
def test_python_2_measures_as_asked_and_runs_its_own_programs(engine: DockerEngine) -> None:
    """It has no module venv, and its pip installs what still takes it; pip has not installed its standard library."""
    image = built(engine, cell({"os": "debian-11", "python": "2.7"}, pip=("iniconfig==1.1.1",)))
    measured = run_probe(engine, image, cancel=threading.Event())
    assert compare({"os": "debian-11", "python": "2.7.18", "gcc": "none"}, measured) == []
    packages = measured.packages["pip"]
    assert (packages["pip"], packages["iniconfig"]) == ("20.3.4", "1.1.1")
    assert not {"python", "argparse", "wsgiref"} & set(packages)
    assert output(engine, image, "python -c 'import iniconfig; print 1 / 2'") == "0\n"


@pytest.mark.nightly
@pytest.mark.parametrize(("python", "release"), [("3.5", "3.5.2"), ("2.7", "2.7.12")])
def test_ubuntu_16_has_its_pythons_and_its_gcc(engine: DockerEngine, python: str, release: str) -> None:
    asked = {"os": "ubuntu-16.04", "python": python, "gcc": "5.4"}
    image = built(engine, cell(asked, pip=("iniconfig==1.1.1",)))
    measured = run_probe(engine, image, cancel=threading.Event())
    assert compare({"os": "ubuntu-16.04", "python": release, "gcc": "5.4.0"}, measured) == []
    packages = measured.packages["pip"]
    assert (packages["pip"], packages["iniconfig"]) == ("20.3.4", "1.1.1")


@pytest.mark.nightly
def test_a_c_extension_compiles_with_the_gcc_that_was_asked_for(engine: DockerEngine) -> None:
    setup = "python -c 'import sysconfig; print(sysconfig.get_config_var(\"CC\"))'\n"
    files = {"x.c": "#include <Python.h>\n#include <stdio.h>\nint main(void) { puts(__VERSION__); return 0; }\n"}
    image = built(engine, cell({"os": "debian-12", "gcc": "11"}, files=files, setup=setup))
    script = (
        "cc=$(python -c 'import sysconfig; print(sysconfig.get_config_var(\"CC\"))'); "
        "$cc -I$(python -c 'import sysconfig; print(sysconfig.get_path(\"include\"))') x.c -o x && ./x"
    )
    assert output(engine, image, script).startswith("11.3.0")


@pytest.mark.parametrize(
    ("cuda", "sm_35", "sm_90"),
    [
        pytest.param("11.7", True, False, marks=pytest.mark.nightly),
        pytest.param("11.8", True, True, marks=pytest.mark.nightly),
        ("12.0", False, True),
    ],
)
def test_ptxas_knows_the_architectures_of_its_release(
    engine: DockerEngine, cuda: str, sm_35: bool, sm_90: bool
) -> None:
    image = built(engine, cell({"os": "debian-12", "cuda": cuda}))
    measured = run_probe(engine, image, cancel=threading.Event())
    assert compare({"cuda": cuda, "gcc": "none", "cudnn": "none"}, measured) == []
    script = (
        "printf '.version 6.0\\n.target sm_35\\n.address_size 64\\n' > /tmp/a.ptx; "
        "for a in sm_35 sm_90; do if ptxas --gpu-name $a /tmp/a.ptx -o /tmp/o 2>/dev/null; then echo $a; fi; done; "
        "python -c 'import ctypes; ctypes.CDLL(\"libcudart.so\")'; echo $CUDA_HOME"
    )
    known = [name for name, knows in (("sm_35", sm_35), ("sm_90", sm_90)) if knows]
    assert output(engine, image, script).split() == [*known, "/usr/local/cuda"]


def test_cells_share_layers_and_the_second_build_repeats_nothing(engine: DockerEngine) -> None:
    first: list[Progress] = []
    built(engine, cell({"os": "debian-12", "cuda": "12.0", "gcc": "11"}))
    built(engine, cell({"os": "debian-12", "cuda": "12.0", "gcc": "12"}), first)
    cached = {progress.name for progress in first if progress.cached}
    assert any("nvidia-cuda-nvcc-cu12==12.0.140" in name for name in cached)
    assert any("python3 -m venv" in name for name in cached)


def test_files_setup_and_data_belong_to_the_user_and_nothing_of_the_site_stays(engine: DockerEngine) -> None:
    spec = cell(
        {"os": "debian-12"},
        files={"a/run.sh": "#!/bin/sh\necho ran $1\n", "requirements.txt": "six\n"},
        pip=("-r requirements.txt",),
        setup='id -u\nmkdir made && echo x > made/file\n[ -z "$PIPEFAIL" ]\n',
        datasets={
            "d": DatasetSpec(
                path="data/deep",
                generate="cd a && ./run.sh out > /workspace/data/deep/file; id -u >> /workspace/data/deep/file",
            )
        },
    )
    image = built(engine, spec)
    script = (
        "find /workspace ! -user repro; a/run.sh now; cat data/deep/file; id -un; pwd; "
        "python -c 'import six'; touch new"
    )
    assert output(engine, image, script).split("\n") == ["ran now", "ran out", "1000", "repro", "/workspace", ""]
    left = output(
        engine,
        image,
        "find /run/secrets /run/reprokit /root/.cache /root/.netrc /root/.config /etc/pip.conf -type f 2>/dev/null; "
        "find /var/cache/apt/archives /var/lib/apt/lists -type f -size +0 2>/dev/null; "
        "env | grep -iE 'pip|cert|proxy'; true",
        user="root",
    )
    assert left == ""


def test_a_failing_line_of_setup_fails_the_build(engine: DockerEngine) -> None:
    from reprokit.core.errors import BuildFailed

    with pytest.raises(BuildFailed) as caught:
        built(engine, cell({"os": "debian-12"}, setup="echo before\nfalse | cat\necho after\n"))
    printed = "\n".join(caught.value.tail)
    assert "before" in printed
    assert "after" not in printed


def test_an_image_of_the_case_is_taken_as_it_is(engine: DockerEngine) -> None:
    own = built(engine, cell({"os": "debian-12", "python": "3.11", "gcc": "12"}))
    spec = cell({"python": "3.9", "gcc": "12"}, image=own.tag, files={"f": "x"})
    environment = resolve(spec, Supply(base_source="registry"))
    base = bases.ensure(engine, environment.base, Trust.OWN, threading.Event(), lambda _: None)
    assert base.id == own.id
    image = built(engine, spec)
    measured = run_probe(engine, image, cancel=threading.Event())
    assert compare(spec.cell, measured) == ["the cell asks for python 3.9, the image measures Python 3.11.2"]


def test_a_mirror_of_debian_serves_a_step_and_stays_out_of_the_image(engine: DockerEngine, tmp_path: Path) -> None:
    secrets, support = tmp_path / "secrets", tmp_path / "support"
    secrets.mkdir()
    support.mkdir()
    (secrets / "apt_conf").write_text('Reprokit::AptMirror "http://mirror.example/debian";\n')
    (support / "site.sh").write_bytes((Path(dockerfile.__file__).parents[2] / "dockerfiles/site.sh").read_bytes())
    image = built(engine, cell({"os": "debian-12"}))
    mounts = (Mount(source=secrets, target="/run/secrets"), Mount(source=support, target="/run/reprokit"))
    script = (
        '(. /run/reprokit/site.sh && apt-get update --print-uris) | grep InRelease | cut -d"\'" -f2; '
        "ls /tmp; cat /etc/apt/sources.list | grep -c mirror.example || true"
    )
    assert output(engine, image, script, user="root", mounts=mounts).split() == [
        "http://mirror.example/debian/dists/bookworm/InRelease",
        "http://mirror.example/debian/dists/bookworm-updates/InRelease",
        "http://mirror.example/debian-security/dists/bookworm-security/InRelease",
        "0",
    ]


@pytest.mark.nightly
def test_debootstrap_makes_a_base_where_there_is_no_mmdebstrap(
    engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = shutil.which
    if found("debootstrap") is None or os.geteuid() != 0:
        pytest.skip("needs debootstrap and root")
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None if name == "mmdebstrap" else found(name))
    archive = bootstrap.make(OURS.releases()["debian-13"], tmp_path, threading.Event(), lambda _: None)
    tag = "reprokit-test/debootstrap:1"
    try:
        image = engine.import_rootfs(archive, tag, {})
        printed = output(
            engine, image, ". /etc/os-release; echo $VERSION_CODENAME; wc -l < /etc/apt/sources.list", user="0"
        )
        assert printed.split() == ["trixie", "3"]
    finally:
        remove_image(tag)
