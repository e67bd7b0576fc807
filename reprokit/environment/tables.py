"""The compatibility data: the tables in data/, and the rows of a site's own file, which win over them.

That file (key ``compatibility`` of reprokit.toml) is YAML of the same structure, with the names of our tables on top::

    cuda:
      gcc:
        "11.8": {most: "12"}      # this site's nvcc 11.8 is patched

Mappings are merged row by row, lists and values replace ours.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from reprokit.errors import UsageError
from reprokit.spelling import near

ANY = "*"
"""In a shape: any key (a version, a release, a package)."""

TEXT, LIST = "text", "a list"

SHAPES: dict[str, Any] = {
    "releases": {
        ANY: {
            **dict.fromkeys(("family", "codename", "image", "glibc", "toolkit", "epoch"), TEXT),
            "components": LIST,
            "python": LIST,
            "gcc": {ANY: TEXT},
        }
    },
    "python": {"images": {ANY: LIST}, "uv": {"installer": TEXT, "pythons": LIST}},
    "gcc": {"images": {ANY: TEXT}, "conda": {"installer": TEXT, "versions": LIST}, "debian": {ANY: TEXT}},
    "cuda": {
        "wheels": {ANY: dict.fromkeys(("nvcc", "nvvm", "crt", "cccl", "runtime", "cublas"), TEXT)},
        "images": {ANY: LIST},
        "image_cudnn": {ANY: {ANY: TEXT}},
        "drivers": {ANY: TEXT},
        "toolkit_drivers": {ANY: TEXT},
        "compute": {ANY: {"since": TEXT, "until": TEXT}},
        "gcc": {ANY: {"least": TEXT, "most": TEXT}},
        "any_gcc_flag": {"since": TEXT},
    },
    "cudnn": {ANY: LIST},
    "builds": {ANY: {ANY: {"python": LIST, "cuda": TEXT, "cudnn": TEXT}}},
    "frameworks": {ANY: {"package": TEXT, "requirement": TEXT, "options": TEXT, "builds": {ANY: LIST}}},
}
"""The tables, by the names of their files, and what each may hold."""

_override: Path | None = None


def override(path: Path | None) -> None:
    """Let the rows of a site's own file win over ours, in this process; None = ours alone. The file is read later."""
    global _override
    _override = path


def overriding() -> Path | None:
    """The site's own file, if there is one."""
    return _override


def table(name: str) -> Any:
    """One table, with the site's rows in it. Raises UsageError, naming file and line, for what these cannot mean."""
    return _merged(name, _override)


@cache
def _merged(name: str, own: Path | None) -> Any:
    ours = _ours(name)
    return ours if own is None else _merge(ours, _theirs(own).get(name))


@cache
def _ours(name: str) -> Any:
    import yaml

    # BaseLoader keeps every scalar as it is written: 3.10 is a version, not a number.
    text = (Path(__file__).parent / "data" / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


@cache
def _theirs(path: Path) -> dict[str, Any]:
    import yaml

    try:
        node = yaml.compose(path.read_text("utf-8"), Loader=yaml.BaseLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: is no YAML: {error}") from error
    found: dict[str, Any] = {} if node is None else read(path, node, SHAPES)
    return found


def read(path: Path, node: Any, shape: Any, at: str = "") -> Any:
    """What a node of a table's YAML says. Raises UsageError where it is not of the ``shape``."""
    import yaml

    where = f"{path}:{node.start_mark.line + 1}"
    what = f"{at}: " if at else ""
    if shape == TEXT:
        if not isinstance(node, yaml.ScalarNode):
            raise UsageError(f"{where}: {what}expected one value")
        return node.value
    if shape == LIST:
        if not isinstance(node, yaml.SequenceNode) or not all(isinstance(n, yaml.ScalarNode) for n in node.value):
            raise UsageError(f"{where}: {what}expected a list of values")
        return [item.value for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(f"{where}: {what}expected a mapping")
    values = {}
    for key, value in node.value:
        below = shape.get(key.value, shape.get(ANY))
        if below is None:
            hint = near(str(key.value), shape) or f"known keys: {', '.join(shape)}"
            raise UsageError(f"{path}:{key.start_mark.line + 1}: {what}unknown key {key.value!r} ({hint})")
        values[key.value] = read(path, value, below, f"{at}.{key.value}" if at else str(key.value))
    return values


def _merge(ours: Any, theirs: Any) -> Any:
    if theirs is None:
        return ours
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {key: _merge(ours.get(key), theirs.get(key)) for key in (*ours, *(k for k in theirs if k not in ours))}
    return theirs
