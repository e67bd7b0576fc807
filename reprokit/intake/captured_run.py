"""Runs a failing command without affecting it, records its output, and gathers the facts about it and this machine."""

from __future__ import annotations

import os
import re
import selectors
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from reprokit.core import redaction
from reprokit.core.redaction import Omitted, scrub, secret_variable
from reprokit.environment import probe
from reprokit.environment.measured import Measured, ProbeError
from reprokit.evidence.model import Ending
from reprokit.evidence.parsers.python_traceback import FRAME
from reprokit.intake import captured_files, captured_python
from reprokit.intake.captured_files import Checkout, GatheredFiles
from reprokit.intake.captured_python import CapturedPython

HEAD, TAIL = 2 * 1024**2, 6 * 1024**2
"""Bytes of the output that are kept, from its start and its end."""
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
LINGER = 2.0
"""Seconds to wait for output of background processes after the command has ended."""


@dataclass(frozen=True, kw_only=True)
class CommandRun:
    """How a command ended."""

    ending: Ending
    log: str
    """stdout and stderr in the order in which they came."""
    started: float = 0.0
    """Seconds since 1970."""
    interrupted: bool = False


class CannotStart(Exception):
    """The command does not exist (``status`` 127), or cannot be executed (126): the exit statuses of shells."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def run(
    command: Sequence[str], *, environ: Mapping[str, str] | None = None, timeout: float | None = None
) -> CommandRun:
    """Run ``command`` with our stdin, and pass its output on unchanged as it arrives.

    It stays in our process group: Ctrl-C reaches it as usual, and we wait until it ends. After ``timeout`` seconds, it
    and its child processes get SIGTERM, then SIGKILL. Raises CannotStart.
    """
    start, started = time.monotonic(), time.time()
    with _interrupts_left_to_it() as seen:
        try:
            process = subprocess.Popen(
                list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=environ
            )
        except FileNotFoundError as error:
            raise CannotStart(f"{error.filename or command[0]}: no such command or file", 127) from error
        except OSError as error:
            raise CannotStart(f"{command[0]}: cannot be executed: {error.strerror}", 126) from error
        output = RecordedOutput()
        # One for both, so that what one of them got first comes first.
        reader = threading.Thread(target=_pass_on, args=(process, output), daemon=True)
        reader.start()
        timed_out = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            _stop(process)
        reader.join(LINGER)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    ending = Ending(exit_code=code, timed_out=timed_out, seconds=time.monotonic() - start)
    return CommandRun(ending=ending, log=output.text(), started=started, interrupted=bool(seen))


@dataclass
class RecordedOutput:
    """The start and the end of what was written."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    cut: int = 0

    def add(self, data: bytes) -> None:
        """Keep what was written, as far as it is of the start or the end."""
        with self.lock:
            room = max(0, HEAD - len(self.head))
            self.head += data[:room]
            self.tail += data[room:]
            if len(self.tail) > 2 * TAIL:
                self.cut += len(self.tail) - TAIL
                del self.tail[:-TAIL]

    def text(self) -> str:
        """What was kept."""
        with self.lock:
            gap = f"\n... {self.cut} bytes ...\n".encode() if self.cut else b""
            return bytes(self.head + gap + self.tail).decode("utf-8", "replace")


