"""An engine that builds and runs nothing by itself, for scheduling and faults. It passes ``tests/conformance``."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from reprokit.case.trust import Trust
from reprokit.core.errors import Cancelled, EngineLost, ImageGone, Unsupported
from reprokit.engine.container_spec import docker_run_line
from reprokit.engine.protocol import IMAGE, Build, EngineInfo, ImageInfo, Kept, Progress, Slot, Trial
from reprokit.evidence.model import Ending

PROBE = Path(__file__).parent / "probe_debian12.txt"
"""What the probe printed in a real image, debian-12 with Python 3.11 and no compiler."""


class FakeEngine:
    """Holds every base image, builds whatever is asked, and runs ``behave(trial, sink)`` for each trial.

    ``make(build)``: called for each build; what it raises is the build's failure.
    """

    def __init__(
        self,
        behave: Callable[[Trial, Callable[[bytes], None]], Ending] | None = None,
        make: Callable[[Build], None] | None = None,
        unenforced: frozenset[str] = frozenset(),
    ) -> None:
        self.behave = behave or (lambda trial, sink: Ending(exit_code=0, seconds=0.1))
        self.make = make or (lambda build: None)
        self.unenforced = unenforced
        self.built: list[str] = []
        self.ahead = 0.0
        self.leases: list[str] = []
        self.moved: dict[str, str] = {}  # name -> the image that another process gave it to
        self.labels: dict[str, Mapping[str, str]] = {}
        self.pinned: dict[str, bytes] = {}  # image -> what is measured of the pins that its build installs
        self.trials: list[Trial] = []
        self.build_error: Exception | None = None
        self.swept = 0
        self.pings = 0
        self.down: Callable[[], bool] = lambda: False
        self.image_bytes = 0
        self.discarded: list[str] = []
        self.using: dict[str, str] = {}
        self.cancel = threading.Event()
        self.lock = threading.Lock()

    def info(self) -> EngineInfo:
        return EngineInfo(kind="fake", name="Fake", version="1", unenforced=self.unenforced, ahead=self.ahead)

    def ping(self) -> None:
        self.pings += 1
        if self.down():
            raise EngineLost("the engine does not answer")

    def image(self, tag: str) -> ImageInfo | None:
        tag = tag.removeprefix("sha256:")
        if tag.startswith("reprokit/img:") and tag not in self.built:
            return None
        here = self.moved.get(tag, tag)
        return ImageInfo(tag=tag, id=f"sha256:{here}", size=self.image_bytes, labels=self.labels.get(here, {}))

    def build(
        self, build: Build, site: object, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        if self.build_error:
            raise self.build_error
        if cancel.is_set():
            raise Cancelled("stopped")
        on_progress(Progress(number=1, total=2, name="RUN something"))
        self.make(build)
        with self.lock:
            self.built.append(build.tag)
            self.moved.pop(build.tag, None)
            pins = re.findall(r"([\w.-]+)(?:\[[^\]]*\])?==([\w.+]+)", build.dockerfile)
            self.pinned[f"sha256:{build.tag}"] = "".join(f'"{name}": "{pin}", ' for name, pin in pins).encode()
            self.labels[build.tag] = build.labels
        return ImageInfo(tag=build.tag, id=f"sha256:{build.tag}", size=self.image_bytes, labels=build.labels)

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        return ImageInfo(tag=reference, id=f"sha256:{reference}")

    def push(self, reference: str, cancel: threading.Event) -> str:
        raise Unsupported("this engine has no images to push")

    def tag(self, image: str, name: str) -> ImageInfo:
        self.moved[name] = image.removeprefix("sha256:")
        return ImageInfo(tag=name, id=image)

    def remove_image(self, tag: str) -> None:
        self.built = [one for one in self.built if one != tag.removeprefix("sha256:")]

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        raise AssertionError("nothing is imported here")

    def lease(self, image: str) -> Callable[[], None]:
        if self.image(image) is None:
            raise ImageGone(f"the image {image} is gone")
        self.leases.append(image)
        return lambda: self.leases.remove(image)

    def save(self, image: str, target: Path, cancel: threading.Event) -> None:
        raise Unsupported("this engine has no images to save")

    def load(self, archive: Path, tag: str) -> ImageInfo:
        raise Unsupported("this engine loads no images")

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        if "org.reprokit.probe" in trial.labels:
            sink(PROBE.read_bytes().replace(b'"packages": {', b'"packages": {' + self.pinned.get(trial.image, b"")))
            return Ending(exit_code=0)
        if self.image(trial.image) is None:
            raise ImageGone(f"the image {trial.image} is gone: build it again")
        with self.lock:
            self.trials.append(trial)
            self.cancel = cancel
        if cancel.is_set():
            raise Cancelled("stopped")
        with slot or nullcontext():
            if cancel.is_set():
                raise Cancelled("stopped")
            return self.behave(trial, sink)

    def repeat(self, trial: Trial, files: Path) -> str:
        return docker_run_line(trial, files)

    def sweep(self) -> list[str]:
        self.swept += 1
        return []

    def gpus_in_use(self) -> dict[str, str]:
        return dict(self.using)

    def kept(self) -> list[Kept]:
        with self.lock:
            return [
                Kept(kind=IMAGE, key=tag, name=tag, parts={tag: self.image_bytes}, used=0.0)
                for tag in dict.fromkeys(self.built)
            ]

    def discard(self, several: Sequence[Kept]) -> Sequence[Kept]:
        for one in several:
            self.remove_image(one.key)
            self.discarded.append(one.key)
        return several
