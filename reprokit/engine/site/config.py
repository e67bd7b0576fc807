"""reprokit's own configuration: what this host, user or project decides, outside every case.

Weakest first: the defaults; the user's file, ``$XDG_CONFIG_HOME/reprokit/reprokit.toml`` (``~/.config`` by default);
the project's, ``reprokit.toml`` of the nearest folder upwards that has one; environment variables ``REPROKIT_<KEY>``.
Options of the command line, where there are any, win over all of it. ``REPROKIT_CONFIG`` names one file that is read
instead of the two; a file of another user is read only so. ``datasets`` and ``sources`` are merged by name; for any
other key the strongest place counts.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from reprokit.core.errors import UsageError
from reprokit.core.home import home, is_file
from reprokit.core.near_match import near
from reprokit.core.owned import other_owner
from reprokit.engine.site.keys import GCC_PROVIDERS, PARSERS, PYTHON_PROVIDERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "reprokit.toml"
OLD_FILES = (Path(".reprokit", "config.yaml"), Path("reprokit", "config.yaml"))
"""Where a project's and a user's configuration was before it became TOML."""

MERGED = ("datasets", "sources", "host_packages")
USERS_OWN = ("reader",)
"""Keys that name a program that runs as the user: a project's file, which comes with a checkout, may not set them."""
OTHER_VARIABLES = ("REPROKIT_CONFIG", "REPROKIT_DATABASE")
"""Variables of ours that are not keys."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The keys of the configuration, and ``origins``: where each that is set comes from.

    ``engine``: auto | docker | podman | venv. ``base_images``: where base images come from ("auto": the registry if
    one answers, else made on this host). ``confirm``: auto | always | never, what ``--confirm`` is where it is not
    given. ``registry``: prefix or mirror put before the names of base images.
    ``registry_images``: host and path of the registry through which machines share built images, '' = none.
    ``registry_push``: whose images go there and come from there: trusted (not those of untrusted cases) | all | never
    (images are fetched, as with trusted, and none is pushed).
    ``apt_mirror``: URL of a Debian mirror. ``apt_snapshot``: URL of a snapshot archive with ``{date}`` in it, '' = the
    distribution's own. ``pip_index_url``, ``pip_extra_index_urls``: instead of those of the host's pip.
    ``build_hosts``: HOST or HOST:PORT that every build may reach, wherever they are. ``debuginfod``: URLs of servers
    of debug files, () = those of $DEBUGINFOD_URLS, ("none",) = none. ``proxy``: URL for http and https during builds.
    ``ca_bundle``: PEM file of the authorities to trust during builds.

    ``python_providers``, ``gcc_providers``: where interpreters and compilers may come from, in this order.
    ``uv_python_mirror``: URL that uv's interpreters are read from. ``uv_python_downloads``: path or URL of a JSON
    listing of them. ``conda_channel``: URL of a conda channel, '' = conda-forge. ``compatibility``: file whose
    rows win over the compatibility data of reprokit. ``datasets`` and ``sources``: name -> folder of this host.
    ``host_packages``: package -> Python environment of this host that it comes from in the engine venv.

    ``gpus``: indices or UUIDs that may be leased, () = all, ("none",) = none. ``gpu_leases``: folder of the leases.
    ``gpu_others``: what to do with a GPU on which a program computes that no run of reprokit started: share | wait |
    refuse.
    ``jobs``: builds, and trials, at a time. ``max_memory`` (bytes), ``max_cpus`` (cores), ``max_timeout`` (seconds):
    the most that a trial gets on this host. So are ``max_pids``, ``max_disk`` (bytes that it writes),
    ``max_build_time`` (seconds of one image) and ``max_run_time`` (seconds of all trials of a case, at their limits).
    ``runtime``: name of the engine's runtime in which trials run, such as runsc (gVisor); '' = the engine's default.
    ``budget`` (bytes): the most that reprokit keeps on the disk. ``engine_wait``: seconds for which a run waits for an
    engine that went away. ``store``: folder of the recorded runs, or the address of their database. ``files``: address
    of the place for the logs of a store on a server, '' = the host that ran them.
    ``reader``: the command of a program that states the facts of a bug report, '' = none. None = not set.

    ``origins``: key (``datasets.NAME`` for one of several) -> ``FILE:LINE`` or the name of an environment variable.
    """

    engine: str = "auto"
    base_images: str = "auto"
    confirm: str = "auto"
    registry: str = ""
    registry_images: str = ""
    registry_push: str = "trusted"
    apt_mirror: str = ""
    apt_snapshot: str = ""
    pip_index_url: str = ""
    pip_extra_index_urls: tuple[str, ...] = ()
    build_hosts: tuple[str, ...] = ()
    debuginfod: tuple[str, ...] = ()
    proxy: str = ""
    ca_bundle: Path | None = None
    python_providers: tuple[str, ...] = PYTHON_PROVIDERS
    gcc_providers: tuple[str, ...] = GCC_PROVIDERS
    uv_python_mirror: str = ""
    uv_python_downloads: str = ""
    conda_channel: str = ""
    compatibility: Path | None = None
    datasets: Mapping[str, Path] = field(default_factory=dict)
    sources: Mapping[str, Path] = field(default_factory=dict)
    host_packages: Mapping[str, Path] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    gpu_leases: Path | None = None
    gpu_others: str = "share"
    jobs: int | None = None
    max_memory: int | None = None
    max_cpus: float | None = None
    max_timeout: float | None = None
    max_pids: int | None = None
    max_disk: int | None = 20 * 1024**3
    max_build_time: float | None = 7200.0
    max_run_time: float | None = None
    runtime: str = ""
    engine_wait: float | None = None
    budget: int | None = None
    store: Path | str | None = None
    files: str = ""
    reader: str = ""
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def store_folder(self, start: Path | None = None) -> Path:
        """The folder of the store: as configured, or the project's that ``start`` is in. Raises UsageError.

        Of a store on a server, the folder that has this host's part of it.
        """
        from reprokit.store import folder, remote  # late: most commands that read settings ask for no store

        if isinstance(self.store, str):
            return remote.folder_of(self.store, self.files)
        return self.store or folder.find_folder(start)


