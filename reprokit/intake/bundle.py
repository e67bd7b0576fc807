"""One recorded cell as an archive that lives on: its image, case, logs, environment, and a script that runs it.

The script needs Docker or Podman alone: neither reprokit, nor a registry, an index or a network.
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import shlex
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from reprokit.case.files import CaseFile
from reprokit.case.matrix import label
from reprokit.core.errors import EngineError, UsageError
from reprokit.core.version import __version__, install_line
from reprokit.engine.container_spec import docker_run_words
from reprokit.engine.protocol import Engine, Trial
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.formats import Scrub, scrub_run
from reprokit.run.lock_file import path_of
from reprokit.run.plan import task_of
from reprokit.run.request import BUNDLES, Request
from reprokit.run.task import Task
from reprokit.run.trials import trial_of
from reprokit.store.places import read_log

FORMAT = "reprokit-bundle/v1"
MOST_WINDOW = 30
"""What the layers of several cells have in common may be 2 ** 30 bytes apart in a .tar.zst; `zstd -d` reads 2 ** 27."""
FILES, DATA = "/@FILES@", "/@DATA-{}@"
"""Folders in the words of a command, until the script knows where they are."""


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """A bundle's content, but for its image. ``datasets``: those that a folder of the host was, which is not in it."""

    run: RunRecord
    cell: CellRecord
    file: CaseFile
    task: Task
    trial: Trial
    lock: str
    logs: Mapping[str, str]
    datasets: tuple[str, ...]
    architecture: str
    folder: str = ""  # in the archive
    config: str = ""  # the file of the image's configuration, by which others know it


def check_target(target: Path | str) -> None:
    """Raise UsageError for a file, or an object of a bucket, of a kind that cannot be written here."""
    if not str(target).endswith(BUNDLES):
        raise UsageError(f"{target}: expected a name that ends in {', '.join(BUNDLES)}")
    if str(target).endswith(".tar.zst"):
        zstd()


def write(
    engine: Engine,
    cells: Sequence[tuple[RunRecord, CellRecord, CaseFile]],
    *,
    store: Path,
    target: Path,
    name: str,
    scrub: Scrub,
    cancel: threading.Event,
) -> list[Bundled]:
    """Write the bundle of cells of runs, whole or not at all, each layer once. ``name``: of the folder of several.

    Raises UsageError, Unsupported, EngineError.
    """
    check_target(target)
    info = engine.info()
    for run, cell, _ in cells:
        if cell.image is None:
            raise UsageError(f"cell {cell.number} of run {run.id} has no image: it is {cell.verdict}: {cell.reason}")
        case = f"reprokit run {shlex.quote(cell.case_path)}"
        if info.capabilities.images and engine.image(cell.image.id) is None:
            raise UsageError(f"{info} has the image of cell {cell.number} of run {run.id} no more: {case} builds it")
    several, made = len(cells) > 1, list[Bundled]()
    root = name if several else cells[0][2].case.id
    with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=f".{target.name}.") as folder:
        scratch = Path(folder)
        images = dict.fromkeys(cell.image.id for _, cell, _ in cells if cell.image)
        names = {one: f"docker.io/reprokit/bundle:{one.removeprefix('sha256:')[:20]}" for one in images}
        configs = _save(engine, names, scratch, cancel)
        with _archive(scratch / "bundle", target, MOST_WINDOW if several else 27) as archive:
            for run, cell, file in cells:
                image = cell.image.id if cell.image else ""
                one = _gather_content(run, cell, file, store, names[image], info.architecture)
                place = f"{root}/cells/{file.case.id}-{cell.number}" if several else root
                made.append(replace(one, folder=place, config=configs[image]))
                for path, (text, mode) in _members(made[-1], scrub).items():
                    add(archive, f"{made[-1].folder}/{path}", text.encode(), mode)
            with (scratch / "image.tar").open("rb") as stream:
                add(archive, f"{root}/image.tar", stream)
        (scratch / "bundle").replace(target)
    return made


