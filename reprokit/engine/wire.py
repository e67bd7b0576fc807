"""Connections to the engine: where it is, one client per thread, hijacked streams, and its errors in our words.

docker-py speaks the API; what it lacks is here: a connection taken over with its early bytes, an answer that is cut off
on cancel, Podman's own paths, and containerd's store. Who owns `engine` owns this.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reprokit.core.errors import EngineError, EngineLost, ReprokitError
from reprokit.engine import failure, private_socket

ANSWER_WITHIN = 120
"""Seconds that one answer of the engine may take to begin; a host under heavy disk load needs tens of them."""

PING_WITHIN = 5
"""Seconds within which an engine answers that is asked for nothing but a sign of life."""

NEWEST_API = (1, 52)
"""The newest version of Docker's API that reprokit was tested with: newer engines are asked to speak it."""

_CONTAINERD, _CONTAINERD_CONFIG = "/run/containerd/containerd.sock", Path("/etc/containerd/config.toml")
"""As a host's containerd has them by default: containerd's defaults/defaults_unix.go."""

_LOOK_EVERY = 0.2  # seconds between looks at the cancel event
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_DEFAULT_SOCKET = "unix:///var/run/docker.sock"
_ROOTLESS, _PLAIN = "rootless engine", "default socket"

DEFAULTS = (_ROOTLESS, _PLAIN)
"""Sources of an endpoint that no setting named."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the engine listens. ``tls``: the docker SDK's TLSConfig, or None. ``source``: what of the host said so.

    ``via``: gives the socket that leads there, for an address that the SDK does not connect to.
    """

    url: str
    tls: Any = None
    source: str = ""
    via: private_socket.PrivateSocket | None = None

    @property
    def is_remote(self) -> bool:
        """Whether it leads to another machine, whose files and GPUs are not this host's."""
        at = urlsplit(self.url)
        return at.scheme not in ("", "unix", "http+unix") and (at.scheme == "ssh" or at.hostname not in _LOOPBACK)


def endpoint_at(
    url: str, source: str, environ: Mapping[str, str], *, tls: Any = None, socket: str = "/var/run/docker.sock"
) -> Endpoint:
    """The endpoint of an address that ``source`` names; ``socket``: of an engine behind ssh that names none.

    Raises EngineError where ssh is needed and missing.
    """
    via = private_socket.tunnel(url, socket, environ) if url.startswith("ssh://") else None
    return Endpoint(url=url, tls=tls, source=source, via=via)


def endpoint(environ: Mapping[str, str] | None = None) -> Endpoint:
    """The engine to use, as the docker client finds it: DOCKER_HOST, then the docker context, then the default socket.

    Raises EngineError when a context is named that does not exist, or ssh is needed and missing.
    """
    import docker.utils
    from docker.context import ContextAPI
    from docker.context.config import get_current_context_name

    environ = os.environ if environ is None else environ
    if environ.get("DOCKER_HOST"):
        asked = docker.utils.kwargs_from_env(dict(environ))
        return endpoint_at(asked["base_url"], "DOCKER_HOST", environ, tls=asked.get("tls"))
    name = environ.get("DOCKER_CONTEXT") or get_current_context_name()
    if name != "default":
        context = ContextAPI.get_context(name)
        if context is None or not context.Host:
            raise EngineError(f"there is no docker context {name!r}; 'docker context ls' lists those that exist")
        return endpoint_at(context.Host, f"docker context {name!r}", environ, tls=context.TLSConfig)
    rootless = Path(environ.get("XDG_RUNTIME_DIR", "/nonexistent"), "docker.sock")
    if not Path(_DEFAULT_SOCKET.removeprefix("unix://")).exists() and rootless.exists():
        return Endpoint(url=f"unix://{rootless}", source=_ROOTLESS)
    return Endpoint(url=_DEFAULT_SOCKET, source=_PLAIN)