def _pass_on(process: subprocess.Popen[bytes], output: RecordedOutput) -> None:
    closed: set[int] = set()
    with selectors.DefaultSelector() as streams:
        for target, stream in enumerate((process.stdout, process.stderr), 1):
            assert stream is not None
            streams.register(stream, selectors.EVENT_READ, target)
        while streams.get_map():
            for ready, _ in streams.select():
                data = os.read(ready.fd, 65536)
                output.add(data)
                view = memoryview(data)
                while view and ready.data not in closed:
                    try:
                        view = view[os.write(ready.data, view) :]
                    except OSError:  # our reader has closed the pipe; the command is not affected
                        closed.add(ready.data)
                if not data:
                    streams.unregister(ready.fileobj)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to a process and its descendants, and SIGKILL to those that still run after ``GRACE`` seconds."""
    family = [process.pid, *_descendants(process.pid)]
    for pid in family:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    for pid in family:
        # A pid may have been reused by another process: its parent must still be one of these processes.
        if pid == process.pid and process.poll() is not None:
            continue
        with suppress(ProcessLookupError, PermissionError):
            if pid == process.pid or _parent(pid) in (*family, 1):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> Iterator[int]:
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, tasks.read_text().split()):
                yield child
                yield from _descendants(child)


def _parent(pid: int) -> int:
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


@contextmanager
def _interrupts_left_to_it() -> Iterator[list[int]]:
    """Ctrl-C reaches both the command and this process: ignore it here, but remember that it was pressed."""
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


# -- what it used ------------------------------------------------------------------------------------------------------

SECONDS = 60
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys", "/run")
SESSION = re.compile(
    r"_|PWD|OLDPWD|SHLVL|PATH|HOME|USER|LOGNAME|USERNAME|SHELL|MAIL|HOST(?:NAME|TYPE)?|TERM\w*|COLORTERM|COLUMNS|LINES"
    r"|DISPLAY|WAYLAND_\w+|XAUTHORITY|EDITOR|VISUAL|PAGER|MANPATH|INFOPATH|LS_COLORS|LESS\w*|HIST\w+|PS\d|PROMPT\w*"
    r"|(?:SSH|XDG|DBUS|GPG|GNOME|KDE|GTK|QT|DESKTOP|WINDOW|VTE|TMUX|STY|SUDO|VSCODE|JUPYTER|JPY|NVM|KITTY|ITERM)_?\w*"
    r"|VIRTUAL_ENV\w*|CONDA\w*|_CE_\w+|PYENV\w*|UV(?:_\w+)?|PIP_\w+|POETRY_\w+|npm_\w+|NPM_\w+|NODE\w*|GIT_\w+|DOCKER_\w+"
    r"|(?:https?|ftp|all|no)_proxy|(?:HTTPS?|FTP|ALL|NO)_PROXY|\w*_CA_BUNDLE|SSL_CERT_\w+|TMPDIR|TEMP|TMP|TZ|BASH\w*"
    r"|(?:CLOUD_?SDK|GOOGLE|GCP|GCE|AWS|AZURE|KUBERNETES|GITHUB|GITLAB|RUNNER|CI|JENKINS|BUILDKITE|CODESPACES?)(?:_\w+)?"
    r"|(?:TOX|RUST|RUSTUP|CARGO|GO|JAVA|MAVEN|GRADLE|RUBY|GEM|HOMEBREW|NIX|SNAP|FLATPAK|CONTAINER|SANDBOX)_?\w*"
    r"|\w*_SANDBOX|\w*(?:_CA|CERT)S?(?:_\w+)?|\w*SSL_ROOTS\w*|\w*(?:HOST|POD|NODE|CLUSTER|MACHINE)_?NAME"
    r"|REPROKIT_\w+|WSL\w*|LSCOLORS|LC_\w+|LANG|LANGUAGE|DEBIAN_FRONTEND|INVOCATION_ID|JOURNAL_STREAM|MOTD\w*|container"
)
"""Variables of a terminal, a session or an installation, which do not affect the program."""
_PLACE = re.compile(r"(?:^|[:=,;\s])(?:/(?!dev/|proc/|tmp(?:[:;,\s]|$)|usr/|etc/|opt/)|~|[A-Za-z]:\\)[\w.]")
"""A folder of this machine; folders that every distribution has do not match."""


@dataclass
class Variables:
    """Variables for the case, and those that it does not get."""

    values: dict[str, str] = field(default_factory=dict)
    omitted: list[Omitted] = field(default_factory=list)
    """Secret ones."""
    places: list[str] = field(default_factory=list)
    """The names of those with folders of this machine."""


@dataclass(frozen=True, kw_only=True)
class CapturedRun:
    """Everything that a case is drafted from."""

    command: tuple[str, ...]
    words: tuple[str, ...]
    """Of the command, and of a shell script in it."""
    folder: Path
    """Where the command ran."""
    ran: CommandRun
    measured: Measured
    interpreter: CapturedPython | None = None
    checkout: Checkout | None = None
    gathered: GatheredFiles = field(default_factory=GatheredFiles)
    variables: Variables = field(default_factory=Variables)
    outside: tuple[str, ...] = ()
    """Files that it names outside of the folder."""
    stdin: bool = False
    """Whether its input was a file or a pipe."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Private text of this machine -> its replacement."""