KEYS = tuple(key.name for key in fields(Settings) if key.name != "origins")


def load(environ: Mapping[str, str] | None = None, start: Path | None = None) -> Settings:
    """The settings in force for a process in folder ``start`` (default: the current one).

    Raises UsageError, naming file and line or the variable, for what cannot be understood.
    """
    environ = os.environ if environ is None else environ
    start = (start or Path.cwd()).absolute()
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key, value, origin in _found(environ, start):
        if key in MERGED:
            values[key] = {**values.get(key, {}), **value}
            origins |= {f"{key}.{name}": origin for name in value}
        else:
            values[key], origins[key] = value, origin
    return Settings(**values, origins=origins)


def config_files(environ: Mapping[str, str], start: Path) -> list[Path]:
    """The files to read, weakest first.

    Raises UsageError when REPROKIT_CONFIG names none, when a file of the former form is found, and for a file of
    another user, which is obeyed only where REPROKIT_CONFIG names it.
    """
    if named := environ.get("REPROKIT_CONFIG"):
        path = Path(named).expanduser()
        if not path.exists() or path.is_dir():  # /dev/null is a configuration without keys
            raise UsageError(f"REPROKIT_CONFIG names {path}, which is not a file")
        return [path]
    user = _users_file(environ)
    own = user.parent.parent
    above = (start, *start.parents)
    for old, new in ((own / OLD_FILES[1], user), *((folder / OLD_FILES[0], folder / FILE) for folder in above)):
        if is_file(old) and not other_owner(old, environ):
            raise UsageError(f'{old} is no longer read: move its keys to {new} (KEY = "VALUE"), and remove it')
    found = [user, *[folder / FILE for folder in above if is_file(folder / FILE)][:1]]
    files = [path for path in dict.fromkeys(found) if is_file(path)]
    for path in files:
        if owner := other_owner(path, environ):
            raise UsageError(
                f"{path} belongs to {owner}, and its settings decide what runs here as you: read it, then obey it with "
                f"REPROKIT_CONFIG={path}, or use none with REPROKIT_CONFIG={os.devnull}"
            )
    return files


def _users_file(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or home(environ) / ".config") / "reprokit" / FILE


def variable(key: str) -> str:
    """The environment variable of a key."""
    return f"REPROKIT_{key.upper()}"


def _found(environ: Mapping[str, str], start: Path) -> Iterator[tuple[str, Any, str]]:
    """Each key that is set somewhere, with its value and origin; the strongest last."""
    for path in config_files(environ, start):
        text, tables = _read(path)
        for key, value in tables.items():
            where = f"{path}:{line_of(text, key)}"
            if key not in PARSERS:
                hint = near(key, KEYS) or f"known keys: {', '.join(KEYS)}"
                raise UsageError(f"{where}: unknown key {key!r} ({hint})")
            if key in USERS_OWN and not environ.get("REPROKIT_CONFIG") and path != _users_file(environ):
                raise UsageError(
                    f"{where}: {key} names a program that runs as you, and a project may not choose it: move it to "
                    f"{_users_file(environ)}, or set {variable(key)}"
                )
            yield from _parsed(key, value, path.absolute().parent, where, text)
    for key in KEYS:
        # As for REPROKIT_CONFIG, a variable that is empty is not set: CI systems leave those for absent secrets.
        if given := environ.get(variable(key), "").strip():
            yield from _parsed(key, given, start, variable(key), "")


def _parsed(key: str, value: Any, base: Path, where: str, text: str) -> Iterator[tuple[str, Any, str]]:
    file = where.rpartition(":")[0]
    if key in MERGED and text and isinstance(value, Mapping):
        for name in value:
            if name in KEYS:  # TOML's trap: what stands below a table's name belongs to the table
                raise UsageError(f"{file}:{line_of(text, key, name)}: {name} is a key of its own: put it above [{key}]")
    try:
        parsed = PARSERS[key](value, base)
    except ValueError as error:
        raise UsageError(f"{where}: {key}: expected {error}; found {_shown(value)}") from None
    if key in MERGED and text:
        for name, folder in parsed.items():
            yield key, {name: folder}, f"{file}:{line_of(text, key, name)}"
    else:
        yield key, parsed, where


def _shown(value: Any) -> str:
    from reprokit.core.redaction import without_passwords

    return without_passwords(repr(value))


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text("utf-8")
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
