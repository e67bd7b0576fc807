"""Builds with BuildKit through the Engine API alone: context as the request's body, secrets over a session."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.case.trust import Trust
from reprokit.core import cache
from reprokit.core.errors import BuildFailed, Cancelled, EngineError, EngineLost, ReprokitError
from reprokit.core.ownership import locked
from reprokit.engine import building, failure
from reprokit.engine.protocol import Build, ImageInfo, Progress
from reprokit.engine.wire import Wire
from reprokit.environment.steps import instructions, short_step

if TYPE_CHECKING:
    from reprokit.engine.site import Served, Site


_BUILDKIT = "2"  # the Engine API's "builder version"


class _Stop(threading.Event):
    """Set where a build was cancelled, or has no session any more."""

    def __init__(self, cancel: threading.Event, session: threading.Thread) -> None:
        super().__init__()
        self._cancel, self._session = cancel, session

    def is_set(self) -> bool:
        return self._cancel.is_set() or not self._session.is_alive()


def build(
    wire: Wire, build: Build, site: Site, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> ImageInfo:
    """Build and tag an image; see :meth:`reprokit.engine.protocol.Engine.build`."""
    # Before gRPC is loaded: its handlers for fork() do nothing for us but print a line whenever a process is started.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    from reprokit.engine.docker import session

    def login(host: str) -> tuple[str, str]:
        return credentials(host, build.trust)

    def send(served: Served) -> ReprokitError | None:
        trace = session.Trace(on_progress, served.redact)

        def take(message: Mapping[str, Any]) -> None:
            if message.get("id") == "moby.buildkit.trace":
                trace.feed(base64.b64decode(message["aux"]))

        context = building.pack_context(building.dockerfile_of(build), build.context)
        with session.serve(wire, served.secrets, login, served.gateway) as (session_id, keeping):
            stop, error = _Stop(cancel, keeping), "stopped"
            with suppress(Cancelled):
                error = building.post_build(wire, parameters(build, served, session_id), context, take, stop)
            if cancel.is_set():
                raise Cancelled("cancelled during the build")
            if error and stop.is_set():
                # What its steps ask of the gateway would not be answered, and they would wait for minutes.
                raise EngineLost("the engine ended its session with the build: one of the two stood still for long")
        if not error:
            return None
        error = served.redact(error)
        step, tail, cause = trace.failed()
        elsewhere = "" if step else trace.ran_elsewhere(error)
        failed = failure.of_build(cause or error, step=step or elsewhere, tail=(*tail, *served.refused))
        return RanElsewhere(failed) if elsewhere and isinstance(failed, BuildFailed) else failed

    return building.build_image(wire, build, site, on_progress, cancel, send)


def parameters(build: Build, served: Served, session_id: str) -> dict[str, str]:
    """The query of ``POST /build``. Pure."""
    query = {
        "version": _BUILDKIT,
        "t": build.tag,
        "session": session_id,
        "dockerfile": building.DOCKERFILE,
        "labels": json.dumps(dict(build.labels), sort_keys=True),
    }
    if served.network != "default":
        query["networkmode"] = served.network
    if build.platform:
        query["platform"] = build.platform
    if build.steps_of:
        query["cachefrom"] = json.dumps(list(build.steps_of))
        # The one export of cache that the Engine API offers: what the steps were, within the image itself.
        query["buildargs"] = json.dumps({"BUILDKIT_INLINE_CACHE": "1"})
    return query


def credentials(host: str, trust: Trust) -> tuple[str, str]:
    """This host's credentials for a registry, as BuildKit takes them; ('', '') where there are none."""
    from reprokit.engine.credential_helpers import registry_login

    try:
        found = registry_login("docker.io" if host in {"registry-1.docker.io", "index.docker.io"} else host, trust)
    except EngineError:
        return "", ""  # a broken credential helper: anonymous, and the registry says what it thinks of that
    if token := found.get("IdentityToken") or found.get("identitytoken"):
        return "", str(token)
    user, password = (found.get(name) or found.get(name.lower()) or "" for name in ("Username", "Password"))
    return str(user), str(password)


MOST_REPEATS = 5
"""Builds that another process begins may take the output of a repeated step, too."""
MOST_KEPT = 100
"""Failed steps whose output is kept, the newest: only builds that run meanwhile ask for it."""
SETTLE = 0.5
"""Seconds that the build which has the output gets to record it."""


class RanElsewhere(BuildFailed):
    """The step that failed was run for another build, which has its output."""

    def __init__(self, failed: BuildFailed) -> None:
        why = (
            "the step failed in another build that ran at the same time, and this engine gave its output to that alone"
        )
        reason = f"{why}: run the cell again by itself (step: {short_step(failed.step)})"
        super().__init__(str(failed), step=failed.step, tail=failed.tail, reason=reason)


class FailedSteps:
    """What the failing steps of this process's builds printed. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[str, tuple[float, BuildFailed]] = {}

    def build(self, build: Build, attempt: Callable[[], ImageInfo], cancel: threading.Event) -> ImageInfo:
        """What ``attempt`` returns or raises; never RanElsewhere, as long as it gets the output in a few attempts.

        A step whose output went to another build of this process fails with that; else it runs again, in one build at
        a time: steps that fail are not cached.
        """
        started = time.monotonic()
        try:
            return self._recorded(build, attempt)
        except RanElsewhere as error:
            key = _identity(build, error.step)
            cancel.wait(SETTLE)
            with locked(cache.folder("locks") / f"step-{key}.lock", cancel, "same step"):
                for _ in range(MOST_REPEATS):
                    at, known = self._failed.get(key, (0.0, error))
                    if at >= started:
                        raise BuildFailed(str(known), step=known.step, tail=known.tail, reason=known.reason) from error
                    try:
                        return self._recorded(build, attempt)
                    except RanElsewhere as again:
                        error = again
            raise error

    def _recorded(self, build: Build, attempt: Callable[[], ImageInfo]) -> ImageInfo:
        try:
            return attempt()
        except BuildFailed as error:
            if error.step and not isinstance(error, RanElsewhere):
                self._keep(_identity(build, error.step), error)
            raise

    def _keep(self, key: str, error: BuildFailed) -> None:
        # Not the error itself, whose traceback keeps all that the build had in memory.
        copy = BuildFailed(str(error), step=error.step, tail=error.tail, reason=error.reason)
        with self._lock:
            self._failed.pop(key, None)
            self._failed[key] = time.monotonic(), copy
            while len(self._failed) > MOST_KEPT:
                del self._failed[next(iter(self._failed))]


def _identity(build: Build, step: str) -> str:
    """A hash over the Dockerfile as far as that step, the files that this part of it may read, and whose case it is."""
    text = ""
    for instruction in instructions(build.dockerfile):
        text += instruction
        if instruction.replace("\\\n", "").strip() == step.strip():
            break
    files = (
        (name, str(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest())
        for name, content in sorted(build.context.items())
        if name.partition("/")[0] in text
    )
    return hashlib.sha256(json.dumps([str(build.trust), text, *files]).encode()).hexdigest()[:32]
