"""A BuildKit session: the engine asks us for secrets, registry credentials and the gateway; and its trace, read.

No Python library speaks it, and no client program builds (``docker buildx build``): the only network of an untrusted
build is the gateway's socket, and their ``--ssh`` carries an agent's protocol, not bytes, before BuildKit 0.23; what is
installed is older, or lacks buildx, as on Debian. Who owns `engine` owns this.

On a connection that we open, *the engine* is the gRPC client: grpcio serves on a private unix socket, and bytes are
pumped between the two. ``POST /session`` becomes HTTP/2; it is deprecated since API 1.53, and where it is gone the
engine's own address serves gRPC, whose ``Control/Session`` carries the same bytes (Docker 29.2).

Sources: moby/buildkit ``session/session.go``, ``session/grpchijack``, and the .proto files of secrets, auth, sshforward
and control; moby ``daemon/command/httphandler.go``; grpc's ``health.proto``.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.message import Message

from reprokit.core.errors import EngineError
from reprokit.core.ownership import private_folder
from reprokit.engine.failure import LONGEST_LINE, TAIL
from reprokit.engine.protocol import Progress
from reprokit.engine.wire import ANSWER_WITHIN, Endpoint, Hijacked, Wire

_FieldProto = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _FieldProto.TYPE_STRING,
    "bytes": _FieldProto.TYPE_BYTES,
    "bool": _FieldProto.TYPE_BOOL,
    "int32": _FieldProto.TYPE_INT32,
    "int64": _FieldProto.TYPE_INT64,
}
_PACKAGE = "reprokit.buildkit"

# message -> ((field, number, type, repeated), ...); a type that is not a scalar names a message.
_MESSAGES: dict[str, tuple[tuple[str, int, str, bool], ...]] = {
    "GetSecretRequest": (("ID", 1, "string", False),),
    "GetSecretResponse": (("data", 1, "bytes", False),),
    "CredentialsRequest": (("Host", 1, "string", False),),
    "CredentialsResponse": (("Username", 1, "string", False), ("Secret", 2, "string", False)),
    "BytesMessage": (("data", 1, "bytes", False),),
    "CheckAgentRequest": (("ID", 1, "string", False),),
    "CheckAgentResponse": (),
    "HealthCheckRequest": (("service", 1, "string", False),),
    "HealthCheckResponse": (("status", 1, "int32", False),),
    "Vertex": (
        ("digest", 1, "string", False),
        ("inputs", 2, "string", True),
        ("name", 3, "string", False),
        ("cached", 4, "bool", False),
        ("started", 5, ".google.protobuf.Timestamp", False),
        ("completed", 6, ".google.protobuf.Timestamp", False),
        ("error", 7, "string", False),
    ),
    "VertexLog": (("vertex", 1, "string", False), ("stream", 3, "int64", False), ("msg", 4, "bytes", False)),
    "StatusResponse": (("vertexes", 1, "Vertex", True), ("logs", 3, "VertexLog", True)),
}


def _declare() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="reprokit/buildkit.proto", package=_PACKAGE, syntax="proto3")
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind, repeated in fields:
            label = _FieldProto.LABEL_REPEATED if repeated else _FieldProto.LABEL_OPTIONAL
            declared = message.field.add(name=field_name, number=number, label=label)
            if kind in _TYPES:
                declared.type = _TYPES[kind]
            else:
                declared.type = _FieldProto.TYPE_MESSAGE
                declared.type_name = kind if kind.startswith(".") else f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES: dict[str, Any] = _declare()

GetSecretRequest = _CLASSES["GetSecretRequest"]
GetSecretResponse = _CLASSES["GetSecretResponse"]
CredentialsRequest = _CLASSES["CredentialsRequest"]
CredentialsResponse = _CLASSES["CredentialsResponse"]
BytesMessage = _CLASSES["BytesMessage"]
CheckAgentRequest = _CLASSES["CheckAgentRequest"]
CheckAgentResponse = _CLASSES["CheckAgentResponse"]
HealthCheckRequest = _CLASSES["HealthCheckRequest"]
HealthCheckResponse = _CLASSES["HealthCheckResponse"]
StatusResponse = _CLASSES["StatusResponse"]


_SECRET = "/moby.buildkit.secrets.v1.Secrets/GetSecret"
_CREDENTIALS = "/moby.filesync.v1.Auth/Credentials"
_CHECK = "/moby.sshforward.v1.SSH/CheckAgent"
_FORWARD = "/moby.sshforward.v1.SSH/ForwardAgent"
_HEALTH = "/grpc.health.v1.Health/Check"
_METHODS = (_SECRET, _CREDENTIALS, _CHECK, _FORWARD, _HEALTH)
_SERVING = 1

GATEWAY = "gateway"
"""The id of the mount that leads to the gateway (``dockerfiles/macros.j2``)."""

STREAMS = 64
"""Connections of one build to the gateway that are served at a time; more of them wait."""

_PIECE = 256 * 1024

Credentials = Callable[[str], tuple[str, str]]
"""Registry host -> (user, secret); both '' for anonymous."""


class _Services(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs only
    """Secrets, registry credentials and health, answered from memory; connections to the gateway, passed on."""

    def __init__(self, secrets: Mapping[str, bytes], credentials: Credentials, gateway: Path | None) -> None:
        self._secrets = secrets
        self._credentials = credentials
        self._gateway = gateway

    def service(self, handler_call_details: Any) -> Any:
        """The handler of one method, or None for what we do not serve (gRPC then says UNIMPLEMENTED)."""
        if handler_call_details.method == _FORWARD:
            return grpc.stream_stream_rpc_method_handler(
                self._forward,
                request_deserializer=BytesMessage.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        found = {
            _SECRET: (self._secret, GetSecretRequest),
            _CREDENTIALS: (self._login, CredentialsRequest),
            _CHECK: (self._check, CheckAgentRequest),
            _HEALTH: (self._health, HealthCheckRequest),
        }.get(handler_call_details.method)
        if found is None:
            return None
        answer, request = found
        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=request.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def _secret(self, request: Any, context: Any) -> Any:
        if request.ID not in self._secrets:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no secret {request.ID!r} is set on this host")
        return GetSecretResponse(data=self._secrets[request.ID])

    def _login(self, request: Any, context: Any) -> Any:
        user, secret = self._credentials(request.Host)
        return CredentialsResponse(Username=user, Secret=secret)

    def _check(self, request: Any, context: Any) -> Any:
        if request.ID != GATEWAY or self._gateway is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"nothing is forwarded for {request.ID!r}")
        return CheckAgentResponse()

    def _forward(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """One connection of a step to the gateway."""
        if self._gateway is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "this build has no gateway")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ours:
            try:
                ours.connect(str(self._gateway))
            except OSError:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the gateway has ended")
            context.add_callback(lambda: _shut(ours))  # the step went away: nothing is to be waited for
            threading.Thread(target=_take, args=(requests, ours), name="gateway-in", daemon=True).start()
            yield from _pieces(ours)

    def _health(self, request: Any, context: Any) -> Any:
        return HealthCheckResponse(status=_SERVING)


def _take(requests: Iterator[Any], gateway: socket.socket) -> None:
    """Write messages to a socket, which reads their end where they end."""
    # gRPC raises its own kind of exception where the other side went away in the middle.
    with suppress(Exception):
        for message in requests:
            gateway.sendall(message.data)
    with suppress(OSError):
        gateway.shutdown(socket.SHUT_WR)


def _shut(ours: socket.socket) -> None:
    with suppress(OSError):
        ours.shutdown(socket.SHUT_RDWR)


@contextmanager
def serve(
    wire: Wire, secrets: Mapping[str, bytes], credentials: Credentials, gateway: Path | None = None
) -> Iterator[tuple[str, threading.Thread]]:
    """Offer a session while the block runs; yields its id for ``POST /build?session=`` and a thread that ends with it.

    ``gateway``: the unix socket that the steps' connections go to. Raises EngineError.
    """
    session_id = uuid.uuid4().hex
    with private_folder("session", socket=True) as folder, ThreadPoolExecutor(STREAMS + 2, "session") as pool:
        path = folder / "grpc.sock"
        server = grpc.server(
            pool, handlers=[_Services(secrets, credentials, gateway)], options=(("grpc.so_reuseport", 0),)
        )
        server.add_insecure_port(f"unix:{path}")
        server.start()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ours:
                ours.connect(str(path))
                pump, close = _attached(wire, session_id, ours)
                pumping = threading.Thread(target=pump, name="session-pump", daemon=True)
                pumping.start()
                try:
                    yield session_id, pumping
                finally:
                    _shut(ours)
                    close()
                    pumping.join(timeout=5)
        finally:
            server.stop(grace=None).wait(timeout=5)


def _attached(wire: Wire, session_id: str, ours: socket.socket) -> tuple[Callable[[], None], Callable[[], None]]:
    """Have the engine call what answers at ``ours``: what passes the bytes on, and what ends that."""
    about = [
        ("X-Docker-Expose-Session-Uuid", session_id),
        ("X-Docker-Expose-Session-Name", "reprokit"),
        ("X-Docker-Expose-Session-Sharedkey", ""),
        *(("X-Docker-Expose-Session-Grpc-Method", method) for method in _METHODS),
    ]
    try:
        headers = [("Connection", "Upgrade"), ("Upgrade", "h2c"), *about]
        engine = wire.hijack("/session", headers=headers, expect_first=True)
    except EngineError as error:
        if getattr(error.__cause__, "status_code", 0) not in {404, 405, 410}:
            raise
    else:
        return partial(_pump, engine, ours), engine.close
    channel = _channel(wire.endpoint)
    call: Any = channel.stream_stream(
        "/moby.buildkit.v1.Control/Session",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=BytesMessage.FromString,
    )(_pieces(ours), metadata=tuple((name.lower(), value) for name, value in about))
    late = threading.Timer(ANSWER_WITHIN, call.cancel)
    late.start()
    try:
        ours.sendall(next(call).data)  # the engine, as a gRPC client, speaks first
    except (grpc.RpcError, StopIteration) as error:
        channel.close()
        raise EngineError(
            "this engine has no BuildKit, which builds need: use Docker Engine 20.10 or newer (Podman has none)"
        ) from error
    finally:
        late.cancel()
    return partial(_take, call, ours), channel.close


def _channel(where: Endpoint) -> grpc.Channel:
    """A gRPC channel to the engine itself, which asks no proxy."""
    scheme, _, address = (where.via.address() if where.via else where.url).partition("://")
    options: list[tuple[str, Any]] = [("grpc.enable_http_proxy", 0)]
    if where.tls:
        files = [Path(file) if file else None for file in (where.tls.ca_cert, *reversed(where.tls.cert or ("", "")))]
        ca, key, chain = (file.read_bytes() if file else None for file in files)
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, chain), options)
    if "unix" in scheme:
        # Go refuses a request whose host is the path of a socket.
        return grpc.insecure_channel(f"unix:{address}", [*options, ("grpc.default_authority", "localhost")])
    return grpc.insecure_channel(address, options)


def _pieces(ours: socket.socket) -> Iterator[Any]:
    """What comes from a socket, as messages."""
    with suppress(OSError):
        while data := ours.recv(_PIECE):
            yield BytesMessage(data=data)


def _pump(engine: Hijacked, ours: socket.socket) -> None:
    """Copy bytes both ways until either side closes. One thread: TLS sockets are not safe for two."""
    with suppress(OSError, ValueError), selectors.DefaultSelector() as selector:
        if engine.early:
            ours.sendall(engine.early)
        selector.register(engine.socket, selectors.EVENT_READ, (engine.socket, ours))
        selector.register(ours, selectors.EVENT_READ, (ours, engine.socket))
        while True:
            for key, _ in selector.select():
                source, target = key.data
                data = source.recv(65536)
                # A TLS socket may hold decrypted bytes that select cannot see.
                while data and (pending := getattr(source, "pending", int)()):
                    data += source.recv(pending)
                if not data:
                    return
                target.sendall(data)


_STEP = re.compile(r"\[(?:\S+ )? *(?P<number>[0-9]{1,9})/(?P<total>[0-9]{1,9})\] (?P<name>.*)", re.S)
_IMPORT = "importing cache manifest"
_STOPPED = ("context canceled", "failed to solve: canceled", "Canceled")


@dataclass(kw_only=True)
class _Step:
    name: str
    number: int = 0
    total: int = 0
    error: str = ""
    shown: bool = False
    ended: bool = False
    rest: str = ""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL))


class Trace:
    """Follows ``moby.buildkit.trace`` messages (serialised StatusResponse) of one build."""

    def __init__(
        self, on_progress: Callable[[Progress], None], redact: Callable[[str], str] = lambda text: text
    ) -> None:
        self._on_progress = on_progress
        self._redact = redact
        self._steps: dict[str, _Step] = {}

    def feed(self, status: bytes) -> None:
        """Take one message."""
        response = StatusResponse.FromString(status)
        for vertex in response.vertexes:
            step = self._steps.get(vertex.digest)
            if step is None:
                step = self._steps[vertex.digest] = _named(self._redact(vertex.name))
            step.error = step.error or self._redact(vertex.error)
            if not step.shown and (vertex.HasField("started") or vertex.cached):
                step.shown = True
                self._tell(step, cached=vertex.cached)
            if not (step.ended or vertex.cached) and vertex.HasField("started") and vertex.HasField("completed"):
                step.ended = True
                took = (vertex.completed.ToNanoseconds() - vertex.started.ToNanoseconds()) / 1e9
                self._tell(step, took=max(took, 0.0))
        for log in response.logs:
            step = self._steps.get(log.vertex)
            if step is not None:
                self._log(step, log.msg.decode("utf-8", errors="replace"))

    def failed(self) -> tuple[str, tuple[str, ...], str]:
        """The failing step's instruction, its last lines and its error; all empty when no step failed."""
        for step in self._steps.values():
            # A registry that lacks what others might have pushed fails no build.
            if step.error and not step.error.endswith(_STOPPED) and not step.name.startswith(_IMPORT):
                last = [self._redact(step.rest)] if step.rest.strip() else []
                return step.name, (*step.tail, *last), step.error
        return "", (), ""

    def ran_elsewhere(self, error: str) -> str:
        """The instruction whose command the engine's ``error`` repeats though this build never started it; '' for none.

        See :mod:`reprokit.engine.docker.buildkit`.
        """
        named = [step.name for step in self._steps.values() if not step.shown and _repeats(error, step.name)]
        return max(named, key=len, default="")

    def _log(self, step: _Step, text: str) -> None:
        # What is kept is redacted by lines: a piece of the stream may end within a password.
        *whole, step.rest = (step.rest + text).split("\n")
        if len(step.rest) > LONGEST_LINE:
            whole, step.rest = [*whole, step.rest], ""
        step.tail.extend(self._redact(line).rstrip("\r").rpartition("\r")[2] for line in whole)
        self._tell(step, log=self._redact(text))

    def _tell(self, step: _Step, **more: Any) -> None:
        self._on_progress(Progress(number=step.number, total=step.total, name=step.name, **more))


def _repeats(error: str, name: str) -> bool:
    """Whether an error ends with the command of a RUN, as it is (until BuildKit 0.9) or as Go quotes it."""
    command = re.sub(r"^RUN\s+(?:--\S+\s+)*", "", name).strip()
    quoted = json.dumps(command, ensure_ascii=False)[1:-1]
    return name.startswith("RUN") and (f"{command}]: exit code" in error or f'{quoted}" did not complete' in error)


def _named(name: str) -> _Step:
    found = _STEP.fullmatch(name)
    if found is None:
        return _Step(name=name)
    return _Step(name=found["name"], number=int(found["number"]), total=int(found["total"]))
