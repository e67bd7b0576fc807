"""The host's pip configuration, read as pip reads it, without starting pip.

Order of files and precedence: pip's documentation, "Configuration" (and ``pip/_internal/configuration.py``): global,
user and site files (a virtual environment's), then PIP_CONFIG_FILE, then PIP_* variables; the section ``global``, then
``install``.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from reprokit.core.errors import UsageError
from reprokit.core.home import home

LISTS = frozenset({"extra-index-url", "find-links", "trusted-host", "constraint", "only-binary", "no-binary"})
"""Options that hold several values, separated by white space."""

KEPT = LISTS | {
    "index-url",
    "cert",
    "client-cert",
    "proxy",
    "timeout",
    "retries",
    "no-index",
    "pre",
    "prefer-binary",
}
"""Options that decide what pip can install, and from where. Others (user, target, progress bars ...) stay here."""

SYSTEM = Path("/etc/pip.conf")
"""The system-wide file outside XDG's folders."""

_ALIASES = {"default-timeout": "timeout", "pypi-url": "index-url"}
_SECTIONS = ("global", "install")


def read(environ: Mapping[str, str] | None = None, *, prefix: str | None = None) -> dict[str, str]:
    """Option -> value as written, for the options of ``KEPT``. ``prefix``: the environment whose pip.conf counts.

    Raises UsageError when a configuration file cannot be parsed: pip would stop there, too.
    """
    return {name: value for name, (value, _) in read_with_origins(environ, prefix=prefix).items()}


def read_with_origins(
    environ: Mapping[str, str] | None = None, *, prefix: str | None = None
) -> dict[str, tuple[str, str]]:
    """As :func:`read`, with where each value comes from: a file, or the name of a variable."""
    environ = os.environ if environ is None else environ
    sections: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in _SECTIONS}
    for path in files(environ, prefix=prefix):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path)
        except (configparser.Error, UnicodeDecodeError, OSError) as error:
            raise UsageError(f"pip's configuration {path} cannot be read: {error}") from error
        for name in _SECTIONS:
            if parser.has_section(name):
                sections[name].update({_option(key): (value, str(path)) for key, value in parser.items(name)})
    variables = {_option(key[4:]): (value, key) for key, value in environ.items() if key.startswith("PIP_")}
    merged = {**sections["global"], **sections["install"], **variables}
    return {key: (value.strip(), origin) for key, (value, origin) in merged.items() if key in KEPT and value.strip()}


def files(environ: Mapping[str, str], *, prefix: str | None = None) -> list[Path]:
    """pip's configuration files, weakest first; some may not exist."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    user = home(environ)
    system = [Path(folder) for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep) if folder]
    found = [*(folder / "pip" / "pip.conf" for folder in system), SYSTEM]
    if not (named and Path(named).exists()):
        config = Path(environ.get("XDG_CONFIG_HOME") or user / ".config")
        found += [user / ".pip" / "pip.conf", config / "pip" / "pip.conf"]
    # An active virtual environment's pip is the user's pip, even when reprokit lives in another one.
    found.append(Path(prefix or environ.get("VIRTUAL_ENV") or sys.prefix, "pip.conf"))
    return [*found, Path(named)] if named else found


def _option(name: str) -> str:
    name = name.lower().replace("_", "-").removeprefix("--")
    return _ALIASES.get(name, name)


def render(options: Mapping[str, tuple[str, ...]]) -> str:
    """A pip.conf with these options, in sorted order; several values go one to a line."""
    lines = ["[global]"]
    for key in sorted(options):
        lines += [f"{key} = {options[key][0]}"] if len(options[key]) == 1 else [f"{key} ="]
        if len(options[key]) > 1:
            lines += [f"    {value}" for value in options[key]]
    return "\n".join(lines) + "\n"