@dataclass(frozen=True, kw_only=True)
class EngineVersion:
    """An engine's answer to ``GET /version``. ``podman``: of the Podman that speaks Docker's language there, or ''."""

    version: str = ""
    api: str = "?"
    kernel: str = ""
    architecture: str = ""
    podman: str = ""
    podman_api: str = ""

    @classmethod
    def read(cls, answer: Any) -> EngineVersion:
        """From the answer's JSON."""
        parts = [part for part in answer.get("Components") or [] if "podman" in str(part.get("Name")).lower()]
        podman = parts[0] if parts else {}
        return cls(
            version=str(answer.get("Version", "")),
            api=str(answer.get("ApiVersion", "?")),
            kernel=str(answer.get("KernelVersion", "")),
            architecture=str(answer.get("Arch", "")),
            podman=podman.get("Version", ""),
            podman_api=(podman.get("Details") or {}).get("APIVersion", ""),
        )


@dataclass(frozen=True, kw_only=True)
class EngineDetails:
    """An engine's answer to ``GET /info``."""

    host: str = ""  # its own name for the machine that it is on
    root: str = ""
    containerd: str | None = None  # the socket of the containerd that has its images, if it has not
    memory: int = 0
    moment: float = 0.0  # of its clock, in whole seconds since 1970; 0 = it does not say
    storage_driver: str = "?"
    cgroup_version: str = "?"
    rootless: bool = False
    runtimes: Collection[str] = ()
    default_runtime: str = ""
    cdi_folders: tuple[Path, ...] = ()  # of CDI descriptions: since Docker 25, if CDI is switched on
    devices: tuple[str, ...] = ()  # CDI names of what it found there: since Docker 28.2
    limits: Mapping[str, bool] = field(default_factory=dict)  # MemoryLimit -> whether it holds it

    @classmethod
    def read(cls, answer: Any) -> EngineDetails:
        """From the answer's JSON."""
        in_containerd = ["driver-type", "io.containerd.snapshotter.v1"] in (answer.get("DriverStatus") or [])
        address = str((answer.get("Containerd") or {}).get("Address") or _CONTAINERD)  # named since API 1.46
        return cls(
            host=str(answer.get("Name", "")),
            root=str(answer.get("DockerRootDir") or ""),
            containerd=address if in_containerd else None,
            memory=int(answer.get("MemTotal") or 0),
            moment=moment_of(str(answer.get("SystemTime") or "")),
            storage_driver=str(answer.get("Driver", "?")),
            cgroup_version=str(answer.get("CgroupVersion", "?")),
            rootless=any("rootless" in option for option in answer.get("SecurityOptions") or []),
            runtimes=tuple(answer.get("Runtimes") or ()),
            default_runtime=str(answer.get("DefaultRuntime", "")),
            cdi_folders=tuple(map(Path, answer.get("CDISpecDirs") or ())),
            devices=tuple(str(device.get("ID", "")) for device in answer.get("DiscoveredDevices") or ()),
            limits={name: value for name, value in answer.items() if isinstance(value, bool)},
        )

    def find_data_root(self) -> str:
        """The folder on whose disk the engine has images and containers; '' unknown.

        With the containerd image store (Docker's default since 29.0) that is the root of the host's containerd, unless
        the engine has started one of its own, below its own root.
        """
        if self.containerd is None or Path(self.containerd).resolve() != Path(_CONTAINERD).resolve():
            return self.root
        with contextlib.suppress(OSError):
            if set_to := re.search(r"^root\s*=\s*([\"'])(.+?)\1", _CONTAINERD_CONFIG.read_text(), re.MULTILINE):
                return set_to[2]
        return "/var/lib/containerd"


@dataclass(frozen=True, kw_only=True)
class Hijacked:
    """A connection that stopped being HTTP. ``early``: bytes that came with the answer's headers."""

    socket: Any
    response: Any
    early: bytes = b""

    def close(self) -> None:
        """Close the connection for good (the engine sees it at once)."""
        # shutdown, because http.client's file object keeps the descriptor alive past socket.close().
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self.socket.close()
        self.response.close()


