"""Debuggers in images, and names for the frames that they print: debug files come from the site's servers."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core import cache, http_client
from reprokit.core.errors import BuildFailed, Cancelled, EngineError, EngineLost, ImageGone, Unsupported
from reprokit.core.files import newest
from reprokit.core.ownership import POLL_SECONDS, label_image, locked, locked_if_free
from reprokit.core.redaction import without_passwords
from reprokit.core.text import one_line
from reprokit.engine import site
from reprokit.engine.images import find_built, moved_name
from reprokit.engine.protocol import Build, Engine, ImageInfo, Mount, Progress, Trial
from reprokit.environment import debugging
from reprokit.evidence.symbols import Module, Named, modules_to_name, name_frames, strip_parameters
from reprokit.run.threads import start_beside

FILE, PART = "debuginfo", "debuginfo.part"
MAX_FILE = 4 * 2**30
MAX_ALL = 16 * 2**30
"""Bytes of all files; beyond it, those that were not used for longest go."""
SILENCE_SECONDS = 20.0
FILE_SECONDS = 600.0
_SECTIONS = 65_536
_NOTES = 64 * 1024
_EMPTY = (0, 8)
"""Kinds of sections that take no bytes of their file."""
_Read = Callable[[int, int], bytes]
"""Place and size -> the bytes there, as far as the file has them."""


class NoDebugFile(Exception):
    """No debug file; the text says why. ``absent``: each server said that it has none."""

    def __init__(self, why: str, *, absent: bool = False) -> None:
        self.absent = absent
        super().__init__(why)


def servers(configured: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The servers to ask, in this order: those of the configuration, else of elfutils' own variable."""
    if configured:
        return tuple(one for one in configured if one != "none")
    words = environ.get("DEBUGINFOD_URLS", "").split()
    return tuple(dict.fromkeys(one.rstrip("/") for one in words if one.startswith(("http://", "https://"))))


class DebugFiles:
    """The debug files of a run. What was found of one, or why there is none, holds for the whole run: no trial has
    names that the next one lacks because a server went away. Safe for threads; processes share the folder.
    """

    def __init__(self, urls: Sequence[str], folder: Path | None = None) -> None:
        self.urls = tuple(urls)
        self._folder = folder
        self._lock = threading.Lock()
        self._found: dict[str, Path | NoDebugFile] = {}
        self._failed: dict[str, str] = {}

    def get(self, build_id: str, cancel: threading.Event) -> Path:
        """The folder that holds the debug file of a build id, as ``FILE``. Raises NoDebugFile, Cancelled."""
        with self._lock:
            if build_id not in self._found:
                self._found[build_id] = self._got(build_id, cancel)
            found = self._found[build_id]
        if isinstance(found, NoDebugFile):
            raise NoDebugFile(str(found), absent=found.absent)
        return found

    def _got(self, build_id: str, cancel: threading.Event) -> Path | NoDebugFile:
        try:
            place = (self._folder or cache.folder("debuginfo")) / build_id
            lock = place.parent / f"{build_id}.lock"
            while True:  # a thread of another process may read a large file for minutes
                with locked_if_free(lock) as held:
                    if held:
                        return self._read(build_id, place, cancel)
                if cancel.wait(POLL_SECONDS):
                    raise Cancelled("stopped while another process fetched debug files")
        except NoDebugFile as error:
            return error
        except OSError as error:
            return NoDebugFile(f"the cache of debug files cannot be written: {error.strerror}")

    def _read(self, build_id: str, place: Path, cancel: threading.Event) -> Path:
        if has_build_id(place / FILE, build_id):
            with contextlib.suppress(OSError):
                os.utime(place / FILE)
            return place
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o755)  # read by the user of a container
        whys = [why for url in self.urls if (why := self._ask(url, build_id, place, cancel))]
        if (place / FILE).is_file():
            make_room(place.parent, keep=place)
            return place
        with contextlib.suppress(OSError):
            place.rmdir()
        failed = [why for why in whys if why != _ABSENT]
        raise NoDebugFile("; ".join(failed) or "no server has its debug file", absent=not failed)

    def _ask(self, url: str, build_id: str, place: Path, cancel: threading.Event) -> str:
        """Fetch a file from a server; why it did not come, '' where it is there."""
        if (place / FILE).is_file():
            return ""
        if url in self._failed:
            return self._failed[url]
        shown, part = without_passwords(url), place / PART
        try:
            status = _fetched(f"{url}/buildid/{build_id}/debuginfo", part, cancel)
            if status == 404:
                return _ABSENT
            if status != 200:
                return f"{shown} answers {status}"
            if not has_build_id(part, build_id):
                return f"{shown} sent something else than the debug file of {build_id}"
            part.chmod(0o644)
            part.replace(place / FILE)
            return ""
        except http_client.TooLarge as error:
            return f"{shown}: {error}"
        except http_client.NoAnswer as error:
            if cancel.is_set():
                raise Cancelled("stopped while debug files were fetched") from None
            self._failed[url] = f"{shown} does not answer: {one_line(str(error), 200)}"
            return self._failed[url]
        finally:
            part.unlink(missing_ok=True)


