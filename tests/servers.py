"""A PostgreSQL and an S3 server on loopback that tests start, and a proxy that cuts what passes to either."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60.0
"""How long a server may take to start; it takes one."""
_ACCEPT_ALL = "host all open 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\nlocal all all trust\n"


def postgres_programs() -> Path | None:
    """The folder of the newest PostgreSQL of Debian's packages, None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A server on loopback. Its user ``open`` needs no password, and ``closed`` has the password ``secret-word``."""

    programs: Path
    folder: Path
    port: int

    def address(self, database: str, *, user: str = "open", port: int | None = None) -> str:
        """The address of a database."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def says(self, *statements: str, database: str = "postgres") -> str:
        """What the server answers to statements, as its superuser."""
        words = [str(self.programs / "psql"), "-h", str(self.folder), "-p", str(self.port), "-U", "super", "-X", "-q"]
        words += ["-At", "-v", "ON_ERROR_STOP=1", "-d", database]
        words += [word for statement in statements for word in ("-c", statement)]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=SECONDS).stdout.strip()

    def makes(self, database: str) -> str:
        """A new empty database, owned by ``open``; its address."""
        self.says(f'CREATE DATABASE "{database}" OWNER open')
        return self.address(database)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        _control(self, "start", "-w", "-t", str(int(SECONDS)), "-l", str(self.folder / "log"))

    def stop(self) -> None:
        """Stop it, with connections cut."""
        _control(self, "stop", "-w", "-m", "immediate")


def _control(server: PostgresServer, *words: str) -> None:
    command = [str(server.programs / "pg_ctl"), "-D", str(server.folder / "data"), *words]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=2 * SECONDS, cwd="/", **_as_user())


def _as_user() -> dict[str, object]:
    """PostgreSQL does not run as root."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}


@contextlib.contextmanager
def postgres_server(programs: Path) -> Iterator[PostgresServer]:
    """A server whose data is removed with it."""
    folder = Path(tempfile.mkdtemp(prefix="reprokit-test-pg-", dir="/tmp"))  # its path is a socket's: short
    try:
        if os.getuid() == 0:
            shutil.chown(folder, "nobody", "nogroup")
        command = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "super", "-A", "trust", "-N"]
        command += ["-E", "UTF8", "--locale=C.UTF-8"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=2 * SECONDS, cwd="/", **_as_user())
        (folder / "data" / "pg_hba.conf").write_text(_ACCEPT_ALL)
        server = PostgresServer(programs=programs, folder=folder, port=free_port())
        with (folder / "data" / "postgresql.conf").open("a") as config:
            config.write(f"listen_addresses = '127.0.0.1'\nport = {server.port}\nfsync = off\nmax_connections = 60\n")
            config.write(f"unix_socket_directories = '{folder}'\n")
            # Not in /dev/shm, which every process of that user may clear.
            config.write("dynamic_shared_memory_type = mmap\n")
        server.start()
        try:
            server.says("CREATE ROLE open LOGIN", "CREATE ROLE closed LOGIN PASSWORD 'secret-word'")
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):  # a test stopped it
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port of loopback for a server that sets SO_REUSEADDR: in TIME_WAIT, the kernel gives it to no one else."""
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_connection(free.getsockname()):
        free.accept()[0].close()
        return int(free.getsockname()[1])


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """An empty S3 server in this process; its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


class TcpProxy:
    """Passes connections to a port of loopback until :meth:`cut`, and again after :meth:`listen`.

    ``watch``: sees what clients send before it is passed on, which waits for that.
    """

    def __init__(self, port: int, watch: Callable[[bytes], object] = lambda data: None) -> None:
        self._target = port
        self._watch = watch
        self.port = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listening: socket.socket | None = None
        self.listen()

    def listen(self) -> None:
        """Listen, after the first time at the same port as before."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        listening.listen(64)
        self._listening = listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def cut(self) -> None:
        """Cut all connections, and take no new ones."""
        if self._listening is not None:
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            self._listening = None
        with self._lock:
            ended, self._open = self._open, set()
        for one in ended:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = listening.accept()
                theirs = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._open |= {ours, theirs}
                threading.Thread(target=self._pass, args=(ours, theirs), daemon=True).start()

    def _pass(self, ours: socket.socket, theirs: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                for source in select.select([ours, theirs], [], [])[0]:
                    data = source.recv(65536)
                    if not data:
                        raise OSError
                    if source is ours:
                        self._watch(data)
                    (theirs if source is ours else ours).sendall(data)
        with self._lock:
            self._open -= {ours, theirs}
        for one in (ours, theirs):
            one.close()


@contextlib.contextmanager
def tcp_proxy(port: int, watch: Callable[[bytes], object] = lambda data: None) -> Iterator[TcpProxy]:
    """A proxy before a port of loopback."""
    proxy = TcpProxy(port, watch)
    try:
        yield proxy
    finally:
        proxy.cut()


def port_of(address: str) -> int:
    """The port in an address."""
    found = re.search(r":(\d+)", address.partition("://")[2])
    assert found
    return int(found[1])


def wait_until(happened: object, seconds: float = SECONDS) -> None:
    """Wait for something that is called until it is true."""
    end = time.monotonic() + seconds
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)
