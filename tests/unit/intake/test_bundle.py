"""What a bundle holds and its script says, on an engine that saves a small image. Real ones: tests/integration."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.engine.protocol import EngineInfo
from reprokit.engine.venv.engine import VenvEngine
from reprokit.intake import bundle
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import CASE, toy

SECRET = "ghp_" + "a1B2" * 9
LAYER, CONFIG = "ab" * 32, "cd" * 32


def saved(target: Path, entry: dict[str, object] | None = None) -> None:
    """An image as Docker 20.10 saves it: one layer twice, the second time as a link."""
    with tarfile.open(target, "w") as archive:
        for name, content in (
            ("one/layer.tar", b"layer"),
            (f"{CONFIG}.json", json.dumps({"rootfs": {"diff_ids": [f"sha256:{LAYER}"] * 2}}).encode()),
            ("repositories", b"{}"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("two/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../one/layer.tar"
        archive.addfile(link)
        manifest = json.dumps(
            [entry or {"Config": f"{CONFIG}.json", "RepoTags": None, "Layers": ["one/layer.tar", "two/layer.tar"]}]
        ).encode()
        info = tarfile.TarInfo("manifest.json")
        info.size = len(manifest)
        archive.addfile(info, io.BytesIO(manifest))


class Saving(FakeEngine):
    def info(self) -> EngineInfo:
        return EngineInfo(kind="docker", name="Fake", version="1", architecture="amd64")

    def save(self, image: str, target: Path, cancel: threading.Event) -> None:
        saved(target)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saving:
    """A folder in which a case was run."""
    fake = Saving(toy)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    monkeypatch.setattr("reprokit.run.invocation._engine", lambda name: fake)
    monkeypatch.setattr("reprokit.engine.registry.make", lambda name: fake)
    case = CASE.replace("command: toy", "files: {a b/run.sh: '#!/bin/sh', c.txt: '$HOME'}\ncommand: toy")
    (tmp_path / "toy.yaml").write_text(case)
    return fake


def ran(*words: str) -> None:
    invoke(["run", "toy.yaml", "--base", "registry", "--confirm", "never", *words])


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        return {one.name: one for one in archive}


def text(path: Path, name: str) -> str:
    with tarfile.open(path) as archive:
        stream = archive.extractfile(name)
        assert stream is not None
        return stream.read().decode()


@pytest.mark.parametrize("name", ["bug.tar.gz", "bug.tar", "bug.tgz"])
def test_it_holds_all_that_the_cell_needs(engine: Saving, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran()
    assert invoke(["bundle", "toy", "a=2,b=x", "-o", name]) == 0
    assert f"tar xf {name} && sh toy/run.sh" in capsys.readouterr().out
    path = Path(name)
    found = members(path)
    assert set(found) == {
        f"toy/{one}"
        for one in (
            *("bundle.json", "README.md", "run.sh", "case.yaml", "Dockerfile", "environment.json", "image.tar"),
            *("logs/trial-1.log", "files/a b/run.sh", "files/c.txt"),
        )
    }
    assert {(one.uid, one.gid, one.mtime, one.isreg()) for one in found.values()} == {(0, 0, 0, True)}
    assert [found[f"toy/{one}"].mode for one in ("run.sh", "files/a b/run.sh", "files/c.txt")] == [0o755, 0o755, 0o644]
    assert text(path, "toy/case.yaml") == Path("toy.yaml").read_text()
    assert text(path, "toy/logs/trial-1.log") == "boom\n"
    about = json.loads(text(path, "toy/bundle.json"))
    assert (about["verdict"], about["cell"], about["variant"]) == ("reproduced", {"a": "2", "b": "x"}, "case")


def test_the_same_cell_gives_the_same_bytes(engine: Saving) -> None:
    ran()
    for name in ("one.tar.gz", "two.tar.gz"):
        assert invoke(["bundle", "toy", "3", "-o", name]) == 0
    assert Path("one.tar.gz").read_bytes() == Path("two.tar.gz").read_bytes()


def test_the_image_has_one_name_and_each_layer_once(tmp_path: Path) -> None:
    saved(tmp_path / "saved.tar")
    entry = canonical(tmp_path, "docker.io/reprokit/bundle:1")
    assert set(members(tmp_path / "image.tar")) == {f"{CONFIG}.json", f"{LAYER}.tar"}
    name = "docker.io/reprokit/bundle:1"
    assert entry == {"Config": f"{CONFIG}.json", "RepoTags": [name], "Layers": [f"{LAYER}.tar"] * 2}


def canonical(folder: Path, name: str) -> dict[str, object]:
    with tarfile.open(folder / "image.tar", "w") as archive:
        return bundle.canonical(folder / "saved.tar", archive, name, set())


def test_a_folder_of_cases_is_bundled_with_the_last_run_of_each(engine: Saving) -> None:
    Path("cases").mkdir()
    for name in ("one", "two"):
        Path(f"cases/{name}.yaml").write_text(Path("toy.yaml").read_text().replace("id: toy", f"id: {name}"))
        invoke(["run", f"cases/{name}.yaml", "--base", "registry", "--confirm", "never", "--only", "a=1"])
    assert invoke(["bundle", "cases", "--all", "-o", "bugs.tar"]) == 0
    folders = {Path(one).parts[2].partition("-")[0] for one in members(Path("bugs.tar")) if "/cells/" in one}
    assert folders == {"one", "two"}


@pytest.mark.parametrize("name", ["bugs.tar.gz", "bugs.tar.zst"])
def test_several_cells_are_in_one_archive_with_each_layer_once(
    engine: Saving, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if name.endswith(".zst"):
        zstd = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")
    ran()
    assert invoke(["bundle", "last", "a=1", "--all", "-o", name]) == 0
    said = capsys.readouterr().out
    how = f"zstd -dc --long=30 {name} | tar xf -" if name.endswith(".zst") else f"tar xf {name}"
    assert f"{how} && sh bugs/cells/toy-1/run.sh" in said
    if name.endswith(".zst"):
        far = {zstd.DecompressionParameter.window_log_max: 30}
        Path("bugs.tar").write_bytes(zstd.decompress(Path(name).read_bytes(), options=far))
    archive = Path(name if name.endswith(".gz") else "bugs.tar")
    folders = {Path(one).parts[:3] for one in members(archive) if "/cells/" in one}
    assert len(folders) > 1
    assert {one for one in members(archive) if one.endswith(".tar")} == {"bugs/image.tar"}
    assert '"$here/../../image.tar"' in text(archive, "bugs/cells/toy-1/run.sh")
    about = json.loads(text(archive, "bugs/cells/toy-1/bundle.json"))
    assert about["image"]["config"] == f"{CONFIG}.json"


def test_layers_that_an_engine_gives_out_compressed_are_unpacked(tmp_path: Path) -> None:
    layer = b"x" * 100_000
    digest = hashlib.sha256(layer).hexdigest()
    parts = {
        "manifest.json": json.dumps([{"Config": "blobs/sha256/aa", "Layers": ["one"]}]).encode(),
        "blobs/sha256/aa": json.dumps({"rootfs": {"diff_ids": [f"sha256:{digest}"]}}).encode(),
        "one": gzip.compress(layer),
    }
    with tarfile.open(tmp_path / "saved.tar", "w") as archive:
        for name, content in parts.items():
            bundle.add(archive, name, content)
    canonical(tmp_path, "x")
    assert hashlib.sha256(text(tmp_path / "image.tar", f"{digest}.tar").encode()).hexdigest() == digest


@pytest.mark.parametrize("entry", [{"Config": "absent.json"}, {}, {"Config": f"{CONFIG}.json", "Layers": []}])
def test_what_is_not_an_image_is_an_error_of_the_engine(tmp_path: Path, entry: dict[str, object]) -> None:
    saved(tmp_path / "saved.tar", entry or {"Layers": 1})
    with pytest.raises(bundle.EngineError, match="not an image as `docker save` writes it"):
        canonical(tmp_path, "x")


def test_the_script_runs_the_trial_with_what_answers(engine: Saving) -> None:
    """With programs in place of Docker and Podman that print their words."""
    ran("--only", "a=2,b=x")
    assert invoke(["bundle", "last", "-o", "it's.tar"]) == 0
    subprocess.run(["tar", "xf", "it's.tar"], check=True)
    programs = Path("programs").absolute()
    programs.mkdir()

    def script(answers: str, *words: str) -> tuple[int, str]:
        for name in ("docker", "podman"):
            (programs / name).write_text(
                f'#!/bin/sh\ncase "$1" in info) [ {name} = "{answers}" ];; image) false;; load) ;;\n'
                f'*) echo {name}; printf "<%s>" "$@";; esac\n'
            )
            (programs / name).chmod(0o755)
        done = subprocess.run(
            ["sh", "toy/run.sh", *words],
            env={"PATH": f"{programs}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    status, said = script("podman")
    assert status == 0
    assert "recorded: reproduced" in said
    assert said.startswith("podman\n<run>")
    assert "<--network=none>" in said
    assert "<--user=repro>" in said
    source = f"{Path.cwd()}/toy/files"
    assert f"<--mount=type=bind,source={source}/a b/run.sh,target=/workspace/a b/run.sh,readonly>" in said
    assert "<--env=A=2>" in said
    assert script("none", "docker")[1].startswith("docker\n<run><--rm>")
    assert script("none") == (125, "neither docker nor podman answers: install one of them, or start it\n")


def test_data_of_the_host_is_asked_for(engine: Saving, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path("my data")
    data.mkdir()
    (data / "x").touch()
    case = CASE.replace("command: toy", "datasets: {images: {path: data/im, layout: [{glob: '*'}]}}\ncommand: toy")
    Path("toy.yaml").write_text(case)
    ran("--only", "a=2,b=x", "--dataset", "images=my data")
    assert invoke(["bundle", "last", "-o", "bug.tar"]) == 0
    assert "not in it: the data of images" in capsys.readouterr().err
    script = text(Path("bug.tar"), "toy/run.sh")
    assert 'source="${DATA_images:?give the folder of the data set images}",target=/workspace/data/im' in script
    assert "my data" not in script
    assert "give its folder as `DATA_images`" in text(Path("bug.tar"), "toy/README.md")


def test_private_things_stay_here(engine: Saving, capsys: pytest.CaptureFixture[str]) -> None:
    def leak(trial: object, sink: object) -> object:
        sink(f"token {SECRET} in {Path.home()}\n".encode())  # type: ignore[operator]
        return toy(trial, sink)  # type: ignore[arg-type]

    engine.behave = leak  # type: ignore[assignment]
    ran("--only", "a=2,b=x")
    assert invoke(["bundle", "last", "-o", "bug.tar"]) == 0
    assert "left out of the texts: " in capsys.readouterr().err
    for name in members(Path("bug.tar")):
        if not name.endswith("image.tar"):
            assert SECRET not in text(Path("bug.tar"), name)
    assert str(Path.home()) not in text(Path("bug.tar"), "toy/logs/trial-1.log")


def test_a_case_with_a_secret_is_bundled_only_when_asked(engine: Saving, capsys: pytest.CaptureFixture[str]) -> None:
    Path("toy.yaml").write_text(CASE.replace("A toy", f"A toy {SECRET}"))
    ran("--only", "a=2,b=x")
    assert invoke(["bundle", "last", "-o", "bug.tar"]) == 2
    assert "seems to contain a secret" in capsys.readouterr().err
    assert invoke(["bundle", "last", "-o", "bug.tar", "--yes"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["last", "9", "-o", "x.tar"], "no cell of run"),
        (["last", "-o", "x.tar"], "4 cells of run"),
        (["last", "a=2", "-o", "x.tar"], "2 cells of run"),
        (["last", "3", "-o", "x.zip"], "expected a name that ends in .tar.gz, .tgz, .tar"),
        (["last", "3"], "Missing option '-o'"),
        (["nope", "3", "-o", "x.tar"], "nope"),
    ],
)
def test_what_cannot_be_bundled_is_said(
    engine: Saving, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    ran()
    assert invoke(["bundle", *words]) == 2
    assert said in capsys.readouterr().err
    assert not Path("x.tar").exists()


def test_an_image_that_is_gone_is_named_with_the_command_that_builds_it(
    engine: Saving, capsys: pytest.CaptureFixture[str]
) -> None:
    ran()
    engine.built.clear()
    assert invoke(["bundle", "last", "3", "-o", "x.tar"]) == 2
    assert "has the image of cell 3" in (said := capsys.readouterr().err)
    assert "reprokit run toy.yaml builds it" in said
    assert [path for path in Path().iterdir() if "x.tar" in path.name] == []


def test_a_virtual_environment_is_not_an_image(tmp_path: Path) -> None:
    from reprokit.core.errors import Unsupported

    with pytest.raises(Unsupported, match="no image that could be saved"):
        VenvEngine().save("x", tmp_path / "x", threading.Event())
