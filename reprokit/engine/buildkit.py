"""Builds with BuildKit through the Engine API alone: context as the request's body, secrets over a session."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from reprokit.engine import context, failure
from reprokit.engine.protocol import Build, ImageInfo, Progress
from reprokit.engine.wire import ANSWER_WITHIN, Wire, raise_for_status, raw_socket
from reprokit.errors import Cancelled, EngineError

if TYPE_CHECKING:
    from reprokit.site import Served, Site

_BUILDKIT = "2"  # the Engine API's "builder version"
_LOOK = 0.2  # seconds between looks at the cancel event


def build(
    wire: Wire, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> ImageInfo:
    """Build and tag an image; see :meth:`reprokit.engine.protocol.Engine.build`."""
    # Before gRPC is loaded: its handlers for fork() do nothing for us but print a line whenever a process is started.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    from reprokit.engine import images, progress, session

    if cancel.is_set():
        raise Cancelled("cancelled before the build started")
    with site.serving(local=not site.needs_loopback or wire.shares_loopback()) as served:
        for warning in served.warnings:
            on_progress(Progress(number=0, total=0, name="site settings", log=f"warning: {warning}\n"))
        trace = progress.Trace(on_progress, served.redact)

        def open_session(headers: list[tuple[str, str]]) -> Any:
            try:
                return wire.hijack("/session", headers=headers, expect_first=True)
            except EngineError as error:
                if getattr(error.__cause__, "status_code", 0) not in {404, 405}:
                    raise
                raise EngineError(
                    "this engine has no BuildKit, which builds need: use Docker Engine 20.10 or newer (Podman has none)"
                ) from error

        with session.serve(open_session, served.secrets, lambda host: credentials(wire, host)) as session_id:
            error = _converse(wire, build, served, session_id, trace.feed, cancel)
        if error:
            step, tail, cause = trace.failed()
            raise failure.of_build(served.redact(cause or error), step=step, tail=tail)
    image = images.find(wire, build.tag)
    if image is None:
        raise EngineError(
            f"the engine says that it built {build.tag}, yet has no such image: was it removed meanwhile?"
        )
    return image


def parameters(build: Build, served: Served, session_id: str) -> dict[str, str]:
    """The query of ``POST /build``. Pure.

    Proxies travel as BuildKit's predefined build arguments, which stay out of history and cache keys as long as the
    Dockerfile does not declare them.
    """
    query = {
        "version": _BUILDKIT,
        "t": build.tag,
        "session": session_id,
        "dockerfile": context.DOCKERFILE,
        "buildargs": json.dumps(dict(served.build_args), sort_keys=True),
        "labels": json.dumps(dict(build.labels), sort_keys=True),
    }
    if served.network != "default":
        query["networkmode"] = served.network
    if build.platform:
        query["platform"] = build.platform
    return query


def _converse(
    wire: Wire, build: Build, served: Served, session_id: str, feed: Callable[[bytes], None], cancel: threading.Event
) -> str:
    """Send the request and follow the answer; returns the engine's error, or '' for success. Raises Cancelled."""

    def body() -> Iterator[bytes]:
        for piece in context.stream(build.dockerfile, build.context):
            if cancel.is_set():
                raise Cancelled("cancelled while the build context was sent")
            yield piece

    client = wire.client()
    with wire.errors():
        response = client.post(
            wire.url("/build"),
            params=parameters(build, served, session_id),
            data=body(),
            headers={"Content-Type": "application/x-tar"},
            stream=True,
            timeout=ANSWER_WITHIN,
        )
    try:
        with wire.errors(), cut_on(response, cancel):
            raise_for_status(response)
            for line in response.iter_lines(chunk_size=None):
                if cancel.is_set():
                    break
                if line and (error := _take(json.loads(line), feed)):
                    return error
    except EngineError:
        if not cancel.is_set():
            raise
    finally:
        response.close()  # also how the engine learns that nobody waits any more: it stops the build
    if cancel.is_set():
        raise Cancelled("cancelled during the build")
    return ""


def _take(message: dict[str, Any], feed: Callable[[bytes], None]) -> str:
    """Handle one line of the answer; returns the error that it carries."""
    if message.get("id") == "moby.buildkit.trace":
        feed(base64.b64decode(message["aux"]))
    detail = message.get("errorDetail") or {}
    return str(detail.get("message") or message.get("error") or "")


@contextlib.contextmanager
def cut_on(response: Any, cancel: threading.Event) -> Iterator[None]:
    """A block that reads a streaming answer which ``cancel`` cuts off within a moment, even in mid-read."""
    sock = raw_socket(response)
    sock.settimeout(None)  # a step may be silent for as long as it likes
    done = threading.Event()

    def watch() -> None:
        import socket

        while not done.wait(_LOOK):
            if cancel.is_set():
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                return

    watcher = threading.Thread(target=watch, name="cancel-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def credentials(wire: Wire, host: str) -> tuple[str, str]:
    """This host's credentials for a registry, as 'docker login' left them; ('', '') when there are none."""
    import docker.auth
    import docker.errors

    name = "docker.io" if host in {"registry-1.docker.io", "index.docker.io"} else host
    try:
        found = docker.auth.load_config(credstore_env=None).resolve_authconfig(name) or {}
    except docker.errors.DockerException:
        return "", ""  # a broken credential helper: anonymous, and the registry says what it thinks of that
    if token := found.get("IdentityToken") or found.get("identitytoken"):
        return "", str(token)
    return str(found.get("Username") or found.get("username") or ""), str(
        found.get("Password") or found.get("password") or ""
    )
