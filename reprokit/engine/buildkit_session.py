"""A BuildKit session: the engine asks us for build secrets and registry credentials over a hijacked connection.

``POST /session`` turns one connection to the engine into HTTP/2 without TLS on which *the engine* is the gRPC client.
We let grpcio serve on a private unix socket and pump bytes between the two. What a build may read is exactly what
``secrets`` holds; nothing of it touches the disk, the context or the Dockerfile.

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
from typing import Any

import grpc

from reprokit.engine import messages
from reprokit.engine.leftovers import private_folder
from reprokit.engine.wire import Hijacked

_SECRET = "/moby.buildkit.secrets.v1.Secrets/GetSecret"
_CREDENTIALS = "/moby.filesync.v1.Auth/Credentials"
_HEALTH = "/grpc.health.v1.Health/Check"
_SERVING = 1

Credentials = Callable[[str], tuple[str, str]]
"""Registry host -> (user, secret); both '' for anonymous."""


class _Services(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs only
    """Secrets, registry credentials and health, answered from memory."""

    def __init__(self, secrets: Mapping[str, bytes], credentials: Credentials) -> None:
        self._secrets = secrets
        self._credentials = credentials

    def service(self, handler_call_details: Any) -> Any:
        """The handler of one method, or None for what we do not serve (gRPC then says UNIMPLEMENTED)."""
        found = {
            _SECRET: (self._secret, messages.GetSecretRequest),
            _CREDENTIALS: (self._login, messages.CredentialsRequest),
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

    def _health(self, request: Any, context: Any) -> Any:
        return messages.HealthCheckResponse(status=_SERVING)


def session_headers(session_id: str) -> list[tuple[str, str]]:
    """The headers of ``POST /session``; the method header is repeated, hence a list."""
    return [
        ("Connection", "Upgrade"),
        ("Upgrade", "h2c"),
        ("X-Docker-Expose-Session-Uuid", session_id),
        ("X-Docker-Expose-Session-Name", "reprokit"),
        ("X-Docker-Expose-Session-Sharedkey", ""),
        *(("X-Docker-Expose-Session-Grpc-Method", method) for method in (_SECRET, _CREDENTIALS, _HEALTH)),
    ]


@contextmanager
def serve(
    open_session: Callable[[list[tuple[str, str]]], Hijacked], secrets: Mapping[str, bytes], credentials: Credentials
) -> Iterator[str]:
    """Offer a session while the block runs; yields its id for ``POST /build?session=``.

    ``open_session`` posts to ``/session`` with the headers given and returns the hijacked connection.
    """
    session_id = uuid.uuid4().hex
    with private_folder("session", socket=True) as folder, ThreadPoolExecutor(2, thread_name_prefix="session") as pool:
        path = folder / "grpc.sock"
        server = grpc.server(pool, handlers=[_Services(secrets, credentials)], options=(("grpc.so_reuseport", 0),))
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
