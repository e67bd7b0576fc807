"""A bundle of someone else, taken in: nothing of it is believed, and of each cell only two files are read.

The images go to the engine by an archive that is written here: each with one name, of its digest, and with plain
layers alone, whose digests hold, so that what is loaded is neither larger nor other than what was read.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, ConfigDict, Field

from reprokit.case.files import CaseFile
from reprokit.case.trust import Trust
from reprokit.core.errors import UsageError
from reprokit.core.ownership import IMAGE_LABELS
from reprokit.core.terminal import echo
from reprokit.core.text import first_line
from reprokit.engine import registry, site
from reprokit.engine.images import on_docker_hub
from reprokit.environment.cases import load_text
from reprokit.intake.bundle import FORMAT, MOST_WINDOW, add, zstd
from reprokit.run.approving import approve
from reprokit.run.plan import plan
from reprokit.run.request import Chosen, Request
from reprokit.run.task import BundledImage, Task

MOST_TEXT = 8 * 2**20
MOST_TEXTS = 64 * 2**20
"""Bytes of all texts of the cells of a bundle, and of all configurations of its images."""
MOST_RATIO = 100
"""How many times as large as the file its content may be; images are two to five times as large."""
_MARGIN = 64 * 2**20
_SHORT = "it ends too early (copy it again), or it expands to more than an image does, or than max_fetch_size allows"
_BLOCK = 512
_BROKEN: tuple[type[Exception], ...] = (EOFError, ValueError, tarfile.HeaderError, zlib.error)
_CELL = re.compile(r"(cells/[^/]+)?")
"""Where the texts of a cell are, below the one folder of a bundle."""
_LAYER = re.compile(r"([0-9a-f]{64})\.tar")
_CONFIG = re.compile(r"([0-9a-f]{64})\.json")
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE)
_EXTENSIONS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_IN_LAYERS = (*_REGULAR, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE)


class About(BaseModel):
    """What is read of bundle.json."""

    model_config = ConfigDict(extra="ignore", strict=True)

    format: str
    cell: dict[str, str]
    variant: str = Field(pattern="^(case|fix)$")
    verdict: str | None
    reason: str
    image: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OpenCell:
    """A cell of a bundle. ``text``: its case. ``image``: to be loaded; ``image_id``: what it is."""

    about: About
    text: str
    image: BundledImage
    image_id: str


@dataclass(frozen=True, kw_only=True)
class OpenBundle:
    """``digest``: of the whole file."""

    digest: str
    cells: tuple[OpenCell, ...]


class Damaged(Exception):
    """Why the file is not a bundle that can be taken; without the file's name."""


def open_bundle(path: Path, folder: Path, name: str) -> OpenBundle:
    """Read a bundle, and write its image as an archive into ``folder``. ``name``: for messages. Raises UsageError."""
    if not path.is_file():
        raise UsageError(f"{name}: there is no such file, or it is not a plain one")
    try:
        with path.open("rb") as raw:
            whole = _Part(raw.read, path.stat().st_size)
            with _decompressed(raw, whole) as stream:
                most = min(whole.left * MOST_RATIO + _MARGIN, site.settings().max_fetch_size)
                texts, images = _read(_Part(stream.read, most), folder / "image.tar")
            whole.skip()
        cells = tuple(_cell(some, images, folder / "image.tar") for some in texts.values())
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from None
    except Damaged as error:
        raise UsageError(f"{name}: {error}") from None
    except _BROKEN as error:
        what = type(error).__name__
        raise UsageError(f"{name}: not a bundle of reprokit, or a damaged one ({what}): copy it again") from None
    return OpenBundle(digest=f"sha256:{whole.digest.hexdigest()}", cells=cells)


def _cell(texts: dict[str, bytes], images: Collection[str], archive: Path) -> OpenCell:
    about = About.model_validate_json(texts["bundle.json"])
    if about.format != FORMAT:
        raise Damaged(f"its format is {about.format[:80]!r}, and this reprokit reads {FORMAT}: update reprokit")
    [image_id, *others] = images
    if others and (image_id := str(about.image.get("config")).removesuffix(".json")) not in images:
        raise Damaged("the image of one of its cells is not in it")
    image = BundledImage(archive=archive, tag=_name(image_id))
    return OpenCell(about=about, text=texts["case.yaml"].decode("utf-8"), image=image, image_id=f"sha256:{image_id}")


def _name(image_id: str) -> str:
    return f"reprokit/img:stranger-bundle-{image_id}"


