"""``reprokit config``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.cli import options
from reprokit.cli.display.plain import columns
from reprokit.core.errors import UsageError
from reprokit.core.json_record import JsonDocument, JsonRecord
from reprokit.core.near_match import near
from reprokit.core.redaction import without_passwords
from reprokit.core.terminal import echo, echo_data, style
from reprokit.engine.site import settings
from reprokit.engine.site.config import KEYS, config_files, trust_project
from reprokit.engine.site.reaching import Reaching, reaching

if TYPE_CHECKING:
    from reprokit.engine.site import Settings

EXAMPLES = """\b
Examples:
  reprokit config                      # every key, its value, and where it comes from
  reprokit config registry
  REPROKIT_JOBS=4 reprokit config jobs
  reprokit config trust                # obey the project's file, as it is now

\b
Keys are set in reprokit.toml of the project (or of a folder above it), in
~/.config/reprokit/reprokit.toml, or by variables such as REPROKIT_REGISTRY.
A variable overrides the project's file, and that overrides the user's.
A project's file comes with a checkout: keys that reach files, hosts, programs
or limits of yours are refused until you read and trust it; a change asks again.
"""


@dataclass(frozen=True, kw_only=True)
class ShownSetting(JsonRecord):
    """The value of a key, and where it comes from."""

    value: Any
    origin: str


@dataclass(frozen=True, kw_only=True)
class Configuration(JsonDocument):
    """The configuration; of `config KEY`, the setting of that key, or those below it."""

    FORMAT = "reprokit-config/v1"

    files: tuple[str, ...]
    settings: Mapping[str, ShownSetting]
    builds: tuple[Reaching, ...]
    """what reaches builds from this host"""


@click.command("config", epilog=EXAMPLES)
@click.argument("key", required=False)
@options.json_option("Print it as JSON, of KEY its setting.")
def command(key: str | None, as_json: bool) -> int:
    """Show the configuration: each key, its value, and where it comes from. Passwords are not shown.

    KEY: that one alone; trust: obey the project's file from now on, as it is now.
    """
    if key == "trust":
        echo(f"trusted, as it is now: {trust_project(os.environ, Path.cwd())}")
        return 0
    found = settings()
    listed = rows(found) if key is None else _choose(rows(found), key)
    if key is not None and not as_json:
        for name, value, _ in listed:
            below = f"{name.removeprefix(f'{key}.')}=" if name != key else ""
            text = "\n".join(map(str, value)) if isinstance(value, list) else "" if value in (None, {}) else str(value)
            echo_data(below + text)
        return 0
    host = reaching(found)
    files = config_files(os.environ, Path.cwd())
    if as_json:
        shown = {name: ShownSetting(value=value, origin=origin) for name, value, origin in listed}
        options.echo_document(Configuration(files=tuple(map(str, files)), settings=shown, builds=host))
        return 0
    echo(f"read: {', '.join(map(_short, files))}" if files else "no reprokit.toml is read")
    echo()
    _table(("key", "value", "from"), [(name, _words(name, value), _short(origin)) for name, value, origin in listed])
    if host:
        echo()
        _table(("reaches builds", "value", "from"), [(one.name, _short(one.value), _short(one.origin)) for one in host])
    return 0


def rows(found: Settings) -> list[tuple[str, Any, str]]:
    """Key, value as plain data without passwords, and origin; a row for each dataset and source."""
    listed: list[tuple[str, Any, str]] = []
    for key, setting in KEYS.items():
        value = getattr(found, key)
        if setting.merged and value:
            names = sorted(value)
            listed += [(f"{key}.{name}", str(value[name]), found.origins.get(f"{key}.{name}", "")) for name in names]
        else:
            listed.append((key, _plain(value), found.origins.get(key, "default")))
    return listed


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return without_passwords(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return dict(value) if hasattr(value, "items") else value


def _choose(listed: list[tuple[str, Any, str]], key: str) -> list[tuple[str, Any, str]]:
    """The row of a key, or those below it. Raises UsageError where there is none."""
    chosen = [row for row in listed if row[0] == key or row[0].startswith(f"{key}.")]
    if not chosen:
        names = [name for name, *_ in listed]
        hint = near(key, (*KEYS, *names)) or f"known keys: {', '.join(names)}"
        raise UsageError(f"no key {key!r} ({hint})")
    return chosen


def _words(key: str, value: Any) -> str:
    setting = KEYS[key.partition(".")[0]]
    if value in (None, "", [], {}):
        return setting.unset
    if setting.unit == "bytes":
        return f"{value / 1024**3:.4g} GiB"
    if setting.unit == "seconds":
        return f"{value:g} s"
    return ", ".join(value) if isinstance(value, list) else _short(str(value))


def _short(text: str | Path) -> str:
    """Relative to the current folder if below it, else with ``~`` for the home folder."""
    for folder, instead in ((str(Path.cwd()), ""), (os.path.expanduser("~"), "~/")):  # noqa: PTH111 (raises nothing)
        if folder != "/" and str(text).startswith(f"{folder}/"):
            return instead + str(text)[len(folder) + 1 :]
    return str(text)


def _table(header: tuple[str, str, str], lines: Sequence[tuple[str, str, str]]) -> None:
    """Three columns; where the terminal is too narrow for a line, its last column goes below it."""
    room = columns()
    first = max(len(line[0]) for line in (header, *lines))
    widest = max(len(line[2]) for line in lines)
    second = min(max(len(line[1]) for line in (header, *lines)), max(20, room - first - widest - 4))
    echo(style(f"{header[0]:{first}}  {header[1]:{second}}  {header[2]}", bold=True))
    for name, value, origin in lines:
        text = f"{name:{first}}  {value:{second}}"
        if len(value) <= second and len(text) + 2 + len(origin) <= room:
            echo(style(f"{text}  {origin}", dim=origin == "default"))
        else:
            echo(f"{name:{first}}  {value}")
            echo(style(f"{'':{first}}  from {origin}", dim=True))
