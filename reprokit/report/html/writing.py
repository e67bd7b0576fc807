"""The files of a report: data as scripts, a folder that is replaced whole, and that folder served on this machine."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from reprokit.case.trust import FROM
from reprokit.core.errors import UsageError

FORMAT = "reprokit-report/v1"
MARKER = "reprokit-report.json"
OURS = ("data", "assets", "index.html", ".nojekyll", MARKER)
"""What a report consists of, in the order in which it is put in place. Anything else beside it is not ours."""
LAST = ("data/overview.js", "index.html")  # what leads to all other files
STAGE = ".reprokit-new-"

Clean = Callable[[str], str]  # what every text of the data passes through before it is written
NAMES = ("id", "name", "case", "run", "verdict", "expected", "outcome", "status", "variant")
"""Keys of what pages find each other by, and of words of ours: these stay what they are."""
FREE = ("cell", "facts", "packages", "image")
"""Keys of mappings whose own keys are free, such as variables and axes: there :data:`NAMES` are not names."""


def name(text: str) -> str:
    """A file's name for an id: the id itself where that is a name on every system, else its start and a hash."""
    if re.fullmatch(r"(?!(con|prn|aux|nul|com\d|lpt\d)$)[a-z0-9][a-z0-9-]{0,99}", text):
        return text
    slug = re.sub(r"[^a-z0-9]+", "-", text.partition(FROM)[0].lower()).strip("-")[:60]
    return f"id-{slug or 'x'}.{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def script(key: str, value: object) -> str:
    """A data file's text: one call, in which nothing of the value can end a script element or a line of JavaScript."""
    return script_json(key, json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def script_json(key: str, plain: str) -> str:
    """:func:`script` of a value that is JSON already."""
    for character in "<\u2028\u2029":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    # Of an object in a script that key is not a key, but what the object inherits from.
    plain = re.sub(r'(?<=[{,])"__proto__":', '["__proto__"]:', plain)
    return f"reprokit.data({json.dumps(key)},{plain});\n".encode("utf-8", "backslashreplace").decode()


def clean_texts(value: Any, clean: Clean, names: Collection[str] = NAMES) -> Any:
    """The same data with every text in it cleaned, but for keys and, without an origin, what is under ``names``."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {
            key: one
            if key in names and isinstance(one, str) and FROM not in one
            else clean_texts(one, clean, () if key in FREE else names)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [clean_texts(one, clean, names) for one in value]
    return value


class Folder:
    """A report that is being written, beside the one that is there. See :func:`replacing`."""

    def __init__(self, stage: Path, clean: Clean) -> None:
        self._stage = stage
        self._clean = clean
        self._made: set[Path] = set()
        self.bytes = 0
        self.files = 0

    def data(self, key: str, value: object) -> None:
        """Write ``data/KEY.js``, from what is JSON."""
        self.text(f"data/{key}.js", script(key, clean_texts(value, self._clean)))

    def text(self, path: str, text: str) -> None:
        """Write a file as it is."""
        whole = self._stage / path
        if whole.parent not in self._made:
            whole.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(whole.parent)
        content = text.encode("utf-8", "replace")
        whole.write_bytes(content)
        self.files += 1
        self.bytes += len(content)


@contextlib.contextmanager
def replacing(target: Path, clean: Clean) -> Iterator[Folder]:
    """A new report for the folder ``target``: put in place when the block ends without an error, removed otherwise.

    What lies in the folder beside the report stays. Raises UsageError for a folder that holds something, and no report.
    """
    check(target)
    target.mkdir(parents=True, exist_ok=True)
    handle = os.open(target, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # two that write the same report do so one after the other
        for left in target.glob(f"{STAGE}*"):  # of one that was killed
            shutil.rmtree(left)
        stage = Path(tempfile.mkdtemp(dir=target, prefix=STAGE))
        try:
            (stage / "new").mkdir()
            folder = Folder(stage / "new", clean)
            yield folder
            folder.text(MARKER, json.dumps({"format": FORMAT}) + "\n")
            _swap(stage, target)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    finally:
        os.close(handle)


def is_ours(path: str) -> bool:
    """Whether a file of the folder is one of a report's."""
    return path.partition("/")[0] in OURS


def check(target: Path) -> None:
    """Whether a report may be written there. Raises UsageError, which says what to do."""
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file: name a folder for the report")
    others = [each.name for each in target.iterdir() if not each.name.startswith(STAGE)]
    if others and not (target / MARKER).is_file():
        raise UsageError(
            f"{target} holds {sorted(others)[0]} and is not a report of reprokit (it has no {MARKER}): "
            "name another folder, or empty this one"
        )


def _swap(stage: Path, target: Path) -> None:
    """Put the new files where the old ones are; each is renamed, so that a reader finds one or the other."""
    (stage / "old").mkdir()
    for each in OURS:
        new, there = stage / "new" / each, target / each
        if there.exists():
            there.rename(stage / "old" / each)
        if new.exists():
            new.rename(there)


HOST = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    """Files of one folder below ``/TOKEN/``, to clients that ask for this machine by its own name.

    Other users of this machine reach the port and do not know the token; a page elsewhere may not read it by a name of
    its own that it lets lead here.
    """

    def __init__(self, *arguments: object, token: str, **named: object) -> None:
        self._token = token
        super().__init__(*arguments, **named)  # type: ignore[arg-type]

    def send_head(self):  # type: ignore[no-untyped-def]
        """As of the base, once the name that was asked for is this machine's, and the path holds the token."""
        asked = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if asked not in (HOST, "localhost"):
            self.send_error(403, "This report is served to this machine alone")
            return None
        _, given, rest = (*self.path.split("/", 2), "", "")[:3]
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode()):
            self.send_error(403, "The address of this report has a token: take it from the terminal")
            return None
        self.path = f"/{rest}"
        return super().send_head()

    def end_headers(self) -> None:
        """A report that is written again is seen at once; no page that a link leads to gets the token."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        super().end_headers()

    def list_directory(self, path: object) -> None:
        """Folders are not listed."""
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


class _Server(ThreadingHTTPServer):
    """A server that ignores readers who leave in the middle of an answer, as a page does that is closed."""

    def handle_error(self, request: object, client_address: object) -> None:
        """As of the base (a traceback on the terminal), but for a connection that the other side ended."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def serve(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve a folder on 127.0.0.1 until Ctrl-C; ``ready`` gets the address. Raises UsageError for a taken port."""
    token = secrets.token_urlsafe(24)
    try:
        server = _Server((HOST, port), partial(_Handler, directory=str(folder), token=token))
    except OSError as error:
        raise UsageError(f"--port {port}: {error.strerror}; --port 0 takes any that is free") from error
    with server:
        ready(f"http://{HOST}:{server.server_address[1]}/{token}/")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
