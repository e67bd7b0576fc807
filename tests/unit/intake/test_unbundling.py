"""What is taken of a bundle of someone else, and what is refused. On real engines: tests/integration/test_bundle.py."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.engine.protocol import EngineInfo, ImageInfo
from reprokit.intake import unbundling
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import CASE, toy

Member = tuple[str, bytes] | tarfile.TarInfo
ABOUT = {
    "format": "reprokit-bundle/v1",
    "cell": {"a": "2", "b": "x"},
    "variant": "case",
    "verdict": "reproduced",
    "reason": "as ever",
}


def tar(*members: Member) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for one in members:
            if isinstance(one, tarfile.TarInfo):
                archive.addfile(one)
            else:
                info = tarfile.TarInfo(one[0])
                info.size = len(one[1])
                archive.addfile(info, io.BytesIO(one[1]))
    return stream.getvalue()


def special(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


def image(layer: bytes | None = None, *, labels: Any = None, tags: Any = None, more: tuple[Member, ...] = ()) -> bytes:
    layer = tar(("etc/os-release", b"ID=debian\n")) if layer is None else layer
    digest = hashlib.sha256(layer).hexdigest()
    labels = {"org.reprokit.image": "1"} if labels is None else labels
    config = json.dumps({"config": {"Labels": labels}, "rootfs": {"diff_ids": [f"sha256:{digest}"]}}).encode()
    name = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{name}.json", "RepoTags": tags or ["debian:12"], "Layers": [f"{digest}.tar"]}]
    entry = json.dumps(manifest).encode()
    return tar(("manifest.json", entry), (f"{name}.json", config), (f"{digest}.tar", layer), *more)


def bundled(*more: Member, of_image: bytes | None = None, about: Any = None, without: str = "") -> bytes:
    members = {
        "bundle.json": json.dumps(ABOUT if about is None else about).encode(),
        "case.yaml": CASE.encode(),
        "run.sh": b"rm -rf /",
        "image.tar": image() if of_image is None else of_image,
    }
    return tar(*((f"toy/{name}", text) for name, text in members.items() if name != without), *more)


def several(*configs: str, more: tuple[Member, ...] = ()) -> bytes:
    """A bundle of cells with these images, of those named 0 and 1, which have a layer in common."""
    found: dict[str, bytes] = {}
    names = []
    for one in (image(), image(labels={"org.reprokit.image": "1", "n": "2"})):
        with tarfile.open(fileobj=io.BytesIO(one)) as archive:
            found |= {name: stream.read() for name in archive.getnames() if (stream := archive.extractfile(name))}
            names.append(archive.getnames()[1])
    members: list[Member] = []
    for number, config in enumerate(configs):
        about = ABOUT | {"image": {"config": names[int(config)] if config.isdigit() else config}}
        members.append((f"bugs/cells/{number}/bundle.json", json.dumps(about).encode()))
        members.append((f"bugs/cells/{number}/case.yaml", CASE.encode()))
    return tar(*members, ("bugs/image.tar", tar(*found.items())), *more)


def opened(content: bytes, folder: Path) -> unbundling.OpenBundle:
    (folder / "bug.tar").write_bytes(content)
    (folder / "scratch").mkdir(exist_ok=True)
    return unbundling.open_bundle(folder / "bug.tar", folder / "scratch", str(folder / "bug.tar"))


@pytest.mark.parametrize("packed", ["tar", "gz", "zst"])
def test_the_image_gets_one_name_which_is_not_that_of_the_archive(tmp_path: Path, packed: str) -> None:
    content = bundled()
    content = gzip.compress(content) if packed == "gz" else content
    if packed == "zst":
        zstd = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")
        far = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 30})  # as of several cells
        content = far.compress(content) + far.flush()
    bundle = opened(content, tmp_path)
    [found] = bundle.cells
    assert bundle.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert (found.text, found.about.cell) == (CASE, {"a": "2", "b": "x"})
    with tarfile.open(found.image.archive) as archive:
        stream = archive.extractfile("manifest.json")
        assert stream is not None
        [entry] = json.load(stream)
        assert len(archive.getnames()) == 3
    assert entry["RepoTags"] == [f"docker.io/{found.image.tag}"]
    assert found.image.tag == f"reprokit/img:stranger-bundle-{found.image_id.removeprefix('sha256:')}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello\n", "ends too early"),
        (several("x"), "of one of its cells is not in it"),
        (several("0", more=(("bugs/case.yaml", b""),)), "the same file twice"),
        (several("0", more=(("bugs/cells/2/case.yaml", b""),)), "it has no bundle.json"),
        (b"hello\n" * 1000, "not a bundle"),
        (b"\x1f\x8bnothing", "not a bundle"),
        (tar(("toy/README.md", b"")), "it has no bundle.json"),
        (bundled(without="image.tar"), "it has no image.tar"),
        (bundled()[:3000], "ends too early"),
        (gzip.compress(bundled())[:-40], "not a bundle"),
        (bundled(special("toy/x", tarfile.SYMTYPE)), "a link, a device"),
        (bundled(special("toy/case.yaml", tarfile.LNKTYPE)), "a link, a device"),
        (bundled(special("toy/x", tarfile.CHRTYPE)), "a link, a device"),
        (bundled(("toy/case.yaml", b"schema: other")), "the same file twice"),
        (bundled(("other/x", b"")), "more than one bundle"),
        (bundled(about={**ABOUT, "format": "reprokit-bundle/v2"}), "update reprokit"),
        (bundled(about=[]), "not a bundle"),
        (bundled(about={**ABOUT, "variant": "../x"}), "not a bundle"),
        (bundled(of_image=image(more=(("repositories", b"{}"),))), "not part of an image"),
        (bundled(of_image=image(more=(special("x", tarfile.SYMTYPE),))), "a link, a device"),
        (bundled(of_image=image(more=((f"{'0' * 64}.tar", b""),))), "digest of a layer"),
        (bundled(of_image=image(labels={})), "not one that reprokit made"),
        (bundled(of_image=image(labels=[])), "configuration"),
        (bundled(of_image=tar(("manifest.json", b"[]"))), "configuration"),
        (bundled(of_image=image(gzip.compress(tar(("x", bytes(2**20)))))), "not a bundle"),
        (bundled(of_image=image(tar(special("hole", tarfile.GNUTYPE_SPARSE)))), "a link, a device or something else"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_a_bundle_of_ours_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        opened(content, tmp_path)
    assert str(tmp_path / "bug.tar") in str(caught.value)


def test_what_expands_to_more_than_an_image_does_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unbundling, "_MARGIN", 0)
    with pytest.raises(UsageError, match="expands to more"):
        opened(gzip.compress(bundled(("toy/large", bytes(2**22)))), tmp_path)


def test_files_whose_header_hides_their_size_are_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": "99999999999"}
        archive.addfile(info)
    with pytest.raises(UsageError, match="holes"):
        opened(bundled(of_image=image(stream.getvalue())), tmp_path)


class Loading(FakeEngine):
    def __init__(self) -> None:
        super().__init__(toy)
        self.loaded: list[str] = []

    def info(self) -> EngineInfo:
        return EngineInfo(kind="docker", name="Fake", version="1", architecture="amd64")

    def load(self, archive: Path, tag: str) -> ImageInfo:
        assert archive.is_file()
        self.loaded.append(tag)
        self.built.append(tag)
        return ImageInfo(tag=tag, id=f"sha256:{tag}", size=1)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loading:
    fake = Loading()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    monkeypatch.setattr("reprokit.run.invocation._engine", lambda name: fake)
    Path("bug.tar").write_bytes(bundled())
    return fake


def run(*words: str) -> int:
    return invoke(["run", "bug.tar", "--confirm", "never", *words])


def test_its_cell_runs_in_its_image_and_is_compared(engine: Loading, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--yes") == 0
    shown = capsys.readouterr()
    assert "same verdict as recorded: reproduced" in shown.err
    assert len(engine.loaded) == 1
    assert engine.built == engine.loaded
    Path("bug.tar").write_bytes(bundled(about={**ABOUT, "verdict": "not-reproduced"}))
    run("--yes")
    assert "recorded: not-reproduced: as ever; here: reproduced" in capsys.readouterr().err


def test_several_cells_of_one_archive_run_each_in_its_image(
    engine: Loading, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bug.tar").write_bytes(several("1", "0", "1"))
    assert run("--yes") == 0
    assert capsys.readouterr().err.count("same verdict as recorded: reproduced") == 3
    assert len(engine.loaded) == 2


def test_it_stays_untrusted_and_is_agreed_to_as_a_whole(engine: Loading, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    digest = f"sha256:{hashlib.sha256(Path('bug.tar').read_bytes()).hexdigest()}"
    assert f"--reviewed {digest}" in capsys.readouterr().err
    assert run("--reviewed", f"sha256:{hashlib.sha256(CASE.encode()).hexdigest()}") == 2
    assert run("--reviewed", digest, "--json", "result.json") == 0
    assert '"stranger"' in Path("result.json").read_text()


@pytest.mark.parametrize("words", [["--fix"], ["--only", "a=1"], ["--base", "registry"], ["--watch"], ["other.yaml"]])
def test_what_chooses_or_builds_cells_is_refused(engine: Loading, words: list[str]) -> None:
    assert run("--yes", *words) == 2
    assert not engine.loaded


def test_a_run_of_a_bundle_is_not_resumed_from_its_text(engine: Loading, capsys: pytest.CaptureFixture[str]) -> None:
    engine.load = lambda archive, tag: (_ for _ in ()).throw(UsageError("no"))  # type: ignore[method-assign]
    run("--yes")
    capsys.readouterr()
    assert invoke(["run", "--resume"]) == 2
    assert "reprokit run" in capsys.readouterr().err