class _Part:
    """The next ``left`` bytes of a stream, and their digest; what ends earlier is truncated."""

    def __init__(self, read: Callable[[int], bytes], left: int) -> None:
        self._read = read
        self.left = left
        self.digest = hashlib.sha256()

    def read(self, size: int = 2**20) -> bytes:
        """``size`` bytes, or fewer at the end."""
        found, wanted = [], min(size, self.left) if size >= 0 else self.left
        while wanted and (data := self._read(wanted)):
            found.append(data)
            wanted -= len(data)
            self.left -= len(data)
            self.digest.update(data)
        return b"".join(found)

    def exactly(self, size: int) -> bytes:
        """That many bytes. Raises Damaged."""
        found = self.read(size)
        if len(found) < size:
            raise Damaged(_SHORT)
        return found

    def skip(self) -> None:
        """Read what is left, as far as there is something."""
        while self.read():
            pass

    def check_read(self) -> None:
        """Raise Damaged where the stream ended too early."""
        self.skip()
        if self.left:
            raise Damaged(_SHORT)


@contextmanager
def _decompressed(raw: IO[bytes], whole: _Part) -> Iterator[Any]:
    """The archive without its compression, which its first bytes tell."""
    start = raw.read(4)
    raw.seek(0)
    if start == b"\x28\xb5\x2f\xfd":
        try:
            limit = {zstd().DecompressionParameter.window_log_max: MOST_WINDOW}
            with zstd().ZstdFile(whole, "r", options=limit) as stream:
                yield stream
        except zstd().ZstdError as error:
            raise ValueError(str(error)) from error
    elif start[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=whole, mode="rb") as stream:  # type: ignore[call-overload]
            yield stream
    else:
        yield whole


def _members(stream: _Part, kinds: tuple[bytes, ...]) -> Iterator[tuple[tarfile.TarInfo, _Part]]:
    """The members of an archive, each with its content. Extensions of the format give no size and no hole."""
    while any(header := stream.exactly(_BLOCK)):
        one = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        if one.type not in (*kinds, *_EXTENSIONS):
            raise Damaged(f"{one.name[:80]!r} in it is a link, a device or something else that a bundle does not hold")
        size = one.size if one.type in (*_REGULAR, *_EXTENSIONS) else 0
        if size < 0 or size > stream.left:
            raise Damaged(_SHORT)
        part = _Part(stream.read, size)
        if one.type in _EXTENSIONS:
            if size > MOST_TEXT:
                raise Damaged(f"it has a name of more than {MOST_TEXT} bytes")
            text = part.exactly(size)
            if b" size=" in text or b"GNU.sparse" in text:
                raise Damaged("it has files with holes, or of a size that their header does not say")
        else:
            yield one, part
        part.check_read()
        stream.exactly(-size % _BLOCK)


def _read(archive: _Part, target: Path) -> tuple[dict[str, dict[str, bytes]], Collection[str]]:
    """The texts of each cell of a bundle, and the digests of the images that are written to ``target``."""
    texts: dict[str, dict[str, bytes]] = {}
    folders: set[str] = set()
    images: Collection[str] = ()
    room = MOST_TEXTS
    for one, part in _members(archive, _REGULAR):
        folder, _, path = one.name.partition("/")
        cell, _, name = path.rpartition("/")
        folders.add(folder)
        if name in texts.get(cell, {}) or (path == "image.tar" and images) or len(folders) > 1:
            raise Damaged("it holds the same file twice, or more than one bundle")
        if name in ("bundle.json", "case.yaml") and _CELL.fullmatch(cell):
            texts.setdefault(cell, {})[name] = found = _text(part, name, room)
            room -= len(found)
        elif path == "image.tar":
            images = _images(part, target)
    if "" in texts and len(texts) > 1:
        raise Damaged("it holds the same file twice, or more than one bundle")
    for name in ("bundle.json", "case.yaml", "image.tar"):
        if not (images if name == "image.tar" else texts and all(name in one for one in texts.values())):
            raise Damaged(f"not a bundle of reprokit: it has no {name}")
    return texts, images


def _text(part: _Part, name: str, room: int) -> bytes:
    if part.left > min(MOST_TEXT, room):
        raise Damaged(f"its {name} is larger than {MOST_TEXT} bytes, or all such texts than {MOST_TEXTS}")
    return part.exactly(part.left)