_ABSENT = "absent"


def _fetched(url: str, part: Path, cancel: threading.Event) -> int:
    """The status that a server answered, with the file in ``part``. Raises NoAnswer; at once on ``cancel``."""
    found: list[int | http_client.NoAnswer] = []
    gone = threading.Event()

    def fetch() -> None:
        try:
            with part.open("wb") as stream:
                status = http_client.download(
                    url,
                    stream,
                    max_bytes=MAX_FILE,
                    silence=SILENCE_SECONDS,
                    seconds=FILE_SECONDS,
                    is_cancelled=gone.is_set,
                )
            found.append(status)
        except http_client.NoAnswer as error:
            found.append(error)
        except OSError as error:
            found.append(http_client.NoAnswer(f"its answer cannot be kept: {error.strerror}"))

    thread = start_beside(fetch, "debuginfod")
    while thread.is_alive():
        thread.join(POLL_SECONDS)
        if cancel.is_set():
            gone.set()
            break
    answer = found[0] if found else http_client.NoAnswer("stopped")
    if isinstance(answer, http_client.NoAnswer):
        raise answer
    return answer


def make_room(folder: Path, keep: Path) -> None:
    """Remove the files that were not used for longest, until all are within ``MAX_ALL``."""
    files = [place for place in folder.glob(f"*/{FILE}") if place.parent != keep]
    size = sum(_bytes_of(place) for place in [*files, keep / FILE])
    for place in sorted(files, key=newest):
        if size <= MAX_ALL:
            return
        with locked_if_free(folder / f"{place.parent.name}.lock") as held:
            if held:
                size -= _bytes_of(place)
                place.unlink(missing_ok=True)


def _bytes_of(place: Path) -> int:
    with contextlib.suppress(OSError):
        return place.stat().st_size
    return 0