class Wire:
    """Clients of one engine, one per thread so that each keeps its connections; safe to share between threads.

    The engine listens at ``where``, by default as the docker client finds it in ``environ``.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, where: Endpoint | None = None) -> None:
        self._environ = environ
        self._local = threading.local()
        self._lock = threading.Lock()
        self._endpoint = where
        self._version: str | None = None
        self._newest = ""
        self._about: EngineVersion | None = None
        self._details: EngineDetails | None = None
        self._ahead = 0.0

    @property
    def endpoint(self) -> Endpoint:
        """Where the engine is (found once)."""
        if self._endpoint is None:
            self._endpoint = endpoint(self._environ)
        return self._endpoint

    def client(self) -> Any:
        """This thread's ``docker.APIClient`` . Raises EngineError, with what to do, when no engine answers."""
        client = getattr(self._local, "client", None)
        # A program that leads there and has ended is started again, at the same socket.
        address = self.endpoint.via.address() if self.endpoint.via else self.endpoint.url
        if client is None:
            import docker

            where = self.endpoint
            with self._lock, self.errors():
                kwargs: dict[str, Any] = {"tls": where.tls} if where.tls else {}
                client = docker.APIClient(address, version=self._version or "auto", timeout=ANSWER_WITHIN, **kwargs)
                if self._version is None:
                    self._newest = client.api_version
                if self._version is None and api_of(client.api_version) > NEWEST_API:
                    least = api_of(client.version(api_version=False).get("MinAPIVersion") or "0.0")
                    version = ".".join(map(str, max(NEWEST_API, least)))
                    client = docker.APIClient(address, version=version, timeout=ANSWER_WITHIN, **kwargs)
                self._version = client.api_version
            self._local.client = client
        return client

    def about(self) -> EngineVersion:
        """What the engine answers to ``GET /version``, asked once."""
        if self._about is None:
            client = self.client()
            with self.errors():
                self._about = EngineVersion.read(client.version())
        return self._about

    def is_podman(self) -> bool:
        """Whether it is Podman that speaks Docker's language there."""
        return bool(self.about().podman)

    def details(self) -> EngineDetails:
        """What the engine answers to ``GET /info``, asked once: it counts all that it holds, which takes its time."""
        details = self._details
        if details is None:
            client = self.client()
            before = time.time()
            with self.errors():
                details = EngineDetails.read(client.info())
            if details.moment:  # read to the second, somewhere between the question and the answer
                self._ahead = min(details.moment + 1 - before, 0.0) or max(details.moment - time.time(), 0.0)
            self._details = details
        return details

    def ahead(self) -> float:
        """Seconds by which the engine's clock is ahead of this host's, 0 where they agree, to a second."""
        self.details()
        return self._ahead

    def ping(self) -> None:
        """Raise EngineError unless the engine answers within seconds. Of an upgraded one the version is asked again."""
        client = self.client()
        with self.errors():
            answer = client.get(f"{client.base_url}/_ping", timeout=PING_WITHIN)
            raise_for_status(answer)
        if answer.headers.get("Api-Version", self._newest) != self._newest:
            with self._lock:
                self._version = self._about = self._details = None
                self._local = threading.local()

    def is_local(self) -> bool:
        """Whether the engine has the files of this host: it listens on this host, and calls it its own.

        Not so in a virtual machine (Docker Desktop), or from inside a container that merely has the engine's socket:
        both have another host name.
        """
        return not self.endpoint.is_remote and self.details().host == platform.node()

    def storage(self) -> Path | None:
        """The folder of this host that has the engine's images and containers; None where it is another machine's."""
        root = self.details().find_data_root()
        return Path(root) if root and self.is_local() else None

    def url(self, path: str) -> str:
        """The full address of an API path, versioned."""
        client = self.client()
        return f"{client.base_url}/v{client.api_version}{path}"

    def podman_version(self) -> tuple[int, int]:
        """The version of the Podman there, such as (5, 4)."""
        major, minor = re.findall("[0-9]{1,9}", self.about().podman)[:2]
        return int(major), int(minor)

    def podman_url(self, path: str) -> str:
        """The full address of a path of Podman's own API."""
        about = self.about()
        return f"{self.client().base_url}/v{about.podman_api or about.podman}/libpod{path}"

    def errors(self) -> contextlib.AbstractContextManager[None]:
        """A block in which the SDK's errors become EngineError."""
        return errors(self.endpoint.url, self.endpoint.via)

    def hijack(
        self,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: list[tuple[str, str]],
        body: bytes = b"",
        expect_first: bool,
    ) -> Hijacked:
        """POST ``body`` and take over the connection.

        ``expect_first``: the engine speaks first, at once; its bytes may have arrived with the headers already.
        """
        import requests
        from urllib3._collections import HTTPHeaderDict

        client = self.client()
        with self.errors():
            prepared = client.prepare_request(requests.Request("POST", self.url(path), params=params, data=body))
            prepared.headers = HTTPHeaderDict(headers)  # requests' own mapping cannot repeat a header
            response = client.send(prepared, stream=True, timeout=ANSWER_WITHIN)
            if response.status_code >= 400:
                with response:
                    raise_for_status(response)
            sock = raw_socket(response)
            early = response.raw._fp.fp.read1(65536) if expect_first else b""
            sock.settimeout(None)
        return Hijacked(socket=sock, response=response, early=early)


