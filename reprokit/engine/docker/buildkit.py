"""Builds with BuildKit through the Engine API alone: context as the request's body, secrets over a session."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reprokit.case.trust import ALLOWANCES
from reprokit.core.errors import BuildFailed, Cancelled, EngineError
from reprokit.engine import context, exchange, failure
from reprokit.engine.docker.merged_steps import RanElsewhere
from reprokit.engine.named_hosts import named_hosts, named_places
from reprokit.engine.protocol import Build, ImageInfo, Progress, say_downloads
from reprokit.engine.wire import Wire

if TYPE_CHECKING:
    from reprokit.engine.site import Served, Site

_BUILDKIT = "2"  # the Engine API's "builder version"


def build(
    wire: Wire, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> ImageInfo:
    """Build and tag an image; see :meth:`reprokit.engine.protocol.Engine.build`."""
    # Before gRPC is loaded: its handlers for fork() do nothing for us but print a line whenever a process is started.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    from reprokit.engine import buildkit_session, images, progress

    if cancel.is_set():
        raise Cancelled("cancelled before the build started")
    gets = ALLOWANCES[build.trust]
    with site.serving(build.trust, hosts=named_hosts(build), places=named_places(build)) as served:
        for warning in served.warnings:
            on_progress(Progress(number=0, total=0, name="site settings", log=f"warning: {warning}\n"))
        trace = progress.Trace(on_progress, served.redact)

        def login(host: str) -> tuple[str, str]:
            return credentials(wire, host) if gets.credentials else ("", "")

        with buildkit_session.serve(wire, served.secrets, login, served.gateway) as session_id:
            error = exchange.build(
                wire,
                parameters(build, served, session_id),
                context.stream(build.dockerfile, build.context),
                lambda message: _take(message, trace.feed),
                cancel,
            )
        say_downloads(served.fetched, on_progress)
        if error:
            error = served.redact(error)
            step, tail, cause = trace.failed()
            elsewhere = "" if step else trace.ran_elsewhere(error)
            failed = failure.of_build(cause or error, step=step or elsewhere, tail=(*tail, *served.refused))
            raise RanElsewhere(failed) if elsewhere and isinstance(failed, BuildFailed) else failed
    image = images.find(wire, build.tag)
    if image is None:
        raise EngineError(
            f"the engine says that it built {build.tag}, yet has no such image: was it removed meanwhile?"
        )
    return image


def parameters(build: Build, served: Served, session_id: str) -> dict[str, str]:
    """The query of ``POST /build``. Pure."""
    query = {
        "version": _BUILDKIT,
        "t": build.tag,
        "session": session_id,
        "dockerfile": context.DOCKERFILE,
        "labels": json.dumps(dict(build.labels), sort_keys=True),
    }
    if served.network != "default":
        query["networkmode"] = served.network
    if build.fresh:
        query["nocache"] = "1"
    if build.platform:
        query["platform"] = build.platform
    if build.steps_of:
        query["cachefrom"] = json.dumps(list(build.steps_of))
        # The one export of cache that the Engine API offers: what the steps were, within the image itself.
        query["buildargs"] = json.dumps({"BUILDKIT_INLINE_CACHE": "1"})
    return query


def _take(message: Mapping[str, Any], feed: Callable[[bytes], None]) -> None:
    if message.get("id") == "moby.buildkit.trace":
        feed(base64.b64decode(message["aux"]))


def credentials(wire: Wire, host: str) -> tuple[str, str]:
    """This host's credentials for a registry, as 'docker login' left them; ('', '') when there are none."""
    import docker.auth
    import docker.errors

    from reprokit.engine.credential_helpers import limit

    name = "docker.io" if host in {"registry-1.docker.io", "index.docker.io"} else host
    try:
        found = limit(docker.auth.load_config(credstore_env=None)).resolve_authconfig(name) or {}
    except docker.errors.DockerException:
        return "", ""  # a broken credential helper: anonymous, and the registry says what it thinks of that
    if token := found.get("IdentityToken") or found.get("identitytoken"):
        return "", str(token)
    return str(found.get("Username") or found.get("username") or ""), str(
        found.get("Password") or found.get("password") or ""
    )