def _save(engine: Engine, names: Mapping[str, str], scratch: Path, cancel: threading.Event) -> dict[str, str]:
    """Write images, with their new names, as one archive ``image.tar`` that has each layer once; their configs."""
    entries, known = list[dict[str, Any]](), set[str]()
    with tarfile.open(scratch / "image.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        for image, name in names.items():
            engine.save(image, scratch / "saved.tar", cancel)
            entries.append(canonical(scratch / "saved.tar", archive, name, known))
            (scratch / "saved.tar").unlink()
        add(archive, "manifest.json", json.dumps(entries).encode())
    return {image: entry["Config"] for image, entry in zip(names, entries, strict=True)}


def _gather_content(
    run: RunRecord, cell: CellRecord, file: CaseFile, store: Path, image: str, architecture: str
) -> Bundled:
    case = file.fixed if cell.variant == "fix" and file.fixed else file.case
    task = task_of(1, file, case, cell.variant, dict(cell.cell), Request(cases=()), {})
    work = PurePosixPath(task.spec.workdir)
    # The line that repeats a trial says what was mounted.
    given = tuple(name for name, one in task.spec.datasets.items() if f"target={work / one.path}," in cell.repeat)
    task = replace(task, datasets={name: Path(DATA.format(number)) for number, name in enumerate(given)})
    return Bundled(
        run=run,
        cell=cell,
        file=file,
        task=task,
        trial=trial_of(task, image, run.id),
        lock=_lock(cell, file),
        logs={f"logs/trial-{one.number}.log": _log(store, one.log) for one in cell.trials},
        datasets=given,
        architecture=architecture,
    )


def _lock(cell: CellRecord, file: CaseFile) -> str:
    """The lock beside the case's file, where there is one and the file still holds this case."""
    try:
        beside = path_of(cell.case_path, cell.case_id)
        return beside.read_text(encoding="utf-8") if file.text == Path(cell.case_path).read_text("utf-8") else ""
    except (OSError, UnicodeDecodeError, UsageError):
        return ""


def _log(store: Path, log: str) -> str:
    try:
        return read_log(store, log).decode("utf-8", "replace")
    except FileNotFoundError:
        return "the log was removed\n"


def _members(made: Bundled, scrub: Scrub) -> dict[str, tuple[str, int]]:
    """Text and permissions of each file of the bundle; what was recorded is scrubbed, the case is as it is."""
    cell, case = made.cell, made.file
    record = scrub_run(replace(made.run, cells=(cell,)), scrub).cells[0]
    about: dict[str, Any] = {
        "format": FORMAT,
        "reprokit_version": __version__,
        "case": {"id": case.case.id, "digest": case.digest},
        "cell": dict(cell.cell),
        "variant": cell.variant,
        "verdict": cell.verdict and cell.verdict.value,
        "reason": record.reason,
        "image": {
            "name": made.trial.image,
            "id": cell.image and cell.image.id,
            "config": made.config,
            "architecture": made.architecture,
        },
        "datasets": list(made.datasets),
        "gpus": made.task.spec.limits.gpus,
        "engine": record.details.engine,
    }
    texts = {
        "bundle.json": (json.dumps(about, indent=2, ensure_ascii=False) + "\n", 0o644),
        "README.md": (_readme(made, record), 0o644),
        "run.sh": (_script(made, record), 0o755),
        "case.yaml": (case.text, 0o644),
        "Dockerfile": (record.dockerfile, 0o644),
        "environment.json": (
            json.dumps(record.environment and record.environment.to_json(), indent=2, ensure_ascii=False) + "\n",
            0o644,
        ),
    }
    if made.lock:
        texts["case.lock.yaml"] = (made.lock, 0o644)
    texts |= {path: (scrub(text), 0o644) for path, text in made.logs.items()}
    return texts | {f"files/{path}": (one.text, one.permissions) for path, one in made.trial.files.items()}


def _readme(made: Bundled, record: CellRecord) -> str:
    missing = [f"- The data of {name}: give its folder as `DATA_{_variable(name)}`." for name in made.datasets]
    if gpus := made.task.spec.limits.gpus:
        missing.append(f"- {gpus} GPU(s), their driver, and the NVIDIA container toolkit.")
    return f"""\
# {" ".join(made.file.case.title.split())}

The cell `{label(record.cell)}`{" with its fix" if record.variant == "fix" else ""}: **{record.verdict}**.

    {" ".join(record.reason.split())}

`sh run.sh` runs it again. It needs Docker or Podman, an {made.architecture} machine, and no network.
`logs/` has what it printed when it was recorded, `case.yaml` which failure counts, `environment.json` what was measured
in the image.

What is not in this bundle:

{chr(10).join(missing) or "- Nothing that it needs."}

Private things were removed from the logs and the environment; the image and the case are as they are. The case takes
at most {made.task.spec.limits.timeout:g} seconds; `run.sh` sets no time limit.
"""


def _script(made: Bundled, record: CellRecord) -> str:
    words = docker_run_words(made.trial, Path(FILES))[2:]
    if gpus := made.task.spec.limits.gpus:
        words.insert(0, f"--gpus={gpus}")
    image = "../" * made.folder.count("/") + "image.tar"
    recorded = f"recorded: {record.verdict}: {' '.join(record.reason.split())}"
    return f"""\
#!/bin/sh
# Runs this cell in Docker or Podman, whichever answers: sh run.sh [docker|podman]
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
program=${{1:-}}
if [ -z "$program" ]; then
    for program in docker podman none; do
        if [ "$program" = none ] || "$program" info > /dev/null 2>&1; then break; fi
    done
fi
if [ "$program" = none ]; then
    echo "neither docker nor podman answers: install one of them, or start it" >&2
    exit 125
fi
"$program" image inspect {made.trial.image} > /dev/null 2>&1 || "$program" load -i "$here/{image}" >&2
echo {shlex.quote(recorded)} >&2
set --
if [ "$program" = podman ] && [ -r /proc/self/limits ]; then
    # Podman asks for more than some hosts grant, and its service has no more than this.
    set -- $(awk '/^Max open files/ {{ print "--ulimit=nofile=" ($5 < 1048576 ? $5 : 1048576) }}
        /^Max processes/ {{ print "--ulimit=nproc=" ($4 < 32768 ? $4 : 32768) }}' /proc/self/limits)
fi
exec "$program" run "$@" {" ".join(_quote(word, made.datasets) for word in words)}
"""


def _quote(word: str, datasets: Sequence[str]) -> str:
    """A word for the script, with the folders that only it knows."""
    known = {FILES: '"$here/files"'}
    for number, name in enumerate(datasets):
        variable = f"DATA_{_variable(name)}"
        known[DATA.format(number)] = f'"${{{variable}:?give the folder of the data set {_variable(name)}}}"'
    for marker, place in known.items():
        before, found, after = word.partition(f"source={marker}")
        if found:
            return f"{shlex.quote(before + 'source=')}{place}{shlex.quote(after)}"
    return shlex.quote(word)


def _variable(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


def canonical(saved: Path, archive: tarfile.TarFile, name: str, known: set[str]) -> dict[str, Any]:
    """Add a saved image, without what ``known`` has of it; its entry in the manifest, with that name and no other.

    How engines write one differs, and what they name. Raises EngineError.
    """
    try:
        with tarfile.open(saved) as source:
            [entry] = json.loads(_read(source, "manifest.json"))
            config = _read(source, entry["Config"])
            identity = PurePosixPath(entry["Config"]).name.removesuffix(".json")
            digests = json.loads(config)["rootfs"]["diff_ids"]
            layers = {
                f"{digest.removeprefix('sha256:')}.tar": layer
                for digest, layer in zip(digests, entry["Layers"], strict=True)
            }
            names = [f"{digest.removeprefix('sha256:')}.tar" for digest in digests]
            add(archive, f"{identity}.json", config)
            for path, layer in layers.items():
                if path in known:
                    continue
                known.add(path)
                stream = source.extractfile(layer)
                assert stream is not None, layer
                # containerd's image store, Docker's since 29.0, gives out layers as it keeps them.
                packed = stream.read(2) == b"\x1f\x8b"
                stream.seek(0)
                add(archive, path, cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if packed else stream)
            return {"Config": f"{identity}.json", "RepoTags": [name], "Layers": names}
    except (tarfile.TarError, KeyError, TypeError, ValueError, AssertionError) as error:
        raise EngineError(f"what the engine saved is not an image as `docker save` writes it: {error}") from error


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    if stream is None:
        raise KeyError(name)
    return stream.read()


def add(archive: tarfile.TarFile, path: str, content: bytes | IO[bytes], mode: int = 0o644) -> None:
    """Add a file without the user and the time of this host."""
    info = tarfile.TarInfo(path)
    stream = io.BytesIO(content) if isinstance(content, bytes) else content
    info.size, info.mode = stream.seek(0, io.SEEK_END), mode
    stream.seek(0)
    archive.addfile(info, stream)


def zstd() -> Any:
    """Python's module of Zstandard, or what stands in for it before 3.14. Raises UsageError without one."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(f"{name} is not installed, which .tar.zst needs: {install_line('zstd')}") from None


@contextmanager
def _archive(path: Path, target: Path, window: int) -> Iterator[tarfile.TarFile]:
    """A new archive at ``path``, compressed as the name of ``target`` says, within 2 ** ``window`` bytes of memory."""
    with path.open("wb") as raw:
        if target.name.endswith(".tar.zst"):
            level = zstd().CompressionParameter
            options = {level.compression_level: 9, level.window_log: window, level.enable_long_distance_matching: 1}
            stream = zstd().ZstdFile(raw, "w", options=options)
        else:
            stream = raw if target.name.endswith(".tar") else gzip.GzipFile("", "wb", 6, raw, mtime=0)
        with stream, tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
            yield archive
