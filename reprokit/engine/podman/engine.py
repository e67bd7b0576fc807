"""Podman's service: where it listens, its containers by Docker's API, and images built by buildah."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.case.limits import LIMITS
from reprokit.case.trust import ALLOWANCES
from reprokit.core.errors import EngineError, ReprokitError
from reprokit.engine import building, container_spec, failure, private_socket
from reprokit.engine.container_spec import podman_limits
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.failure import LONGEST_LINE, START_PODMAN, TAIL
from reprokit.engine.podman import ENTRY
from reprokit.engine.protocol import Build, ImageInfo, Progress
from reprokit.engine.wire import ANSWER_WITHIN, Endpoint, Wire, endpoint, endpoint_at, raise_for_status

if TYPE_CHECKING:
    from reprokit.engine.protocol import Slot, Trial
    from reprokit.engine.site import Served, Site
    from reprokit.evidence.model import Ending


class PodmanEngine(DockerEngine):
    """Podman's service: containers as Docker's, images built by buildah."""

    entry = ENTRY
    name = "Podman Engine"
    is_podman = True
    program = "podman"
    builder = "buildah"
    oldest = (4, 0)
    newest = None
    upgrade = "sudo apt-get install --only-upgrade podman"
    gpus_by_cdi_alone = True

    def _runtime(self) -> str:
        return ""

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        """As Docker's; Podman's own configuration names its runtime. Raises Unsupported where ours names one."""
        container_spec.refuse_runtime("Podman's API")
        return super().run(trial, sink, cancel, slot)

    def _unenforced(self) -> frozenset[str]:
        # Its answer to Docker's question is about the kernel, not about what a rootless service may use of it.
        client = self.wire.client()
        with self.wire.errors():
            answer = client.get(self.wire.podman_url("/info"), timeout=ANSWER_WITHIN)
            raise_for_status(answer)
        controllers = answer.json()["host"].get("cgroupControllers")
        if controllers is None:
            return super()._unenforced()
        return frozenset(row.key for row in LIMITS if row.held.podman and row.held.podman not in controllers)

    def build(
        self, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        """Build with buildah and tag. Raises BuildFailed, Unsupported, Cancelled, EngineError."""

        with self._witnesses.current().vouching():
            return build_with_buildah(self.wire, build, site, on_progress, cancel)


SYSTEM_SOCKET = Path("/run/podman/podman.sock")


def open_engine(environ: Mapping[str, str]) -> PodmanEngine:
    """The first Podman service that answers. Raises EngineError, with what to do, when none does."""
    found, why = find_podman(environ)
    if found is not None:
        return found
    if not why:
        tried = f"CONTAINER_HOST, $XDG_RUNTIME_DIR/podman/podman.sock and {SYSTEM_SOCKET}"
        raise EngineError(f"Podman is not installed, and its service listens nowhere ({tried}): {START_PODMAN}")
    text = "; ".join(dict.fromkeys(why))
    raise EngineError(text if START_PODMAN in text else f"{text}; {START_PODMAN}")


def endpoints(environ: Mapping[str, str]) -> Iterator[Endpoint]:
    """Where Podman's service may listen: CONTAINER_HOST alone if set, else DOCKER_HOST, this user's and the system's
    sockets, as far as they exist, and last one that is started for this process, where Podman is installed.
    """
    if named := environ.get("CONTAINER_HOST"):
        yield endpoint_at(named, "CONTAINER_HOST", environ, socket=str(SYSTEM_SOCKET))
        return
    if environ.get("DOCKER_HOST"):
        yield endpoint(environ)
    runtime = environ.get("XDG_RUNTIME_DIR")
    own = [Path(runtime, "podman", "podman.sock")] if runtime else []
    for socket in (*own, SYSTEM_SOCKET):
        if os.access(socket, os.F_OK):  # not exists(), which raises for a folder that this user may not look into
            yield Endpoint(url=f"unix://{socket}", source="Podman's socket")
    if podman := shutil.which("podman", path=environ.get("PATH", "")):
        yield Endpoint(
            url="podman system service", source="started by reprokit", via=private_socket.podman_service(podman)
        )


def find_podman(environ: Mapping[str, str]) -> tuple[PodmanEngine | None, list[str]]:
    """The first Podman service that answers, and why those before it do not serve, in words."""
    why: list[str] = []
    for where in endpoints(environ):
        wire = Wire(where=where)
        try:
            if wire.is_podman():
                return PodmanEngine(wire=wire), why
        except EngineError as error:
            why.append(str(error))
        else:
            why.append(f"what answers at {where.url} ({where.source}) is Docker, not Podman")
    return None, why


_GATEWAY = re.compile(r"--mount=type=ssh,id=gateway,[^ ]+")
_SHOWN = "/run/reprokit/gateway"
"""Where steps see the folder of the gateway's socket: buildah's mount of type ssh passes on only what an agent
understands."""
_BOUND_FOLDER = f"--mount=type=bind,from=reprokit-gateway,source=.,target={_SHOWN}"
_VOLUMES_SINCE = (4, 4)
"""The Podman from which on ``POST /build`` takes ``volume`` (the query's fields in images_build.go of v4.3.1 and
v4.4.0). Podman 5 hashes what a step mounts from a build context, and a socket has no content."""
_BOUND = re.compile(r"(?<=--mount=type=bind,source=)reprokit/(?P<name>[^,/]+)(?=,)")
_STEP = re.compile(r"STEP (?P<number>[0-9]{1,9})/(?P<total>[0-9]{1,9}): (?P<name>.*)", re.S)
_LAYER = re.compile(r"--> (?P<cached>Using cache )?[0-9a-f]{7,64}")


def build_with_buildah(
    wire: Wire, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> ImageInfo:
    """Build and tag an image; see :meth:`reprokit.engine.protocol.Engine.build`."""

    def send(served: Served) -> ReprokitError | None:
        steps = Steps(on_progress, served.redact)
        volumes = wire.podman_version() >= _VOLUMES_SINCE
        dockerfile, files = adapt_to_buildah(build, gateway=served.gateway is not None, volumes=volumes)
        # A name that no context has; it tells nothing and reaches no layer.
        beside = {name: f".secret-{uuid.uuid4().hex}" for name in served.secrets}
        context = building.pack_context(dockerfile, files | {beside[name]: one for name, one in served.secrets.items()})
        query = buildah_parameters(build, served, beside, podman_limits(), volumes=volumes)
        error = building.post_build(wire, query, context, lambda one: steps.feed(str(one.get("stream") or "")), cancel)
        if not error:
            return None
        step, tail = steps.last()
        return failure.of_buildah(served.redact(error), step=step, tail=(*tail, *served.refused))

    return building.build_image(wire, build, site, on_progress, cancel, send)


def buildah_parameters(
    build: Build, served: Served, secrets: Mapping[str, str], limits: Mapping[str, int], *, volumes: bool
) -> dict[str, str]:
    """The query of ``POST /build``; ``secrets``: id -> the file of the context that holds it; ``limits``: of steps.

    ``volumes``: whether the gateway's folder is a volume of all steps, not a build context that each step mounts. Pure.
    """
    # Without this, a build through Docker's API is on the network of the service's host.
    apart = [{"Name": "network", "Host": False}]
    query = {
        "t": build.tag,
        "dockerfile": building.DOCKERFILE,
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


def adapt_to_buildah(build: Build, *, gateway: bool, volumes: bool) -> tuple[str, dict[str, bytes | Path]]:
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

    text = _BOUND.sub(with_digest, building.dockerfile_of(build))
    if domain := ALLOWANCES[build.trust].domain:
        text = building.below_from(text, f"LABEL org.reprokit.domain={domain}")
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