def has_build_id(path: Path, build_id: str) -> bool:
    """Whether a file is a whole ELF file with that build id in one of its notes."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return build_id in _build_ids(file.read(64), lambda at, size: os.pread(file.fileno(), size, at), size)
    except (OSError, OverflowError, ValueError, struct.error):
        return False


def _build_ids(head: bytes, read: _Read, whole: int) -> list[str]:
    """Those of the note sections of an ELF file of ``whole`` bytes: a debug file has no segments to speak of. None of a
    file that was cut off. Raises struct.error.
    """
    if len(head) < 64 or head[:4] != b"\x7fELF" or head[4:5] not in (b"\1", b"\2"):
        return []
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    (table,) = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", head, 40 if wide else 32)
    size, count = struct.unpack_from(f"{order}HH", head, 58 if wide else 46)
    fields = f"{order}{'IIQQQQ' if wide else 'IIIIII'}"
    if size < struct.calcsize(fields):
        return []
    if not count:  # more than fit in the header: the first section says
        count = min(struct.unpack_from(fields, read(table, size))[5], _SECTIONS)
    found = []
    if table + size * count > whole:
        return []
    sections = read(table, size * count)
    for at in range(0, len(sections) - size + 1, size):
        _, kind, _, _, offset, length = struct.unpack_from(fields, sections, at)
        if kind not in _EMPTY and offset + length > whole:
            return []
        if kind == 7 and length <= _NOTES:
            found += _notes(read(offset, length), order)
    return found


def _notes(data: bytes, order: str) -> list[str]:
    found = []
    while len(data) >= 12:
        name, length, kind = struct.unpack_from(f"{order}III", data)
        start = 12 + (name + 3 & ~3)
        if kind == 3 and data[12 : 12 + name] == b"GNU\0":
            found.append(data[start : start + length].hex())
        data = data[start + (length + 3 & ~3) :]
    return found


class DebugImages:
    """The images with debuggers of a run, and why others cannot have any: each is tried once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[ImageInfo, str]] = {}

    def over(self, engine: Engine, image: ImageInfo, trust: Trust, cancel: threading.Event) -> tuple[ImageInfo, str]:
        """``image`` with debuggers and ''; or ``image`` itself, and why it cannot have them.

        Raises Cancelled, ImageGone, EngineError.
        """
        with self._lock:
            found = self._found.get(image.id)
            # gc removes it where it is not in use: it is built again, from the engine's cache.
            if found is None or engine.image(found[0].id) is None:
                try:
                    made = with_debuggers(engine, image, trust=trust, on_progress=lambda progress: None, cancel=cancel)
                    found = made, ""
                except Unsupported as error:
                    found = image, str(error)
                self._found[image.id] = found
            return found


def with_debuggers(
    engine: Engine,
    image: ImageInfo,
    *,
    trust: Trust,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
) -> ImageInfo:
    """The image with gdb and py-spy in it, built unless the engine has it. ``trust``: in the case of the image.

    Raises Unsupported where the image or the engine cannot have them, Cancelled, EngineError.
    """
    info = engine.info()
    if not info.capabilities.images:
        raise Unsupported(
            f"{info} makes no images, into which debuggers could be put: choose another engine by --engine"
        )
    layer = debugging.rendered(image.tag, privileged=ALLOWANCES[trust].file_capabilities)
    tag = debugging.tag(layer, image.id)
    lock = cache.folder("locks") / f"image-{tag.rpartition(':')[2]}.lock"
    with locked(lock, cancel, "image"):
        if found := find_built(engine, tag):
            return found
        build = Build(tag=tag, dockerfile=layer.dockerfile, context=layer.context, labels=label_image(tag), trust=trust)
        try:
            made = engine.build(build, site.current(), on_progress, cancel)
        except BuildFailed as error:
            said = [line for line in error.tail if line.startswith("E:")] or list(error.tail[-3:]) or [str(error)]
            raise Unsupported(
                f"the debuggers gdb and py-spy cannot be installed in this image: {' '.join(said)}"
            ) from error
        if moved := moved_name(engine, [image], tag):
            raise ImageGone(moved)
        return made


SECONDS = 300.0
"""For all files of a trial; the first look into one of a gigabyte takes gdb half a minute."""
_MEMORY = 4 * 2**30
_MOST = 4 * 2**20
_WHERE = "/opt/reprokit/debug-files"


@functools.cache
def _source() -> str:
    return (Path(__file__).parent / "symbols_inside.py").read_text(encoding="utf-8")


