"""What builds of images have in common: their context, the request, and what their steps may reach."""

from __future__ import annotations

import json
import re
import stat
import tarfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from reprokit.core import interrupts
from reprokit.core.errors import Cancelled, EngineError, ReprokitError
from reprokit.engine import images
from reprokit.engine.container_spec import MODIFIED
from reprokit.engine.protocol import Build, ImageInfo, Progress, say_downloads
from reprokit.engine.site.gateway.access import parsed_host
from reprokit.engine.site.links import ARCHIVES
from reprokit.engine.wire import ANSWER_WITHIN, Wire, cut_on, error_in, raise_for_status

if TYPE_CHECKING:
    from reprokit.engine.site import Served, Site

DOCKERFILE = "Dockerfile"
_CHUNK = 256 * 1024


def pack_context(dockerfile: str, context: Mapping[str, bytes | Path]) -> Iterator[bytes]:
    """Yield a tar archive of the Dockerfile and the context, in pieces of at most 256 KiB.

    Deterministic: sorted by path, owner 0, time 0, mode 0755 or 0644 as the file is executable or not. Raises
    EngineError when a file of the host cannot be read.
    """
    entries = {**context, DOCKERFILE: dockerfile.encode()}
    folders = {str(parent) for name in entries for parent in PurePosixPath(name).parents} - {"."}
    for name in sorted({*folders, *entries}):
        try:
            if name in entries:
                yield from _entry(name, entries[name])
            else:
                yield _header(name, tarfile.DIRTYPE, 0o755)
        except OSError as error:
            raise EngineError(f"the build context cannot be read: {error.filename}: {error.strerror}") from error
    yield bytes(2 * tarfile.BLOCKSIZE)


