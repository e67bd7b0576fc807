"""Builds with buildah, through Podman's Docker-compatible API: no session, hence secrets beside the context.

Podman takes secrets as files of the build context, named in the parameter ``secrets``, and moves them out of the
context before the build reads it (containers/podman ``pkg/api/handlers/compat/images_build.go``; its own remote client
sends them so). Everything else of the request is what Docker's classic builder takes.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.case.trust import ALLOWANCES
from reprokit.core.errors import Cancelled, EngineError
from reprokit.engine import context, exchange, failure
from reprokit.engine.container_spec import podman_limits
from reprokit.engine.failure import LONGEST_LINE, TAIL
from reprokit.engine.named_hosts import named_hosts, named_places
from reprokit.engine.protocol import Build, ImageInfo, Progress, say_downloads
from reprokit.engine.wire import Wire

if TYPE_CHECKING:
    from reprokit.engine.site import Served, Site

_GATEWAY = re.compile(r"--mount=type=ssh,id=gateway,[^ ]+")
_SHOWN = "/run/reprokit/gateway"
"""Where steps see the folder of the gateway's socket: buildah's mount of type ssh passes on only what an agent
understands."""
_BOUND_FOLDER = f"--mount=type=bind,from=reprokit-gateway,source=.,target={_SHOWN}"
_VOLUMES_SINCE = (4, 4)
"""The Podman from which on ``POST /build`` takes ``volume`` (the query's fields in images_build.go of v4.3.1 and
v4.4.0). Podman 5 hashes what a step mounts from a build context, and a socket has no content."""

_BOUND = re.compile(r"(?<=--mount=type=bind,source=)reprokit/(?P<name>[^,/]+)(?=,)")
_FROM = re.compile(r"^FROM .+$", re.M)

_STEP = re.compile(r"STEP (?P<number>\d+)/(?P<total>\d+): (?P<name>.*)", re.S)
_LAYER = re.compile(r"--> (?P<cached>Using cache )?[0-9a-f]{7,64}")


def build(
    wire: Wire, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> ImageInfo:
    """Build and tag an image; see :meth:`reprokit.engine.protocol.Engine.build`."""
    from reprokit.engine import images

    if cancel.is_set():
        raise Cancelled("cancelled before the build started")
    with site.serving(
        build.trust, hosts=named_hosts(build), places=named_places(build), reached=wire.is_local()
    ) as served:
        for warning in served.warnings:
            on_progress(Progress(number=0, total=0, name="site settings", log=f"warning: {warning}\n"))
        steps = Steps(on_progress, served.redact)
        volumes = wire.podman_version() >= _VOLUMES_SINCE
        dockerfile, files = as_buildah_takes_it(build, gateway=served.gateway is not None, volumes=volumes)
        # A name that no context has; it tells nothing and reaches no layer.
        beside = {name: f".secret-{uuid.uuid4().hex}" for name in served.secrets}
        files = {**files, **{beside[name]: secret for name, secret in served.secrets.items()}}
        error = exchange.build(
            wire,
            parameters(build, served, beside, podman_limits(), volumes=volumes),
            context.stream(dockerfile, files),
            lambda message: steps.feed(str(message.get("stream") or "")),
            cancel,
        )
        say_downloads(served.fetched, on_progress)
        if error:
            step, tail = steps.last()
            raise failure.of_buildah(served.redact(error), step=step, tail=(*tail, *served.refused))
    image = images.find(wire, build.tag)
    if image is None:
        raise EngineError(f"Podman says that it built {build.tag}, yet has no such image: was it removed meanwhile?")
    return image


def parameters(
    build: Build, served: Served, secrets: Mapping[str, str], limits: Mapping[str, int], *, volumes: bool
) -> dict[str, str]:
    """The query of ``POST /build``; ``secrets``: id -> the file of the context that holds it; ``limits``: of steps.

    ``volumes``: whether the gateway's folder is a volume of all steps, not a build context that each step mounts. Pure.
    """
    # Without this, a build through Docker's API is on the network of the service's host.
    apart = [{"Name": "network", "Host": False}]
    query = {
        "t": build.tag,
        "dockerfile": context.DOCKERFILE,
        "labels": json.dumps(dict(build.labels), sort_keys=True),
        "layers": "1",
        "nsoptions": json.dumps(apart),
        "networkmode": "NetworkDisabled" if served.network == "none" else "NetworkDefault",
        # Not the proxies of the service's own environment.
        "httpproxy": "0",
        # No container of a failed step is left behind.
        "rm": "1",
        "forcerm": "1",
        "ulimits": json.dumps([f"{name}={value}:{value}" for name, value in limits.items()]),
        "secrets": json.dumps([f"id={name},src={file}" for name, file in secrets.items()]),
    }
    if served.gateway is not None and volumes:
        query["volume"] = f"{served.gateway.parent}:{_SHOWN}:ro"
    elif served.gateway is not None:
        place = {"IsURL": False, "IsImage": False, "Value": str(served.gateway.parent)}
        query["additionalbuildcontexts"] = json.dumps({"reprokit-gateway": place})
    if build.platform:
        query["platform"] = build.platform
    return query


def as_buildah_takes_it(build: Build, *, gateway: bool, volumes: bool) -> tuple[str, dict[str, bytes | Path]]:
    """The Dockerfile and context for buildah. ``volumes``: as for :func:`parameters`. Pure.

    buildah finds a layer by the texts of the steps up to it, whatever the files hold that they mount: hence files that
    are mounted have their digest in their name, and the first line after FROM tells the domain of the case's trust. A
    layer of another content, or of a case that is trusted less, is so never taken.
    """
    names: dict[str, str] = {}

    def with_digest(found: re.Match[str]) -> str:
        content = build.context[found[0]]
        assert isinstance(content, bytes), "what is mounted is a file of ours"
        names[found[0]] = f"reprokit/{hashlib.sha256(content).hexdigest()[:32]}-{found['name']}"
        return names[found[0]]

    text = _BOUND.sub(with_digest, build.dockerfile)
    if domain := ALLOWANCES[build.trust].domain:
        text = _FROM.sub(lambda found: f"{found[0]}\nLABEL org.reprokit.domain={domain}", text)
    if gateway:
        text = _GATEWAY.sub("" if volumes else _BOUND_FOLDER, text)
    return text, {names.get(name, name): content for name, content in build.context.items()}


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
                self._on_progress(self._progress_of(cached=True))
        else:
            self._tail.append(line.rstrip("\r").rpartition("\r")[2])
            self._on_progress(self._progress_of(log=line + "\n"))

    def _progress_of(self, **more: Any) -> Progress:
        step = self._step
        return Progress(number=step.number, total=step.total, name=step.name, **more)
