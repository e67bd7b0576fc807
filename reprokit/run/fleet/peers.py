"""Images from node to node, where no registry is configured: a node gives what it has, and others take it by parts.

A node that is to serve a cell of an image that others have takes the image as it is there, with the base images that it
was built on: all cells of a run have the same bytes then. Whatever goes wrong is said, and the image is built here.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from reprokit.case.limits import shown_bytes
from reprokit.core import cache, json_text
from reprokit.core.errors import Cancelled, EngineError, ReprokitError
from reprokit.core.files import write
from reprokit.core.ownership import locked_if_free, private_folder
from reprokit.core.text import one_line
from reprokit.engine import bases
from reprokit.engine.protocol import Engine, ImageInfo
from reprokit.engine.sharing import SharedImage
from reprokit.run.fleet.placing import MOST_BYTES
from reprokit.store.folder import SeenBases

if TYPE_CHECKING:
    from reprokit.environment.model import Base

PART = 16 << 20
"""Bytes that are in Ray's object store at a time."""
BUSY = 60.0
"""Seconds for which a node that gives an image to another one lets the next one wait."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Offer:
    """An archive that a node gives: in so many ``parts``, with this SHA-256."""

    parts: int
    sha256: str


class Giver:
    """On a node that has images. It gives one at a time: further ones wait, so that its disk does not fill."""

    def __init__(self, engine: Callable[[], Engine], folder: Path) -> None:
        self._engine = functools.cache(engine)
        self._folder = folder
        self._kept = ExitStack()
        self._archive: Path | None = None

    def bases(self, images: Sequence[Base]) -> Mapping[str, ImageInfo] | None:
        """What images of this node start from, by reference; None where it lacks one of these."""
        seen = SeenBases(self._folder)
        found = {base.reference: bases.standing(self._engine(), base, seen) for base in images}
        return {name: image for name, image in found.items() if image} if all(found.values()) else None

    def open(self, tag: str, architecture: str) -> Offer | str | None:
        """Have an image ready to be taken by parts, or say why not; None where it is not here."""
        engine = self._engine()
        info, image = engine.info(), engine.image(tag)
        if not info.capabilities.archives or info.architecture != architecture:
            return f"{info} gives no images for {architecture or 'an unknown architecture'}"
        if image is None:
            return None
        if image.size > MOST_BYTES:
            return f"the image has {shown_bytes(image.size)}, nodes give each other {shown_bytes(MOST_BYTES)} at most"
        if not self._kept.enter_context(locked_if_free(cache.folder("locks") / "gives-image.lock", BUSY)):
            return "it gives images to other nodes"
        self._archive = self._kept.enter_context(private_folder("give")) / "image.tar"
        engine.save(tag, self._archive, threading.Event())
        digest, parts = hashlib.sha256(), -(-self._archive.stat().st_size // PART)
        for number in range(parts):
            digest.update(self.part(number))
        return Offer(parts=parts, sha256=digest.hexdigest())

    def part(self, number: int) -> bytes:
        """One part of the archive."""
        assert self._archive is not None
        with self._archive.open("rb") as archive:
            archive.seek(number * PART)
            return archive.read(PART)

    def close(self) -> None:
        """The archive was taken, or is not wanted any more."""
        self._kept.close()


class ImagePeer(Protocol):
    """The :class:`Giver` of another node."""

    def ask(self, cancel: threading.Event, method: str, *arguments: Any) -> Any:
        """What a method of it returns. Raises EngineError, Cancelled."""

    def close(self) -> None:
        """Nothing is asked any more."""


class PeerShare:
    """Takes images from the nodes ``homes``, as :class:`~reprokit.engine.sharing.ImageShare`; it offers none.

    ``connect``: reaches a node. ``folder``: of the run on this node, where it is kept what was taken.
    """

    def __init__(
        self,
        engine: Callable[[], Engine],
        homes: Sequence[str],
        connect: Callable[[str], ImagePeer],
        folder: Path,
        note: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._homes = list(homes)
        self._connect = connect
        self._folder = folder / "taken"
        self._note = note

    def bases(self, key: str, images: Sequence[Base], cancel: threading.Event) -> Mapping[str, ImageInfo] | None:
        """As :meth:`ImageShare.bases`."""
        if (known := self._taken(key)) is not None:
            return known
        if not self._takes():
            return None
        for home in list(self._homes):
            with self._reached(home, "its base images", cancel) as peer:
                found: Mapping[str, ImageInfo] | None = peer.ask(cancel, "bases", images)
                if found:
                    return found
        return None

    def took(self, key: str, bases: Mapping[str, ImageInfo]) -> None:
        """As :meth:`ImageShare.took`."""
        text = json.dumps({name: dataclasses.asdict(base) for name, base in bases.items()})
        write(self._place(key), text)

    def fetch(self, image: SharedImage, cancel: threading.Event) -> ImageInfo | None:
        """As :meth:`ImageShare.fetch`."""
        if not self._takes():
            return None
        for home in list(self._homes):
            with self._reached(home, image.tag, cancel) as peer:
                offer = peer.ask(cancel, "open", image.tag, self._engine().info().architecture)
                if offer is None:
                    continue
                if not isinstance(offer, Offer):
                    raise EngineError(offer)
                return self._received(peer, offer, image, cancel)
        return None

    def _received(self, peer: ImagePeer, offer: Offer, image: SharedImage, cancel: threading.Event) -> ImageInfo:
        digest = hashlib.sha256()
        with private_folder("take") as folder:
            with (folder / "image.tar").open("wb") as archive:
                for number in range(offer.parts):
                    part = peer.ask(cancel, "part", number)
                    digest.update(part)
                    archive.write(part)
            if digest.hexdigest() != offer.sha256:
                raise EngineError(f"what arrived has the SHA-256 {digest.hexdigest()}, and not {offer.sha256}")
            found = self._engine().load(folder / "image.tar", image.tag)
        if lacks := sorted(key for key, value in image.labels.items() if found.labels.get(key) != value):
            self._engine().remove_image(image.tag)
            raise EngineError(f"its labels {', '.join(lacks)} are not those of {image.tag}")
        return found

    @contextmanager
    def _reached(self, home: str, what: str, cancel: threading.Event) -> Iterator[ImagePeer]:
        """The node, which is asked no more for this cell where that fails."""
        try:
            peer = self._connect(home)
            try:
                yield peer
            finally:
                peer.close()
        except Cancelled:
            raise
        except (ReprokitError, OSError, ValueError) as error:
            self._homes.remove(home)
            self._note(f"{what} does not come from node {home[:8]}: {one_line(str(error), 200)}")

    def exchanged(self, image: SharedImage) -> bool:
        """As :meth:`ImageShare.exchanged`: what this node has of its own stays."""
        return True

    def push(self, image: SharedImage, cancel: threading.Event) -> str:
        """As :meth:`ImageShare.push`: other nodes ask."""
        return ""

    def steps(self, image: SharedImage) -> tuple[str, ...]:
        """As :meth:`ImageShare.steps`."""
        return ()

    def owe(self, image: SharedImage) -> None:
        """As :meth:`ImageShare.owe`."""

    def owes(self, image: SharedImage) -> bool:
        """As :meth:`ImageShare.owes`."""
        return False

    def _takes(self) -> bool:
        return bool(self._homes) and self._engine().info().capabilities.archives

    def _taken(self, key: str) -> Mapping[str, ImageInfo] | None:
        try:
            found = json_text.loads(self._place(key).read_text(encoding="utf-8"))
            return {name: ImageInfo(**base) for name, base in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def _place(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