def _entry(name: str, content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield _header(name, tarfile.REGTYPE, 0o644, size=len(content))
        for start in range(0, len(content), _CHUNK):
            yield content[start : start + _CHUNK]
        yield bytes(-len(content) % tarfile.BLOCKSIZE)
        return
    status = content.lstat()
    kind = status.st_mode
    if stat.S_ISLNK(kind):
        yield _header(name, tarfile.SYMTYPE, 0o777, link=str(content.readlink()))
    elif stat.S_ISDIR(kind):
        yield _header(name, tarfile.DIRTYPE, 0o755)
        for child in sorted(content.iterdir()):
            yield from _entry(f"{name}/{child.name}", child)
    elif stat.S_ISREG(kind):
        yield _header(name, tarfile.REGTYPE, 0o755 if kind & 0o111 else 0o644, size=status.st_size)
        yield from _file(content, status.st_size)
    # Sockets, pipes and devices have no content to send.


def _header(name: str, kind: bytes, mode: int, *, size: int = 0, link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.linkname = kind, mode, size, link
    info.mtime = MODIFIED  # with 0, `setup.py install` refuses to make an egg of it
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _file(path: Path, size: int) -> Iterator[bytes]:
    left = size
    with path.open("rb") as reader:
        while left:
            data = reader.read(min(_CHUNK, left))
            if not data:
                raise EngineError(f"the build context changed while it was sent: {path} became shorter")
            left -= len(data)
            yield data
    yield bytes(-size % tarfile.BLOCKSIZE)


def dockerfile_of(build: Build) -> str:
    """The Dockerfile as it is sent: a fresh build has steps that no other build has, and takes none from earlier ones.

    Not the query ``nocache``: BuildKit panics, and every container of the engine ends, where a build with it and one
    without run the same step at once (moby 42414; on 20.10.24 in 3 of 32 rounds of four builds, so: 0 of 75).
    """
    return below_from(build.dockerfile, f"ARG REPROKIT_FRESH={uuid.uuid4().hex}") if build.fresh else build.dockerfile


def below_from(dockerfile: str, line: str) -> str:
    """A Dockerfile with one more instruction at the start of each stage."""
    return re.sub(r"(?m)^FROM .+$", lambda found: f"{found[0]}\n{line}", dockerfile)


def build_image(
    wire: Wire,
    build: Build,
    site: Site,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
    send: Callable[[Served], ReprokitError | None],
) -> ImageInfo:
    """Build an image by ``send``, which returns why that failed; see :meth:`reprokit.engine.protocol.Engine.build`."""
    if cancel.is_set():
        raise Cancelled("cancelled before the build started")
    reached = not wire.is_podman() or wire.is_local()
    hosts, places = named_hosts(build), named_places(build)
    with site.serving(build.trust, hosts=hosts, places=places, reached=reached) as served:
        for warning in served.warnings:
            on_progress(Progress(number=0, total=0, name="site settings", log=f"warning: {warning}\n"))
        failed = send(served)
        say_downloads(served.fetched, on_progress)
        if failed:
            raise failed
    image = images.find(wire, build.tag)
    if image is None:
        text = f"the engine says that it built {build.tag}, yet has no such image: was it removed meanwhile?"
        raise EngineError(text)
    return image


def post_build(
    wire: Wire,
    parameters: Mapping[str, str],
    context: Iterable[bytes],
    take: Callable[[dict[str, Any]], None],
    cancel: threading.Event,
) -> str:
    """``POST /build`` with a tar stream; ``take`` gets each message of the answer.

    Returns the engine's error, or '' for success. Raises Cancelled, EngineError.
    """

    def body() -> Iterator[bytes]:
        for piece in context:
            if cancel.is_set():
                raise Cancelled("cancelled while the build context was sent")
            yield piece

    client = wire.client()
    name = f"the build of {parameters['t']}"
    interrupts.would_leave(name, "the engine stops it once it sees that this process has ended")
    response: Any = None
    try:
        with wire.errors():
            response = client.post(
                wire.url("/build"),
                params=parameters,
                data=body(),
                headers={"Content-Type": "application/x-tar"},
                stream=True,
                timeout=ANSWER_WITHIN,
            )
        with wire.errors(), cut_on(response, cancel):
            raise_for_status(response)
            for line in response.iter_lines(chunk_size=None):
                if cancel.is_set():
                    break
                if not line:
                    continue
                message = json.loads(line)
                take(message)
                if error := error_in(message):
                    return error
    except EngineError:
        if not cancel.is_set():
            raise
    finally:
        if response is not None:
            response.close()  # also how the engine learns that no one waits any more: it stops the build
        interrupts.leaves_no_more(name)
    if cancel.is_set():
        raise Cancelled("cancelled during the build")
    return ""


_URL = re.compile(r"https?://(?:[^/\s'\"@]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")

_PLACE = re.compile(r"(?:--(?:extra-)?index-url|--find-links|(?<!\S)-[if])[= ]?'?(https?://[^\s'\"\\@]+)(?![^\s'\"\\])")
"""An index or a find-links page in an option of pip, as the Dockerfile quotes it; without a login."""

_FETCHED_FROM = {
    "uv-python.sh": ("github.com", "objects.githubusercontent.com", "release-assets.githubusercontent.com"),
    "conda_packages.py": ("conda.anaconda.org",),
}
"""Scripts of steps of ours -> where interpreters and packages come from, on sites without a mirror of them."""


def named_hosts(build: Build) -> frozenset[str]:
    """HOST or HOST:PORT of every address in the Dockerfile (requirements, options of pip) and in the lock's files.

    Not those in scripts of the case: what ``setup`` fetches, an untrusted case has to name as a source or requirement.
    """
    locks = [text for name, text in build.context.items() if re.fullmatch(r"reprokit/[^/]+\.lock", name)]
    texts = [build.dockerfile, *(text.decode("utf-8", "replace") for text in locks if isinstance(text, bytes))]
    found = _hosts("\n".join(texts))
    ours = (hosts for script, hosts in _FETCHED_FROM.items() if f"reprokit/{script}" in build.context)
    return frozenset(found).union(*ours)


def named_places(build: Build) -> frozenset[str]:
    """The indexes and find-links pages that the steps of pip name: what these link to, an untrusted build gets, too."""
    found = _PLACE.findall(build.dockerfile)
    return frozenset(place for place in found if not place.lower().endswith(ARCHIVES) and _hosts(place))


def _hosts(text: str) -> set[str]:
    """The hosts of a text's addresses, but for ``[1]`` and the port 99999, which no program connects to."""
    found = {f"{host.lower()}:{port}" if port else host.lower() for host, port in _URL.findall(text)}
    return {host for host in found if _is_host(host)}


def _is_host(text: str) -> bool:
    try:
        return bool(parsed_host(text))
    except ValueError:
        return False