def api_of(version: str) -> tuple[int, int]:
    """A version of the API as numbers: "1.52"."""
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def moment_of(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 moment, 0 for none. Nanoseconds are more than Python 3.10 reads."""
    try:
        return datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def raise_for_status(response: Any) -> None:
    """Raise the SDK's APIError, which carries the engine's own words, for an answer of 400 or more."""
    from docker.errors import create_api_error_from_http_exception
    from requests import HTTPError

    try:
        response.raise_for_status()
    except HTTPError as error:
        create_api_error_from_http_exception(error)


def _speaks_as_engine(response: Any) -> bool:
    """Whether an error's answer is the engine's own, which is JSON, and not that of a proxy that finds no engine."""
    return response is None or response.status_code < 500 or "json" in response.headers.get("content-type", "")


def error_in(message: Any) -> str:
    """The engine's error in one message of a streaming answer, '' for none.

    ``error`` is deprecated since API 1.48 in favour of ``errorDetail``; Podman's own API only knows the former.
    """
    if not isinstance(message, dict):
        return ""
    detail = message.get("errorDetail") or {}
    said = detail.get("message") if isinstance(detail, dict) else ""
    return str(said or message.get("error") or (detail and json.dumps(detail)) or "")


def raw_socket(response: Any) -> Any:
    """The socket (or SSH channel) under an unread streaming response."""
    reader = response.raw._fp.fp
    return getattr(reader, "channel", None) or reader.raw._sock


@contextlib.contextmanager
def cut_on(response: Any, cancel: threading.Event, silence: float | None = None) -> Iterator[Callable[[], None]]:
    """A block that reads a streaming answer which ``cancel`` cuts off within a moment, even in mid-read.

    ``silence``: seconds after which it is cut off too, counted from the last call of what the block gets; then
    EngineError is raised. Without it a step may be silent for as long as it likes.
    """
    sock = raw_socket(response)
    sock.settimeout(None)
    done = threading.Event()
    last = [time.monotonic()]
    silent = threading.Event()

    def heard() -> None:
        last[0] = time.monotonic()

    def watch() -> None:
        while not done.wait(_LOOK_EVERY):
            if silence is not None and time.monotonic() - last[0] > silence:
                silent.set()
            if cancel.is_set() or silent.is_set():
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                return

    watcher = threading.Thread(target=watch, name="cancel-watch", daemon=True)
    watcher.start()
    try:
        yield heard
    except Exception as error:
        if silent.is_set():
            raise _given_up(silence) from error
        raise
    else:
        if silent.is_set():
            raise _given_up(silence)
    finally:
        done.set()
        watcher.join()


def _given_up(silence: float | None) -> EngineError:
    return EngineError(f"there was no answer for {silence:g} s, and it was given up")


@contextlib.contextmanager
def errors(where: str, via: private_socket.PrivateSocket | None = None) -> Iterator[None]:
    """Turn what the SDK and its HTTP library raise into EngineError (or a nearer class of ours).

    ``via``: what leads to ``where``, and may know why nothing does.
    """
    import docker.errors
    import requests
    import urllib3.exceptions

    try:
        yield
    except ReprokitError:
        raise
    except docker.errors.APIError as error:
        if not _speaks_as_engine(error.response):
            raise EngineLost(
                f"something before the container engine at {where} answers in its place: {error}"
            ) from error
        raise failure.of_engine(str(error.explanation or error)) from error
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        if via is not None and (why := via.refusal()):
            raise EngineLost(f"the container engine at {where} does not answer: {why}") from error
        raise failure.of_connection(error, where) from error
