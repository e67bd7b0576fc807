"""A unix socket of our own at which a program listens for this process: ssh's end of a tunnel, or Podman's service.

docker-py's ``use_ssh_client`` starts an ssh for each request, and paramiko reads no ``Port`` of ssh_config. Who owns
`engine` owns this. The program ends with this process, however that ends: a shell waits for the end of a pipe of which
this process has the other side. In a session of its own, so that Ctrl-C leaves it to what still needs it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from reprokit.core import ownership
from reprokit.core.errors import EngineError, EngineLost
from reprokit.core.redaction import without_passwords

READY_WITHIN = 60.0
"""Seconds within which the socket has to be there: a host behind two others answers in ten."""

_SOCKET = "engine.sock"
_POLL = 0.02
_END_WITHIN = 5.0
_LATELY = 5.0  # seconds for which what ssh said explains what fails
_WORDS = 2000  # bytes of what the program wrote last that messages may repeat

_WITH_US = """exec 3<&0 </dev/null
"$@" 3<&- &
program=$!
{ read -r _ <&3; kill "$program"; } 2>/dev/null &
exec 3<&-
wait "$program"; status=$?
kill $! 2>/dev/null
exit "$status"
"""

_ADDRESS = re.compile(
    r"ssh://(?:(?P<user>\w[\w.-]*)@)?(?P<host>\w[\w.-]*|\[[0-9A-Fa-f:.]+(?:%\w+)?\])(?::(?P<port>\d{1,5}))?"
    r"(?P<path>/[\w./@+,=-]*)?",
    re.ASCII,
)

# What ssh says of a connection to the remote socket that did not come about -> what to do.
_REFUSED = (
    ("administratively prohibited", "its sshd permits no forwarding to sockets: AllowStreamLocalForwarding"),
    (
        "open failed",
        (
            "no engine listens at {path} there, or the user there may not talk to it (group docker); a path at the end "
            "of the address names another socket: ssh://HOST/run/user/1000/podman/podman.sock"
        ),
    ),
)


class PrivateSocket:
    """Starts ``command`` in a folder of its own, where it makes the socket ``engine.sock``; "{socket}" in a word of it
    stands for its path. Safe to share.

    ``what`` names the program in messages. Nothing is started before the first :meth:`address`.
    """

    def __init__(self, command: tuple[str, ...], what: str) -> None:
        self._command = command
        self._what = what
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._served = False
        self._closing = threading.Event()

    def address(self) -> str:
        """The socket's address; the program is started where it does not run.

        Raises EngineError, with the program's own words, when there is no socket; EngineLost where there was one.
        """
        with self._lock:
            if self._folder is None:
                self._folder = self._stack.enter_context(ownership.private_folder("engine", socket=True))
                atexit.register(self.close)
            if self._process is None or self._process.poll() is not None:
                try:
                    self._start(self._folder)
                except EngineError as error:
                    raise (EngineLost if self._served else EngineError)(str(error)) from error
                self._served = True
            return f"unix://{self._folder / _SOCKET}"

    def refusal(self) -> str:
        """Why what listens there does not answer, in the program's words and with what to do; '' if it said nothing."""
        return ""

    def words(self, since: float = 0.0) -> str:
        """What the program wrote last, on one line; '' where that was before ``since``, seconds since 1970."""
        with contextlib.suppress(OSError):
            log = Path(self._folder or "/nonexistent", "log")
            if log.stat().st_mtime >= since:
                text = log.read_bytes()[-_WORDS:].decode("utf-8", "replace")
                text = "".join(one if one.isprintable() else " " for one in text.replace('"', "'"))
                return " ".join(text.split())
        return ""

    def close(self) -> None:
        """Stop the program, and remove the socket. A thread that waits for it in :meth:`address` raises EngineError."""
        self._closing.set()
        with self._lock:
            self._stop()
            self._stack.close()
            self._folder = None
            self._closing.clear()

    def _start(self, folder: Path) -> None:
        self._stop()
        (folder / _SOCKET).unlink(missing_ok=True)
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "sh",
                    "-c",
                    _WITH_US,
                    "sh",
                    *(word.replace("{socket}", str(folder / _SOCKET)) for word in self._command),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )
        deadline = time.monotonic() + READY_WITHIN
        try:
            while not (folder / _SOCKET).exists():
                if (status := self._process.poll()) is not None:
                    raise EngineError(f'{self._what} ended with status {status} and said "{self.words()}"')
                if time.monotonic() > deadline:
                    within = f"{READY_WITHIN:g} s"
                    raise EngineError(f'{self._what} gave no connection within {within} and said "{self.words()}"')
                if self._closing.wait(_POLL):
                    raise EngineError(f"{self._what} was stopped before it gave a connection")
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_WITHIN)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()
        self._process = None


class Tunnel(PrivateSocket):
    """The socket of an engine on another machine, by one connection of the program ``ssh``: what ssh_config, the agent
    and jump hosts say counts. Not by the docker SDK: its ``use_ssh_client`` starts an ssh for each request, and
    paramiko reads no ``Port`` of ssh_config.
    """

    def __init__(self, ssh: str, address: str, path: str) -> None:
        found = _ADDRESS.fullmatch(address)
        if found is None:
            shown = without_passwords(address)
            raise EngineError(f"{shown} is not an address: expected ssh://[USER@]HOST[:PORT][/PATH/OF/SOCKET]")
        self._path = found["path"] if found["path"] not in (None, "/") else path
        options = {
            "BatchMode": "yes",  # a password could be asked for where no one looks
            "ConnectTimeout": "20",
            # An ssh whose other end is gone ends within 45 s, and the engine with it.
            "ServerAliveInterval": "15",
            "ServerAliveCountMax": "3",
            "ExitOnForwardFailure": "yes",
            "ControlPath": "none",  # the connection of another ssh would keep the tunnel when ours ends
            "LogLevel": "INFO",  # which names a socket that does not answer
        }
        words = [ssh, "-nNT", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
        words += ["-l", found["user"]] if found["user"] else []
        words += ["-p", found["port"]] if found["port"] else []
        host = found["host"].strip("[]")
        super().__init__((*words, "-L", f"./{_SOCKET}:{self._path}", "--", host), f"ssh to {host}")

    def refusal(self) -> str:
        """Why the socket of the other machine does not answer although ssh is connected to that."""
        said = self.words(time.time() - _LATELY)
        advice = next((advice for words, advice in _REFUSED if words in said), "")
        return f"{advice.format(path=self._path)}. ssh says: {said}" if advice else ""


@functools.cache
def _tunnel(ssh: str, address: str, path: str) -> Tunnel:
    return Tunnel(ssh, address, path)


def tunnel(address: str, path: str, environ: Mapping[str, str]) -> Tunnel:
    """The one tunnel of this process to ``address``; ``path``: of the socket, unless the address names it.

    Raises EngineError where ssh is not installed, or this is not an address.
    """
    ssh = shutil.which("ssh", path=environ.get("PATH", ""))
    if ssh is None:
        raise EngineError(f"{address} needs the program ssh: 'sudo apt-get install openssh-client'")
    return _tunnel(ssh, address, path)


@functools.cache
def podman_service(podman: str) -> PrivateSocket:
    """The one Podman service of this process, which serves this user's images and containers."""
    return PrivateSocket((podman, "system", "service", "--time=0", "unix://{socket}"), "'podman system service'")
