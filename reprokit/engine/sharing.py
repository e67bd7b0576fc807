"""Images that machines share through a registry: looked up by the hash of their inputs, and pushed after a build.

Who may push there decides what it serves: so the digest that a store saw first under a name is the one that it takes
later, and what comes has to carry the labels of just that image. Whatever else goes wrong is said once, and the image
is built here. With BuildKit, an image that differs in its last steps takes the others from images of the registry.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from reprokit.case.trust import Trust
from reprokit.core.errors import Cancelled, EngineError, Unsupported
from reprokit.engine.failure import is_registry_down
from reprokit.engine.protocol import Engine, ImageInfo

if TYPE_CHECKING:
    from reprokit.environment.model import Base

REPOSITORIES: Mapping[Trust, str] = {Trust.OWN: "own", Trust.REVIEWED: "reviewed", Trust.STRANGER: "untrusted"}
"""Where images lie below the site's prefix: levels of trust share no images."""

STEPS = "steps"
"""Where images lie, once more, by the beginnings of their Dockerfiles."""

_FAILURES = (EngineError, Unsupported, OSError, ValueError)


@dataclass(frozen=True, kw_only=True)
class SharedImage:
    """An image that machines share: its ``tag`` in the engine, the ``labels`` that it has to carry, and the repository
    and version that it has in the registry (without the architecture, which :class:`RegistryShare` adds). ``steps``:
    hashes of the beginnings of its Dockerfile, under which others find what they have in common with it.
    """

    tag: str
    repository: str
    version: str
    labels: Mapping[str, str]
    steps: tuple[str, ...] = ()


class ImageShare(Protocol):
    """Where images come from that another machine has built. No method raises but Cancelled."""

    def bases(self, key: str, images: Sequence[Base], cancel: threading.Event) -> Mapping[str, ImageInfo] | None:
        """Name what the image of another machine is built on, by reference, where it is to be taken as it is.

        ``key``: the same for tasks that share the image, on all machines. ``images``: what it starts from. None: images
        of others are found by the base images of this machine.
        """

    def took(self, key: str, bases: Mapping[str, ImageInfo]) -> None:
        """Remember that the image was taken which is built on these."""

    def exchanged(self, image: SharedImage) -> bool:
        """Say whether the store has fetched or pushed the image before, or never will."""

    def fetch(self, image: SharedImage, cancel: threading.Event) -> ImageInfo | None:
        """Bring the image into the engine, under its tag; None where it is not there, or not to be taken."""

    def push(self, image: SharedImage, cancel: threading.Event) -> str:
        """Offer an image of the engine to the others; its digest there, '' where it was not taken or is not known."""

    def steps(self, image: SharedImage) -> tuple[str, ...]:
        """Name the images whose steps a build of this one may take over, whether they exist or not."""

    def owe(self, image: SharedImage) -> None:
        """Remember that the image was built here and is not pushed yet: where that fails, a later run does it."""

    def owes(self, image: SharedImage) -> bool:
        """Say whether the image has yet to be pushed."""


class Digests(Protocol):
    """The digest that each name of a registry had first."""

    def digest(self, reference: str) -> str:
        """The digest of a name, '' for none."""

    def keep(self, reference: str, digest: str) -> None:
        """Remember the digest of a name, under which nothing has to be pushed any more."""

    def owe(self, reference: str) -> None:
        """Remember that an image has to be pushed under a name."""

    def owes(self, reference: str) -> bool:
        """Whether one has."""


