"""reprokit's own configuration: what this host, user or project decides, outside every case. Each key is one field.

Weakest first: the defaults; the user's file, ``$XDG_CONFIG_HOME/reprokit/reprokit.toml`` (``~/.config`` by default);
the project's, ``reprokit.toml`` of the nearest folder upwards that has one; environment variables ``REPROKIT_<KEY>``.
``REPROKIT_CONFIG`` names one file that is read instead of the two.
"""

# A second implementation. Library: pydantic-settings. Why not: its errors name no line of the file, and every command
# would wait for its import. Owner: engine.

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from reprokit.core import files
from reprokit.core.errors import UsageError
from reprokit.core.home import home, is_file
from reprokit.core.near_match import near
from reprokit.core.owned import other_owner
from reprokit.engine import kinds
from reprokit.engine.site import keys
from reprokit.environment.supply import GCC_PROVIDERS, PYTHON_PROVIDERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "reprokit.toml"
_TRUSTED = "trusted-projects"
"""Beside the user's file: a digest for each project's file that the user trusts, as it was then."""
LARGEST = 1 << 20
"""Bytes of a file of settings."""
MOST_DIGESTED = 8 << 20
"""Bytes of a file up to which it is known by what is in it."""
OTHER_VARIABLES = ("REPROKIT_CONFIG", "REPROKIT_DATABASE")
"""Variables of ours that are not keys."""


@dataclass(frozen=True, kw_only=True)
class SettingKey:
    """What is known of a key beside its type and default."""

    read: keys.ReadValue
    harmless: bool
    """Whether a project's file, which comes with a checkout, may set it before the user trusts that file."""
    unset: str = "-"
    """What ``reprokit config`` shows where it has no value."""
    unit: Literal["", "bytes", "seconds"] = ""
    merged: bool = False
    """Whether its names in several places count together; of any other key the strongest place counts."""


def guard(read: keys.ReadValue, **more: Any) -> Mapping[str, SettingKey]:
    """The metadata of a key by which a project's file could reach what is the user's: asked about first."""
    return {"setting": SettingKey(read=read, harmless=False, **more)}


