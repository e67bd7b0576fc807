"""A BuildKit session: the engine asks us for secrets, registry credentials and the gateway over a hijacked connection.

``POST /session`` turns one connection to the engine into HTTP/2 without TLS on which *the engine* is the gRPC client.
We let grpcio serve on a private unix socket and pump bytes between the two. What a build may read is exactly what
``secrets`` holds; nothing of it touches the disk, the context or the Dockerfile. What a step writes to the socket of
``RUN --mount=type=ssh,id=gateway`` reaches the site's gateway: BuildKit forwards bytes, and asks for no agent.

Method names and headers: moby/buildkit ``session/session.go`` and ``session/grpchijack``.
"""

from __future__ import annotations

import selectors
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from reprokit.core.leftovers import private_folder
from reprokit.engine import messages
from reprokit.engine.wire import Hijacked

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
                request_deserializer=messages.BytesMessage.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        found = {
            _SECRET: (self._secret, messages.GetSecretRequest),
            _CREDENTIALS: (self._login, messages.CredentialsRequest),
            _CHECK: (self._check, messages.CheckAgentRequest),
            _HEALTH: (self._health, messages.HealthCheckRequest),
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
        return messages.GetSecretResponse(data=self._secrets[request.ID])

    def _login(self, request: Any, context: Any) -> Any:
        user, secret = self._credentials(request.Host)
        return messages.CredentialsResponse(Username=user, Secret=secret)

    def _check(self, request: Any, context: Any) -> Any:
        if request.ID != GATEWAY or self._gateway is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"nothing is forwarded for {request.ID!r}")
        return messages.CheckAgentResponse()

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
            with suppress(OSError):
                while data := ours.recv(_PIECE):
                    yield messages.BytesMessage(data=data)

    def _health(self, request: Any, context: Any) -> Any:
        return messages.HealthCheckResponse(status=_SERVING)


def _take(requests: Iterator[Any], gateway: socket.socket) -> None:
    # gRPC raises its own kind of exception where the other side went away in the middle.
    with suppress(Exception):
        for message in requests:
            gateway.sendall(message.data)
    with suppress(OSError):
        gateway.shutdown(socket.SHUT_WR)


def _shut(ours: socket.socket) -> None:
    with suppress(OSError):
        ours.shutdown(socket.SHUT_RDWR)


def session_headers(session_id: str) -> list[tuple[str, str]]:
    """The headers of ``POST /session``; the method header is repeated, hence a list."""
    return [
        ("Connection", "Upgrade"),
        ("Upgrade", "h2c"),
        ("X-Docker-Expose-Session-Uuid", session_id),
        ("X-Docker-Expose-Session-Name", "reprokit"),
        ("X-Docker-Expose-Session-Sharedkey", ""),
        *(("X-Docker-Expose-Session-Grpc-Method", method) for method in _METHODS),
    ]


@contextmanager
def serve(
    open_session: Callable[[list[tuple[str, str]]], Hijacked],
    secrets: Mapping[str, bytes],
    credentials: Credentials,
    gateway: Path | None = None,
) -> Iterator[str]:
    """Offer a session while the block runs; yields its id for ``POST /build?session=``.

    ``open_session`` posts to ``/session`` with the headers given and returns the hijacked connection.
    ``gateway``: the unix socket that the steps' connections go to.
    """
    session_id = uuid.uuid4().hex
    with private_folder("session", socket=True) as folder, ThreadPoolExecutor(STREAMS + 2, "session") as pool:
        path = folder / "grpc.sock"
        server = grpc.server(
            pool, handlers=[_Services(secrets, credentials, gateway)], options=(("grpc.so_reuseport", 0),)
        )
        server.add_insecure_port(f"unix:{path}")
        server.start()
        engine = open_session(session_headers(session_id))
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            ours.connect(str(path))
            pump = threading.Thread(target=_pump, args=(engine, ours), name="session-pump", daemon=True)
            pump.start()
            yield session_id
        finally:
            for end in (ours, engine.socket):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            pump.join(timeout=5)
            ours.close()
            engine.close()
            server.stop(grace=None).wait(timeout=5)


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