@dataclass(kw_only=True)
class RegistryShare:
    """Shares through the registry at ``prefix`` (host and path), for engines that make images.

    ``note``: takes what the user has to know, once each.
    ``pushes``: whether to push at all.
    """

    engine: Callable[[], Engine]
    prefix: str
    digests: Digests
    note: Callable[[str], None]
    pushes: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _said: set[str] = field(default_factory=set, repr=False)
    _off: set[str] = field(default_factory=set, repr=False)
    _pushed: set[str] = field(default_factory=set, repr=False)

    def bases(self, key: str, images: Sequence[Base], cancel: threading.Event) -> Mapping[str, ImageInfo] | None:
        """As :meth:`ImageShare.bases`: machines share base images, too."""
        return None

    def took(self, key: str, bases: Mapping[str, ImageInfo]) -> None:
        """As :meth:`ImageShare.took`."""

    def exchanged(self, image: SharedImage) -> bool:
        """As :meth:`ImageShare.exchanged`."""
        try:
            return "fetch" in self._off or not self._makes_images() or bool(self.digests.digest(self._name(image)))
        except _FAILURES as error:
            self._say(f"{self._what('is not asked')}: {_plain(error)}")
            return True

    def fetch(self, image: SharedImage, cancel: threading.Event) -> ImageInfo | None:
        """As :meth:`ImageShare.fetch`."""
        if "fetch" in self._off:
            return None
        asked = image.tag
        try:
            if not self._makes_images():
                return None
            name = self._name(image)
            known = self.digests.digest(name)
            asked = f"{name.rpartition(':')[0]}@{known}" if known else name
            return self._taken(image, name, asked, known, cancel)
        except Cancelled:
            raise
        except _FAILURES as error:
            if is_registry_down(str(error)):
                self._off |= {"fetch", "push"}
                self._say(f"{self._what('does not serve images')}, and they are built here: {_plain(error)}")
            else:
                self._off.add("steps")  # BuildKit tries a layer that is corrupt for minutes
                self._say(f"registry_images: {asked} cannot be fetched, and is built here: {_plain(error)}")
            return None

    def push(self, image: SharedImage, cancel: threading.Event) -> str:
        """As :meth:`ImageShare.push`. After the first that is refused, none is pushed any more."""
        if not self.pushes or "push" in self._off:
            return ""
        try:
            if not self._makes_images():
                return ""
            name = self._name(image)
            if digest := self._sent(image.tag, name, cancel):
                self._keep(name, digest)
            for name in self.steps(image):
                if name not in self._pushed:
                    self._sent(image.tag, name, cancel)
                    self._pushed.add(name)
        except Cancelled:
            raise
        except _FAILURES as error:
            self._off.add("push")
            self._say(f"{self._what('did not take an image')}, and this run pushes no more: {_plain(error)}")
            return ""
        return digest

    def steps(self, image: SharedImage) -> tuple[str, ...]:
        """As :meth:`ImageShare.steps`."""
        try:
            if self._off & {"fetch", "steps"} or not self.engine().info().capabilities.steps:
                return ()
            return tuple(self._name(replace(image, repository=STEPS, version=step)) for step in image.steps)
        except _FAILURES:  # whoever builds meets it again
            return ()

    def owe(self, image: SharedImage) -> None:
        """As :meth:`ImageShare.owe`."""
        with contextlib.suppress(*_FAILURES):  # it is pushed now or never
            if self.pushes and self._makes_images():
                self.digests.owe(self._name(image))

    def owes(self, image: SharedImage) -> bool:
        """As :meth:`ImageShare.owes`."""
        try:
            return self.pushes and self._makes_images() and self.digests.owes(self._name(image))
        except _FAILURES:
            return False

    def _sent(self, tag: str, name: str, cancel: threading.Event) -> str:
        self.engine().tag(tag, name)
        try:
            return self.engine().push(name, cancel)
        finally:
            self._untag(name)

    def _keep(self, name: str, digest: str) -> None:
        try:
            self.digests.keep(name, digest)
        except _FAILURES as error:
            self._say(f"the store cannot keep which images of {self.prefix} it has seen (registry_images): {error}")

    def _taken(
        self, image: SharedImage, name: str, asked: str, known: str, cancel: threading.Event
    ) -> ImageInfo | None:
        found = self.engine().pull(asked, Trust.OWN, cancel)  # the site's own registry
        if found is None:
            if known:
                self._say(f"registry_images: {name} no longer has the image {known} that was seen here; it is built")
            return None
        try:
            lacks = {key for key, value in image.labels.items() if found.labels.get(key) != value}
            if lacks or (known and found.digest != known):
                why = f"its labels {', '.join(sorted(lacks))} are not those of {image.tag}" if lacks else found.digest
                self._say(f"registry_images: {asked} is another image than its name says ({why}); it is built here")
                return None
            taken = self.engine().tag(found.id, image.tag)
        finally:
            self._untag(asked)
        if not known and found.digest:
            self._keep(name, found.digest)
        return replace(taken, digest=found.digest)

    def _untag(self, name: str) -> None:
        """Take the registry's name away again: an image goes by our names alone when room is made."""
        with contextlib.suppress(*_FAILURES):
            self.engine().remove_image(name)

    def _name(self, image: SharedImage) -> str:
        architecture = re.sub(r"[^a-z0-9]", "", self.engine().info().architecture.lower()) or "any"
        return f"{self.prefix}/{image.repository}:{architecture}-{image.version}"

    def _makes_images(self) -> bool:
        return self.engine().info().capabilities.images

    def _what(self, did: str) -> str:
        return f"the registry {self.prefix} (registry_images) {did}"

    def _say(self, text: str) -> None:
        with self._lock:
            if text in self._said:
                return
            self._said.add(text)
        self.note(text)


def _plain(error: Exception) -> str:
    return str(error).removeprefix("base-unavailable: ")