class Symboliser:
    """Names of frames, for all trials of a run. Safe for threads."""

    def __init__(self, files: DebugFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._names: dict[tuple[str, int], tuple[Named, ...]] = {}
        self._unread: dict[str, str] = {}

    def rewrite(self, log: Path, engine: Engine, trial: Trial, cancel: threading.Event) -> None:
        """Put names into the stacks at the end of a log of ``trial``, whose image has debuggers.

        Raises Cancelled, EngineLost.
        """
        if not self._files.urls or b"\n[reprokit: module 0x" not in (data := log.read_bytes()):
            return
        text = data.decode("utf-8", "surrogateescape")
        modules = modules_to_name(text)
        with self._lock:
            missing = self._look_up(modules, engine, trial, cancel)
        changed = name_frames(text, self._names, missing)
        if changed != text:
            log.write_bytes(changed.encode("utf-8", "surrogateescape"))

    def _look_up(
        self, modules: Sequence[Module], engine: Engine, trial: Trial, cancel: threading.Event
    ) -> Mapping[str, str]:
        """Learn the names of frames; path -> why they are not known, for files that a server may have."""
        missing: dict[str, str] = {}
        found: dict[str, tuple[Path, list[int]]] = {}
        for module in modules:
            new = [offset for offset in module.offsets if (module.build_id, offset) not in self._names]
            try:
                if new:
                    place = self._files.get(module.build_id, cancel)
                    found.setdefault(module.build_id, (place, []))[1].extend(new)
            except NoDebugFile as error:
                if not error.absent:
                    missing[module.path] = str(error)
        asked = {build_id: entry for build_id, entry in found.items() if build_id not in self._unread}
        if asked:
            self._ask(asked, engine, trial, cancel)
        return missing | {one.path: self._unread[one.build_id] for one in modules if one.build_id in self._unread}

    def _ask(
        self, asked: Mapping[str, tuple[Path, list[int]]], engine: Engine, trial: Trial, cancel: threading.Event
    ) -> None:
        said = bytearray()
        order = list(asked)
        looks = replace(
            trial,
            command=("gdb", "-q", "-batch", "-nx", "-ex", 'python import os; exec(os.environ["REPROKIT_SOURCE"])'),
            env={
                "HOME": "/tmp",
                "REPROKIT_SOURCE": _source(),
                "REPROKIT_ASKED": json.dumps([[f"{_WHERE}/{one}/{FILE}", sorted(set(asked[one][1]))] for one in order]),
            },
            workdir="/",
            limits=replace(
                trial.limits,
                gpus=0,
                gpu_memory=None,
                gpu_model=None,
                memory=max(trial.limits.memory, _MEMORY) if trial.limits.memory else None,
                timeout=SECONDS,
                network="none",
                output="joined",
            ),
            mounts=tuple(Mount(source=asked[one][0], target=f"{_WHERE}/{one}") for one in order),
            files={},
            gpus=(),
            gpu_indices=(),
            traced=False,
            outputs=None,
        )

        def sink(data: bytes) -> None:
            said.extend(data[: _MOST - len(said)])

        try:
            ending = engine.run(looks, sink, cancel)
            why = "" if ending.exit_code == 0 else f"gdb ended with status {ending.exit_code}"
            why = "gdb took too long" if ending.timed_out else "gdb ran out of memory" if ending.oom else why
        except EngineLost:
            raise  # the trial is done again
        except (EngineError, Unsupported) as error:
            why = one_line(str(error), 200)
        self._take(order, said.decode("utf-8", "replace"), why)

    def _take(self, order: Sequence[str], said: str, why: str) -> None:
        ended = False
        for line in said.split("\n"):
            if not line.startswith("@"):
                continue
            try:
                number, offset, functions = json.loads(line[1:])
                if number < 0:
                    ended = True
                elif offset < 0:
                    self._unread[order[number]] = f"gdb cannot read its debug file: {one_line(functions, 200)}"
                else:
                    self._names[order[number], offset] = tuple(
                        Named(function=strip_parameters(function), file=file, line=line)
                        for function, file, line in functions
                    )
            except (ValueError, TypeError, AttributeError, LookupError):
                continue  # words of gdb itself, or a line that was cut off
        if not ended:
            for build_id in order:
                self._unread.setdefault(build_id, f"its debug file was not read: {why or 'gdb said nothing'}")
