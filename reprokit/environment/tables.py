"""The compatibility data: the tables in data/, and the rows of a site's own YAML (``compatibility`` of
reprokit.toml), of the same structure with the names of our tables on top. Mappings are merged row by row; lists and
values replace ours.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near

ANY = "*"
"""In a shape: any key (a version, a release, a package)."""

TEXT, LIST, VERSION, VERSIONS = "text", "a list", "a version", "versions"

DATA = Path(__file__).parent / "data"

CUDA_COMPILER = ("nvcc", "nvvm", "crt", "cccl", "runtime")
"""The parts of CUDA that compile and start a program."""

CUDA_PARTS = (
    *CUDA_COMPILER,
    *("cublas", "cufft", "curand", "cusolver", "cusparse", "npp", "nvjpeg", "cupti", "nvrtc", "nvjitlink", "nvtx"),
)
"""The parts of CUDA that are wheels of their own; older releases lack some."""

SHAPES: dict[str, Any] = {
    **{path.stem: {ANY: VERSIONS} for path in sorted(DATA.glob("*.yaml"))},
    "releases": {
        ANY: {
            **dict.fromkeys(("family", "codename", "image", "manager", "archive", "lang", "epoch"), TEXT),
            **dict.fromkeys(("glibc", "toolkit"), VERSION),
            "components": LIST,
            "python": VERSIONS,
            "gcc": {ANY: VERSION},
        }
    },
    "python": {
        "images": {ANY: VERSIONS},
        "virtualenv": TEXT,
        "uv": {"installer": TEXT, "pythons": VERSIONS},
        "conda": VERSIONS,
    },
    "gcc": {
        "images": {ANY: TEXT},
        "conda": {"installer": TEXT, "python": VERSION, "versions": VERSIONS},
        "debian": {ANY: VERSION},
    },
    "cuda": {
        "wheels": {ANY: dict.fromkeys(CUDA_PARTS, VERSION)},
        "images": {ANY: VERSIONS},
        "image_cudnn": {ANY: {ANY: VERSION}},
        "conda": VERSIONS,
        "conda_cudnn": {ANY: VERSIONS},
        "drivers": {ANY: VERSION},
        "toolkit_drivers": {ANY: VERSION},
        "compat_drivers": {ANY: VERSION},
        "compute": {ANY: {"since": VERSION, "until": VERSION}},
        "gcc": {ANY: {"least": VERSION, "most": VERSION}},
        "any_gcc_flag": {"since": VERSION},
    },
    "builds": {ANY: {ANY: {"python": VERSIONS, "cuda": VERSION, "cudnn": VERSION}}},
    "architectures": {ANY: {ANY: {ANY: VERSION}}},
    "frameworks": {ANY: {"package": TEXT, "requirement": TEXT, "options": TEXT, "builds": {ANY: VERSIONS}}},
}
"""The tables, by the names of their files, and what each may hold: lists of versions, unless it is said here."""

NEEDED: dict[str, tuple[str, ...]] = {
    "releases": ("family", "image", "python", "gcc", "glibc", "epoch"),
    "cuda.wheels": ("nvcc", "runtime", "cublas"),
    "cuda.compute": ("since", "until"),
    "frameworks": tuple(SHAPES["frameworks"][ANY]),
}
"""What each row of a table has, ours and a site's together; a list is not empty there."""

_VERSION = re.compile(r"(\d[\w.+-]*|none)?")


def table(name: str, own: Path | None = None) -> Any:
    """One table; with the rows of a site's ``own`` file in it, where there is one.

    Raises UsageError, naming file and line, for what these cannot mean.
    """
    return _merged(name, own)


@cache
def _merged(name: str, own: Path | None) -> Any:
    ours = _ours(name)
    if own is None or name not in (theirs := _theirs(own)):
        return ours
    merged = _merge(ours, theirs[name])
    for at, keys in NEEDED.items():
        first, _, below = at.partition(".")
        rows = (merged[below] if below else merged) if first == name else {}
        for version, row in rows.items():
            if lacking := [key for key in keys if row.get(key) in (None, [])]:
                raise UsageError(f"{own}: {at}.{version} has no {lacking[0]!r}")
    for framework, row in merged.items() if name == "frameworks" else ():
        try:
            (row["requirement"] + row["options"]).format(release="", cuda="", major="")
        except (LookupError, ValueError) as error:
            raise UsageError(f"{own}: frameworks.{framework}: {{release}}, {{cuda}} and {{major}} are known") from error
    return merged


@cache
def _ours(name: str) -> Any:
    import yaml

    # BaseLoader keeps every scalar as it is written: 3.10 is a version, not a number.
    text = (DATA / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


@cache
def _theirs(path: Path) -> dict[str, Any]:
    import yaml

    try:
        node = yaml.compose(path.read_text("utf-8"), Loader=yaml.BaseLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: is not YAML: {error}") from error
    found: dict[str, Any] = {} if node is None else read(path, node, SHAPES)
    return found


def read(path: Path, node: Any, shape: Any, at: str = "") -> Any:
    """What a node of a table's YAML says. Raises UsageError where it is not of the ``shape``."""
    import yaml

    where = f"{path}:{node.start_mark.line + 1}"
    what = f"{at}: " if at else ""
    if shape in (TEXT, VERSION):
        if not isinstance(node, yaml.ScalarNode):
            raise UsageError(f"{where}: {what}expected one value")
        if shape == VERSION and not _VERSION.fullmatch(node.value):
            raise UsageError(f"{where}: {what}expected a version, found {node.value!r}")
        return node.value
    if shape in (LIST, VERSIONS):
        if not isinstance(node, yaml.SequenceNode) or not all(isinstance(n, yaml.ScalarNode) for n in node.value):
            raise UsageError(f"{where}: {what}expected a list of values")
        return [read(path, item, VERSION if shape == VERSIONS else TEXT, at) for item in node.value]
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