def allow(read: keys.ReadValue, **more: Any) -> Mapping[str, SettingKey]:
    """The metadata of a key that may come with a checkout: no value reaches files, hosts, credentials or limits."""
    return {"setting": SettingKey(read=read, harmless=True, **more)}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The values of all keys. The text below a field is its row in the table of ``docs/sites.md``."""

    engine: str = field(default="auto", metadata=guard(keys.one_of(*kinds.CHOICES)))
    """`auto`, `docker`, `podman` or `venv`."""
    base_images: str = field(default="auto", metadata=allow(keys.one_of("auto", "registry", "bootstrap")))
    """`auto`, `registry` or `bootstrap` (made on this host from the distribution's packages): where base images come
    from; `auto` asks the registry first.
    """
    confirm: str = field(default="auto", metadata=allow(keys.one_of("auto", "always", "exact", "never")))
    """`auto`, `always`, `exact` or `never`: whether `run` repeats cells until their trials carry what it says
    ([How strong a statement is](verdicts.md#how-strong-a-statement-is)).
    """
    registry: str = field(default="", metadata=guard(keys.read_text))
    """the registry or mirror to use instead of Docker Hub."""
    registry_images: str = field(
        default="", metadata=guard(keys.read_image_registry, unset="none: images are not shared")
    )
    """the registry through which machines [share built images](share-images.md): host and path."""
    registry_push: str = field(default="trusted", metadata=guard(keys.one_of("trusted", "all", "never")))
    """`trusted` (not those of untrusted cases), `all` or `never`: whose images are shared so."""
    apt_mirror: str = field(default="", metadata=guard(keys.read_url))
    """address of a Debian mirror."""
    apt_snapshot: str = field(default="", metadata=guard(keys.read_snapshot, unset="the distribution's own"))
    """address of a snapshot archive, with `{date}` in it."""
    pip_index_url: str = field(default="", metadata=guard(keys.read_index, unset="as the host's pip"))
    """the package index, instead of that of the host's pip."""
    pip_extra_index_urls: tuple[str, ...] = field(
        default=(), metadata=guard(keys.list_of(keys.read_index), unset="as the host's pip")
    )
    """further package indexes, instead of those of the host's pip."""
    build_hosts: tuple[str, ...] = field(
        default=(), metadata=guard(keys.list_of(keys.read_host), unset="none besides indexes and archives")
    )
    """hosts (`git.corp.example`, `10.1.2.3:8443`) that every build may reach; of this host and of private networks,
    builds reach no other address but the indexes and archives named here.
    """
    debuginfod: tuple[str, ...] = field(
        default=(), metadata=guard(keys.list_of(keys.read_web_address), unset="those of $DEBUGINFOD_URLS")
    )
    """servers of debug files, which [name frames without symbols](crashes.md#symbols-from-a-debuginfod-server); without
    it, those of `DEBUGINFOD_URLS`; `"none"`: no server.
    """
    proxy: str = field(default="", metadata=guard(keys.read_url))
    """proxy of builds, for http and https."""
    ca_bundle: Path | None = field(default=None, metadata=guard(keys.read_file))
    """PEM file of the certificate authorities that builds trust."""
    python_providers: tuple[str, ...] = field(default=PYTHON_PROVIDERS, metadata=allow(keys.ordered(*PYTHON_PROVIDERS)))
    """sources of interpreters, in this order."""
    gcc_providers: tuple[str, ...] = field(default=GCC_PROVIDERS, metadata=allow(keys.ordered(*GCC_PROVIDERS)))
    """sources of compilers, in this order."""
    uv_python_mirror: str = field(default="", metadata=guard(keys.read_url))
    """address that uv's interpreters are read from."""
    uv_python_downloads: str = field(default="", metadata=guard(keys.read_place))
    """path or address of a JSON listing of them."""
    conda_channel: str = field(default="", metadata=guard(keys.read_url, unset="conda-forge"))
    """address of a conda channel, which serves [CUDA and cuDNN](engines.md#where-python-gcc-cuda-and-cudnn-come-from),
    too.
    """
    compatibility: Path | None = field(default=None, metadata=guard(keys.read_file))
    """a file whose rows take precedence over the compatibility data of reprokit, such as `cmake: {wheels: [3.31.6,
    4.4.9]}`; its tables are the files of `reprokit/environment/data/`.
    """
    datasets: Mapping[str, Path] = field(default_factory=dict, metadata=guard(keys.read_folders, merged=True))
    """names of data sets, each with a folder of this host."""
    sources: Mapping[str, Path] = field(default_factory=dict, metadata=guard(keys.read_folders, merged=True))
    """names of sources, each with a folder of this host."""
    host_packages: Mapping[str, Path] = field(default_factory=dict, metadata=guard(keys.read_folders, merged=True))
    """packages that cells of `--engine venv` take from a Python environment of this host: `{torch = "/opt/torch/venv"}`
    ([Packages of the host](engines.md#packages-of-the-host)).
    """
    gpus: tuple[str, ...] = field(default=(), metadata=guard(keys.read_gpus, unset="all"))
    """GPUs that may be leased, by index or UUID; `"none"`: no GPU."""
    gpu_leases: Path | None = field(default=None, metadata=guard(keys.read_path))
    """the folder of the leases."""
    gpu_others: str = field(default="share", metadata=guard(keys.one_of("share", "wait", "refuse")))
    """`share` (the default), `wait` or `refuse`: what to do with a GPU on which another program computes
    ([GPUs](gpus.md#how-gpus-are-shared)).
    """
    jobs: int | None = field(default=None, metadata=allow(keys.in_unit("positive"), unset="the number of CPUs"))
    """the number of builds, and of trials, at the same time."""
    max_memory: int | None = field(default=None, metadata=guard(keys.in_unit("memory"), unit="bytes"))
    """the most memory of a trial on this host ([Limits](sites.md#limits))."""
    max_cpus: float | None = field(default=None, metadata=guard(keys.in_unit("cores")))
    """the most cores of a trial."""
    max_timeout: float | None = field(default=None, metadata=guard(keys.in_unit("duration"), unit="seconds"))
    """the most time of a trial."""
    max_pids: int | None = field(default=None, metadata=guard(keys.in_unit("pids")))
    """the most processes of a trial."""
    max_disk: int | None = field(default=20 * 1024**3, metadata=guard(keys.in_unit("size"), unit="bytes"))
    """the most that a trial writes to the disk, `"20G"` by default."""
    max_build_time: float | None = field(default=7200.0, metadata=guard(keys.in_unit("duration"), unit="seconds"))
    """the most time for one build, `"2h"` by default."""
    max_run_time: float | None = field(default=None, metadata=guard(keys.in_unit("duration"), unit="seconds"))
    """the most time for all trials of a case together, at their limits."""
    max_fetch_size: int = field(default=20 * 1024**3, metadata=guard(keys.in_unit("size"), unit="bytes"))
    """the most bytes of a source, a bundle, a data set or an export of a store, `"20G"` by default."""
    max_fetch_entries: int = field(default=1_000_000, metadata=guard(keys.in_unit("positive")))
    """the most files and folders of a source or an export, 1,000,000 by default."""
    max_fetch_time: float = field(default=900.0, metadata=guard(keys.in_unit("duration"), unit="seconds"))
    """the most time for one step of git, `"15m"` by default."""
    runtime: str = field(default="", metadata=guard(keys.read_runtime, unset="the engine's default"))
    """the engine's runtime in which trials run, such as `runsc` (gVisor); the engine's default where it is not set
    ([gVisor](engines.md#trials-in-gvisor)).
    """
    engine_wait: float | None = field(
        default=None, metadata=guard(keys.in_unit("duration"), unset="60 s", unit="seconds")
    )
    """how long a run waits for an engine that went away, such as `5m`; 60 seconds by default."""
    budget: int | None = field(default=None, metadata=guard(keys.in_unit("size"), unit="bytes"))
    """the most that reprokit keeps on the disk, such as `"20G"` ([Disk space](run-cases.md#disk-space))."""
    store: Path | str | None = field(default=None, metadata=guard(keys.read_store, unset=".reprokit of the project"))
    """the folder of recorded runs, or the address of [a team's database](store.md#one-store-for-a-team)."""
    files: str = field(default="", metadata=guard(keys.read_log_place, unset="the host that ran them"))
    """where the logs of a team's store go: `file:///FOLDER` or `s3://BUCKET/PREFIX`."""
    reader: str = field(default="", metadata=guard(keys.read_command))
    """a program that states the facts of bug reports for [`new --from`](draft-a-case.md), such as `llm -m qwen3`."""
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Key that is set, ``datasets.NAME`` for one of several -> ``FILE:LINE`` or the name of a variable."""

    def store_folder(self, start: Path | None = None) -> Path:
        """The folder of the store: as configured, or the project's that ``start`` is in. Raises UsageError.

        Of a store on a server, the folder that has this host's part of it.
        """
        from reprokit.store import folder, remote  # late: most commands that read settings ask for no store

        if isinstance(self.store, str):
            return remote.folder_of(self.store, self.files)
        return self.store or folder.find_folder(start)


KEYS: Mapping[str, SettingKey] = {one.name: one.metadata["setting"] for one in fields(Settings) if one.metadata}
"""All keys, in the order of the documentation."""
HARMLESS = tuple(key for key, setting in KEYS.items() if setting.harmless)


def load(environ: Mapping[str, str] | None = None, start: Path | None = None) -> Settings:
    """The settings in force for a process in folder ``start`` (default: the current one).

    Raises UsageError, naming file and line or the variable, for what cannot be understood.
    """
    environ = os.environ if environ is None else environ
    start = (start or Path.cwd()).absolute()
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key, value, origin in _found(environ, start):
        if KEYS[key].merged:
            values[key] = {**values.get(key, {}), **value}
            origins |= {f"{key}.{name}": origin for name in value}
        else:
            values[key], origins[key] = value, origin
    return Settings(**values, origins=origins)


def config_files(environ: Mapping[str, str], start: Path) -> list[Path]:
    """The files to read, weakest first.

    Raises UsageError when REPROKIT_CONFIG names none, and for a file of another user, which is obeyed only where
    REPROKIT_CONFIG names it.
    """
    if named := environ.get("REPROKIT_CONFIG"):
        path = Path(named).expanduser()
        if not path.exists() or path.is_dir():  # /dev/null is a configuration without keys
            raise UsageError(f"REPROKIT_CONFIG names {path}, which is not a file")
        return [path]
    project = [folder / FILE for folder in (start, *start.parents) if is_file(folder / FILE)][:1]
    found = [path for path in dict.fromkeys((_users_file(environ), *project)) if is_file(path)]
    for path in found:
        if owner := other_owner(path, environ):
            raise UsageError(
                f"{path} belongs to {owner}, and its settings decide what runs here as you: read it, then obey it with "
                f"REPROKIT_CONFIG={path}, or use none with REPROKIT_CONFIG={os.devnull}"
            )
    return found


def trust_project(environ: Mapping[str, str], start: Path) -> Path:
    """Obey the project's file from now on, as it is now; that file. Raises UsageError where there is none."""
    found = [path for path in config_files(environ, start) if path != _users_file(environ)]
    if environ.get("REPROKIT_CONFIG") or not found:
        raise UsageError(f"no {FILE} in {start} or above it that has to be trusted")
    known = {*_trusted_digests(environ), *_digests(found[0], *_read(found[0]))}
    files.write(_users_file(environ).with_name(_TRUSTED), "".join(f"{one}\n" for one in sorted(known)))
    return found[0]


def _digests(path: Path, text: str, tables: Mapping[str, Any]) -> Iterator[str]:
    """Of the text, and of the files that its keys name: a later checkout may change these, or where a link leads.

    Over the path, too: relative folders are others elsewhere. What a text names is not read before it is trusted.
    """
    found = hashlib.sha256(f"{path.resolve()}\0{text}".encode())
    yield found.hexdigest()
    for key in sorted(tables.keys() & KEYS.keys()):
        with contextlib.suppress(ValueError, OSError):
            value = KEYS[key].read(tables[key], path.absolute().parent)
            found.update(repr(value).encode())
            for one in filter(Path.is_file, keys.paths_in(value)):
                found.update(_identity(one))
    yield found.hexdigest()


def _identity(path: Path) -> bytes:
    """Of a file: its digest; of a large one, since every command asks, when it changed, which no one can set."""
    seen = path.stat()
    if seen.st_size > MOST_DIGESTED:
        return repr((seen.st_dev, seen.st_ino, seen.st_size, seen.st_ctime_ns)).encode()
    return hashlib.sha256(path.read_bytes()).digest()


def _trusted_digests(environ: Mapping[str, str]) -> frozenset[str]:
    try:
        return frozenset(_users_file(environ).with_name(_TRUSTED).read_text("utf-8").split())
    except (OSError, UnicodeDecodeError):
        return frozenset()


def _users_file(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or home(environ) / ".config") / "reprokit" / FILE


def variable(key: str) -> str:
    """The environment variable of a key."""
    return f"REPROKIT_{key.upper()}"


def unknown_variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Variables that look like ours and are not, each with a sentence that says so. Our own tests have some."""
    known = [*map(variable, KEYS), *OTHER_VARIABLES]
    found = sorted(name for name in environ if re.match("REPROKIT_(?!TEST_)", name) and name not in known)
    return [(name, f"the variable {name} is not known{near(name, known, prefix='; ')}") for name in found]


def _found(environ: Mapping[str, str], start: Path) -> Iterator[tuple[str, Any, str]]:
    """Each key that is set somewhere, with its value and origin; the strongest last."""
    known = _trusted_digests(environ)
    for path in config_files(environ, start):
        text, tables = _read(path)
        users = environ.get("REPROKIT_CONFIG") or path == _users_file(environ)
        trusted = users or all(one in known for one in _digests(path, text, tables))
        for key, value in tables.items():
            where = f"{path}:{line_of(text, key)}"
            if key not in KEYS:
                hint = near(key, KEYS) or f"known keys: {', '.join(KEYS)}"
                raise UsageError(f"{where}: unknown key {key!r} ({hint})")
            if not (KEYS[key].harmless or trusted):
                raise UsageError(
                    f"{where}: {key}: {path} comes with its folder, and only {', '.join(HARMLESS)} are read from it "
                    f"before you trust it: read it, then `reprokit config trust` (once for this text and "
                    f"the files that it names; on CI: REPROKIT_CONFIG={path}); or set {variable(key)}"
                )
            yield from _parsed(key, value, path.absolute().parent, where, text)
    for key in KEYS:
        # As for REPROKIT_CONFIG, a variable that is empty is not set: CI systems leave those for absent secrets.
        if given := environ.get(variable(key), "").strip():
            yield from _parsed(key, given, start, variable(key), "")


def _parsed(key: str, value: Any, base: Path, where: str, text: str) -> Iterator[tuple[str, Any, str]]:
    file, setting = where.rpartition(":")[0], KEYS[key]
    if setting.merged and text and isinstance(value, Mapping):
        for name in value:
            if name in KEYS:  # TOML's trap: what stands below a table's name belongs to the table
                raise UsageError(f"{file}:{line_of(text, key, name)}: {name} is a key of its own: put it above [{key}]")
    try:
        parsed = setting.read(value, base)
    except ValueError as error:
        raise UsageError(f"{where}: {key}: expected {error}; found {_shown(value)}") from None
    if setting.merged and text:
        for name, folder in parsed.items():
            yield key, {name: folder}, f"{file}:{line_of(text, key, name)}"
    else:
        yield key, parsed, where


def _shown(value: Any) -> str:
    from reprokit.core.redaction import without_passwords

    return without_passwords(repr(value))


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        with path.open("rb") as stream:  # of REPROKIT_CONFIG it may be a pipe
            data = stream.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UsageError(f"{path}: is larger than {LARGEST} bytes, which no configuration is")
        text = data.decode("utf-8")
        return text, tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except RecursionError:
        raise UsageError(f"{path}: its values are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        place = re.fullmatch(r"(?P<what>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)", str(error))
        if place is None:
            raise UsageError(f"{path}: is not TOML: {error}") from error
        raise UsageError(f"{path}:{place['line']}:{place['column']}: is not TOML: {place['what']}") from error
    except ValueError as error:  # such as a number of thousands of digits
        raise UsageError(f"{path}: cannot be read: {error}") from error


def line_of(text: str, key: str, name: str = "") -> int:
    """The line, from 1, that sets ``key`` of a TOML text, or ``name`` below it. The parser tells no lines."""
    start = 1
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[\].=]""", line):
            start = number
            break
    if name:
        for number, line in enumerate(text.splitlines()[start - 1 :], start):
            if re.search(rf"""(?:^|[\s{{,.])["']?{re.escape(name)}["']?\s*=""", line):
                return number
    return start
