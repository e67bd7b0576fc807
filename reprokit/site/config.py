"""reprokit's own config file: what this host or project decides, outside every case.

Read from ``$REPROKIT_CONFIG`` alone when that is set; otherwise from ``$XDG_CONFIG_HOME/reprokit/config.yaml`` (the
user's, ``~/.config`` by default) and ``.reprokit/config.yaml`` of the nearest folder upwards that has one (the
project's), whose keys win. ``datasets`` and ``sources`` of the two are merged by name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from reprokit.errors import UsageError
from reprokit.spelling import near

BASE_IMAGES = ("auto", "registry", "bootstrap")
_FOLDERS = ("datasets", "sources")
_PROJECT = Path(".reprokit", "config.yaml")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The config file's keys.

    ``base_images``: where base images come from ("auto": the registry if one answers, else made on this host).
    ``registry``: prefix or mirror put before the names of base images. ``apt_mirror``: URL of a Debian mirror.
    ``datasets`` and ``sources``: name -> folder of this host. ``proxy``: URL for http and https during builds.
    ``ca_bundle``: PEM file of the authorities to trust during builds.
    """

    base_images: str = "auto"
    registry: str = ""
    apt_mirror: str = ""
    datasets: Mapping[str, Path] = field(default_factory=dict)
    sources: Mapping[str, Path] = field(default_factory=dict)
    proxy: str = ""
    ca_bundle: Path | None = None


KEYS = tuple(key.name for key in fields(Settings))


def load(environ: Mapping[str, str] | None = None, start: Path | None = None) -> Settings:
    """The settings in force for a process in folder ``start`` (default: the current one).

    Raises UsageError, naming file and line, for what cannot be understood.
    """
    merged: dict[str, Any] = {}
    for path in config_files(os.environ if environ is None else environ, start or Path.cwd()):
        for key, value in _read(path).items():
            merged[key] = {**merged.get(key, {}), **value} if key in _FOLDERS else value
    return Settings(**merged)


def config_files(environ: Mapping[str, str], start: Path) -> list[Path]:
    """The config files that exist, weakest first. Raises UsageError when REPROKIT_CONFIG names none."""
    if named := environ.get("REPROKIT_CONFIG"):
        path = Path(named).expanduser()
        if not path.is_file():
            raise UsageError(f"REPROKIT_CONFIG names {path}, which is no file")
        return [path]
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".config")
    found = [home / "reprokit" / "config.yaml"]
    found += [folder / _PROJECT for folder in (start, *start.parents) if (folder / _PROJECT).is_file()][:1]
    return [path for path in found if path.is_file()]


def _read(path: Path) -> dict[str, Any]:
    try:
        node = yaml.compose(path.read_text("utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: is no YAML: {error}") from error
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(f"{path}: expected a mapping with the keys {', '.join(KEYS)}")
    return {key.value: _value(path, key, value) for key, value in node.value}


def _value(path: Path, key: yaml.Node, node: yaml.Node) -> Any:
    where = f"{path}:{key.start_mark.line + 1}"
    if key.value not in KEYS:
        hint = near(str(key.value), KEYS) or f"known keys: {', '.join(KEYS)}"
        raise UsageError(f"{where}: unknown key {key.value!r} ({hint})")
    if key.value in _FOLDERS:
        if not isinstance(node, yaml.MappingNode) or not all(isinstance(v, yaml.ScalarNode) for _, v in node.value):
            raise UsageError(f"{where}: {key.value}: expected a mapping from names to folders")
        return {name.value: _folder(path, folder.value) for name, folder in node.value}
    if not isinstance(node, yaml.ScalarNode):
        raise UsageError(f"{where}: {key.value}: expected text")
    text = str(node.value).strip()
    if key.value == "base_images" and text not in BASE_IMAGES:
        raise UsageError(f"{where}: base_images: {text!r} is none of {', '.join(BASE_IMAGES)}")
    if key.value in {"proxy", "apt_mirror"} and text and "://" not in text:
        raise UsageError(f"{where}: {key.value}: expected a URL such as http://host:3128, found {text!r}")
    if key.value == "ca_bundle":
        bundle = _folder(path, text) if text else None
        if bundle is not None and not bundle.exists():
            raise UsageError(f"{where}: ca_bundle: there is no file {bundle}")
        return bundle
    return text


def _folder(config: Path, text: str) -> Path:
    """A path of the config file: ``~`` is the home folder, relative ones start at the file's folder or the project."""
    base = config.parent.parent if config.parent.name == _PROJECT.parent.name else config.parent
    return (base / Path(text).expanduser()).resolve()
