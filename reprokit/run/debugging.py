"""Builds the layer of debuggers over an image of a cell, once per image."""

from __future__ import annotations

import threading
from collections.abc import Callable

from reprokit.case.trust import Trust
from reprokit.core import cache
from reprokit.core.errors import BuildFailed, ImageGone, Unsupported
from reprokit.core.ownership import IMAGE_LABELS, locked
from reprokit.engine import site
from reprokit.engine.protocol import Build, Engine, ImageInfo, Progress
from reprokit.environment import debugging


class DebugImages:
    """The images with debuggers of a run, and why others cannot have any: each is tried once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[str, str]] = {}

    def over(self, engine: Engine, image: str, trust: Trust, cancel: threading.Event) -> tuple[str, str]:
        """The name of ``image`` with debuggers and ''; or ``image`` itself, and why it cannot have them.

        Raises Cancelled, EngineError.
        """
        with self._lock:
            if image not in self._found:
                self._found[image] = self._made(engine, image, trust, cancel)
            return self._found[image]

    @staticmethod
    def _made(engine: Engine, image: str, trust: Trust, cancel: threading.Event) -> tuple[str, str]:
        info = engine.image(image)
        if info is None:
            raise ImageGone(f"the image {image} is gone")
        try:
            made = with_debuggers(engine, info, trust=trust, on_progress=lambda progress: None, cancel=cancel)
        except Unsupported as error:
            return image, str(error)
        return made.tag, ""


def with_debuggers(
    engine: Engine,
    image: ImageInfo,
    *,
    trust: Trust,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
) -> ImageInfo:
    """The image with gdb and py-spy in it, built unless the engine has it. ``trust``: in the case of the image.

    Raises Unsupported where the image or the engine cannot have them, Cancelled, EngineError.
    """
    info = engine.info()
    if not info.capabilities.images:
        raise Unsupported(
            f"{info} makes no images, into which debuggers could be put: choose another engine by --engine"
        )
    layer = debugging.rendered(image.tag)
    tag = debugging.tag(layer, image.id)
    lock = cache.folder("locks") / f"image-{tag.rpartition(':')[2]}.lock"
    with locked(lock, cancel, "image"):
        if found := engine.image(tag):
            return found
        build = Build(tag=tag, dockerfile=layer.dockerfile, context=layer.context, labels=IMAGE_LABELS, trust=trust)
        try:
            return engine.build(build, site.current(), on_progress, cancel)
        except BuildFailed as error:
            said = [line for line in error.tail if line.startswith("E:")] or list(error.tail[-3:]) or [str(error)]
            raise Unsupported(
                f"the debuggers gdb and py-spy cannot be installed in this image: {' '.join(said)}"
            ) from error