def look(command: Sequence[str], ran: CommandRun, folder: Path, variables: Mapping[str, str]) -> CapturedRun:
    """Gather the facts after ``command`` ran in ``folder`` with these environment variables."""
    words = captured_python.words_of(command)
    program = captured_python.program_of(command)
    python = captured_python.ask(program) if program else None
    known = redaction.of_this_host(variables)
    traced = [Path(found["file"]) for line in ran.log.splitlines() if (found := FRAME.match(line.rstrip()))]
    start = [
        *captured_files.files_named(words, folder),
        *(folder / path for path in traced),
        *captured_files.files_in_log(ran.log, folder),
    ]
    gathered = captured_files.gather(
        [path for path in start if not _below_any(path, python.prefixes if python else ())], folder, since=ran.started
    )
    for number, word in enumerate(words):
        if python and number > 1 and words[number - 1] == "-c" and captured_python.is_python(words[number - 2]):
            gathered.modules.update(module.partition(".")[0] for module in captured_files.imports(word))
    return CapturedRun(
        command=tuple(command),
        words=tuple(words),
        folder=folder,
        ran=ran,
        measured=measure(),
        interpreter=python,
        checkout=captured_files.find_checkout(folder),
        gathered=gathered,
        variables=differing_variables(variables, login_variables(), str(folder), known=known),
        outside=tuple(_outside(words, folder, python.prefixes if python else ())),
        stdin=_given_input(),
        known=known,
    )


def measure() -> Measured:
    """This machine, measured by the same probe as images; empty where the probe fails."""
    try:
        done = subprocess.run(probe.command(), capture_output=True, timeout=SECONDS, check=False, cwd="/")
        return Measured.parse(done.stdout.decode("utf-8", "replace"))
    except (OSError, subprocess.TimeoutExpired, ProbeError):
        return Measured()


def _below_any(path: Path, folders: Sequence[str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _outside(words: Sequence[str], folder: Path, prefixes: Sequence[str]) -> Iterator[str]:
    """The words that name files outside of ``folder`` that do not belong to the system."""
    for word in words[1:]:
        path = (folder / word).resolve()
        if "/" in word and path.is_file() and not _below_any(path, (*prefixes, *_SYSTEM, str(folder.resolve()))):
            yield word


def _given_input() -> bool:
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)


def login_variables() -> dict[str, str]:
    """The variables of a login shell with an empty environment; {} where it fails."""
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
    try:
        done = subprocess.run(
            ["bash", "-lc", "env -0"],
            env=kept,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.partition("=") for line in done.stdout.decode("utf-8", "replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def differing_variables(
    environ: Mapping[str, str], login: Mapping[str, str], folder: str, *, known: Mapping[str, str] | None = None
) -> Variables:
    """The variables of ``environ`` that differ from ``login``; paths below ``folder`` become relative. Pure.

    ``known``: private text of this machine -> its replacement.
    """
    found = Variables()
    for name, value in sorted(environ.items()):
        if login.get(name) == value:
            continue
        if SESSION.fullmatch(name) or not re.fullmatch(r"[A-Za-z_]\w*", name):
            continue
        if secret_variable(name, value):
            found.omitted.append(Omitted(kind="secret", where=f"the environment variable {name}"))
        else:
            _add(found, name, value, folder, known or {})
    return found


def _add(found: Variables, name: str, value: str, folder: str, known: Mapping[str, str]) -> None:
    inside = re.sub(
        rf"(?<![\w/]){re.escape(folder)}(?=[/:]|$)/?", lambda match: "" if match[0].endswith("/") else ".", value
    )
    scrubbed = scrub(inside, known=known, where=f"the environment variable {name}")
    if _PLACE.search(inside):
        found.places.append(name)
    elif scrubbed.omitted:
        found.omitted += scrubbed.omitted
    else:
        found.values[name] = inside