def _images(archive: _Part, target: Path) -> Collection[str]:
    """Write the images that ``archive`` holds to ``target``, under names of ours; their digests. Raises Damaged."""
    configs: dict[str, bytes] = {}
    layers: set[str] = set()
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as made:
        for one, part in _members(archive, _REGULAR):
            if (found := _CONFIG.fullmatch(one.name)) and found[1] not in configs:
                room = MOST_TEXTS - sum(map(len, configs.values()))
                configs[found[1]] = config = _text(part, one.name, room)
                if part.digest.hexdigest() != found[1]:
                    raise Damaged("the digest of its image does not hold")
                add(made, one.name, config)
            elif (found := _LAYER.fullmatch(one.name)) and found[1] not in layers:
                layers.add(found[1])
                info = tarfile.TarInfo(one.name)
                info.size = part.left
                made.addfile(info, part)
                if part.digest.hexdigest() != found[1]:
                    raise Damaged("the digest of a layer of its image does not hold")
            elif one.name != "manifest.json":  # ours is made of the configs
                raise Damaged(f"its image.tar holds {one.name[:80]!r}, which is not part of an image")
        digests = {image_id: _digests(config) for image_id, config in configs.items()}
        if not configs or {one for some in digests.values() for one in some} != layers:
            raise Damaged("its image has no configuration, or not all of it is there")
        entries = []
        for image_id, some in digests.items():
            names, files = [on_docker_hub(_name(image_id))], [f"{digest}.tar" for digest in some]
            entries.append({"Config": f"{image_id}.json", "RepoTags": names, "Layers": files})
        add(made, "manifest.json", json.dumps(entries).encode())
    _check_layers(target)
    return configs.keys()


def _digests(config: bytes) -> list[str]:
    """The layers that an image has by its config. Raises Damaged unless it is one of ours."""
    try:
        content = json.loads(config)
        digests = [str(digest).removeprefix("sha256:") for digest in content["rootfs"]["diff_ids"]]
        ours = all(content["config"]["Labels"].get(name) == value for name, value in IMAGE_LABELS.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Damaged("its image has no configuration that can be read") from None
    if not ours:
        raise Damaged("its image is not one that reprokit made")
    return digests


def _check_layers(image: Path) -> None:
    """Raise Damaged for a layer that is compressed or has files with holes: the engine would make more of it."""
    with image.open("rb") as raw:
        for one, part in _members(_Part(raw.read, image.stat().st_size), _REGULAR):
            if _LAYER.fullmatch(one.name) and part.left:
                for _, content in _members(part, _IN_LAYERS):
                    content.skip()


def admit_bundle(found: OpenBundle, path: str, request: Request) -> list[CaseFile]:
    """The cases of a bundle, untrusted, once they may run: a case that was read says nothing of an image.

    What is agreed to is the bundle as a whole, by its digest. Raises UsageError.
    """
    if registry.capabilities(request.engine).recipe == "script":
        raise UsageError(f"{path}: a bundle holds a container image: choose another --engine than {request.engine}")
    texts = dict.fromkeys(one.text for one in found.cells)
    files = [replace(load_text(path, text), trust=Trust.STRANGER) for text in texts]
    if len({file.case.id for file in files}) < len(files):
        raise UsageError(f"{path}: two of its cases have the same id")
    images = {one.image_id for one in found.cells}
    which = f"the image {min(images)}" if len(images) == 1 else f"{len(images)} images"
    echo(f"{path}: {found.digest}, with {which}, untrusted whatever is read", err=True)
    cells = [one.about.cell for one in found.cells] if len(files) == 1 else []  # of several, all of each case are shown
    approve([replace(file, digest=found.digest) for file in files], request, {found.digest: cells})
    return files


def tasks_of(found: OpenBundle, files: Sequence[CaseFile], request: Request) -> tuple[Request, list[Task]]:
    """The cells of a bundle, as a request and its tasks, in their order. Raises UsageError, CaseError."""
    known = {file.text: file for file in files}
    request = replace(request, base_images="bootstrap", bundle=True)
    made, chosen = list[Task](), list[Chosen]()
    for number, one in enumerate(found.cells, 1):
        file, variant = known[one.text], one.about.variant
        chosen.append(Chosen(path=file.path, digest=file.digest, cells=(one.about.cell,), fix=variant == "fix"))
        planned = plan([file], replace(request, chosen=(chosen[-1],)))
        tasks = [task for task in planned if task.variant == variant]
        if len(tasks) != 1:
            raise UsageError(
                f"{file.path}: its case compares its cell with others (expect.compare), which are not in it"
            )
        made.append(replace(tasks[0], number=number, bundled=one.image))
    return replace(request, chosen=tuple(chosen)), made


def compare_verdict(found: OpenCell, verdict: str | None) -> str:
    """The verdict beside the one that the bundle recorded, in words."""
    if verdict == found.about.verdict:
        return f"same verdict as recorded: {verdict}"
    return f"recorded: {found.about.verdict}: {first_line(found.about.reason)}; here: {verdict}"
