"""Builds with buildah, through Podman's Docker-compatible API: no session, hence secrets beside the context.

Podman takes secrets as files of the build context, named in the parameter ``secrets``, and moves them out of the
context before the build reads it (containers/podman ``pkg/api/handlers/compat/images_build.go``; its own remote client
sends them so). Everything else of the request is what Docker's classic builder takes.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reprokit.core.errors import Cancelled, EngineError
from reprokit.engine import context, exchange, failure
from reprokit.engine.containers import podman_limits
from reprokit.engine.failure import LONGEST_LINE, TAIL
from reprokit.engine.protocol import Build, ImageInfo, Progress
from reprokit.engine.wire import Wire

if TYPE_CHECKING:
    from reprokit.engine.site import Served, Site

# buildah 1.28 keeps a cache's lock as a file in the cache. apt-get update would remove it from the folder of package
# lists as no list of its own, and the next build waits for that lock for ever.
_KEEP_LOCK = b'APT::Get::List-Cleanup "false";\n'

_STEP = re.compile(r"STEP (?P<number>\d+)/(?P<total>\d+): (?P<name>.*)", re.S)
_LAYER = re.compile(r"--> (?P<cached>Using cache )?[0-9a-f]{7,64}")


def build(
    wire: Wire, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> ImageInfo:
    """Build and tag an image; see :meth:`reprokit.engine.protocol.Engine.build`."""
    from reprokit.engine import images

    if cancel.is_set():
        raise Cancelled("cancelled before the build started")
    with site.serving(local=not site.needs_loopback or wire.shares_loopback()) as served:
        for warning in served.warnings:
            on_progress(Progress(number=0, total=0, name="site settings", log=f"warning: {warning}\n"))
        steps = Steps(on_progress, served.redact)
        secrets = {**served.secrets, "apt_conf": served.secrets.get("apt_conf", b"") + _KEEP_LOCK}
        # A name that no context has; it tells nothing and reaches no layer.
        beside = {name: f".secret-{uuid.uuid4().hex}" for name in secrets}
        files = {**build.context, **{beside[name]: secret for name, secret in secrets.items()}}
        error = exchange.build(
            wire,
            parameters(build, served, beside, podman_limits()),
            context.stream(build.dockerfile, files),
            lambda message: steps.feed(str(message.get("stream") or "")),
            cancel,
        )
        if error:
            step, tail = steps.last()
            raise failure.of_buildah(served.redact(error), step=step, tail=tail)
    image = images.find(wire, build.tag)
    if image is None:
        raise EngineError(f"Podman says that it built {build.tag}, yet has no such image: was it removed meanwhile?")
    return image


def parameters(build: Build, served: Served, secrets: Mapping[str, str], limits: Mapping[str, int]) -> dict[str, str]:
    """The query of ``POST /build``; ``secrets``: id -> the file of the context that holds it; ``limits``: of steps.

    Pure. Proxies travel as predefined build arguments, as they do for BuildKit.
    """
    query = {
        "t": build.tag,
        "dockerfile": context.DOCKERFILE,
        "buildargs": json.dumps(dict(served.build_args), sort_keys=True),
        "labels": json.dumps(dict(build.labels), sort_keys=True),
        "layers": "1",
        # No container of a failed step is left behind.
        "rm": "1",
        "forcerm": "1",
        "ulimits": json.dumps([f"{name}={value}:{value}" for name, value in limits.items()]),
        "secrets": json.dumps([f"id={name},src={file}" for name, file in secrets.items()]),
    }
    if served.network != "default":
        query["networkmode"] = served.network
    if build.platform:
        query["platform"] = build.platform
    return query


class Steps:
    """Follows the text of one build: ``STEP 3/12: RUN ...``, then what the step prints, then ``--> id``."""

    def __init__(
        self, on_progress: Callable[[Progress], None], redact: Callable[[str], str] = lambda text: text
    ) -> None:
        self._on_progress = on_progress
        self._redact = redact
        self._step = Progress(number=0, total=0, name="")
        self._rest = ""
        self._tail: deque[str] = deque(maxlen=TAIL)

    def feed(self, text: str) -> None:
        """Take a piece of text, which need not end with its line."""
        *lines, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], ""
        for line in lines:
            self._line(self._redact(line))

    def last(self) -> tuple[str, tuple[str, ...]]:
        """The step that was under way last and its last lines: the one that failed, if the build did."""
        rest = [self._redact(self._rest)] if self._rest.strip() else []
        return self._step.name, (*self._tail, *rest)

    def _line(self, line: str) -> None:
        found = _STEP.fullmatch(line)
        if found is not None and int(found["number"]) == self._step.number + 1:
            self._tail.clear()
            self._step = Progress(number=int(found["number"]), total=int(found["total"]), name=found["name"])
            self._on_progress(self._step)
        elif (layer := _LAYER.fullmatch(line)) is not None:
            if layer["cached"]:
                self._on_progress(self._told(cached=True))
        else:
            self._tail.append(line.rstrip("\r").rpartition("\r")[2])
            self._on_progress(self._told(log=line + "\n"))

    def _told(self, **more: Any) -> Progress:
        step = self._step
        return Progress(number=step.number, total=step.total, name=step.name, **more)
