"""From an environment to a Dockerfile and its build context: the same input gives the same bytes. The text never
names a case or a cell, so that whatever needs the same image gets the same tag. Pure.
"""

from __future__ import annotations

import functools
import hashlib
import json
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.case.cellspec import CellSpec
from reprokit.case.units import fold_path
from reprokit.core import cache
from reprokit.core.files import shipped
from reprokit.environment import installing, sanitizing
from reprokit.environment.axes import AXES
from reprokit.environment.model import Environment
from reprokit.environment.steps import context_of, instructions
from reprokit.environment.supply import Recipe

if TYPE_CHECKING:
    from jinja2 import Environment as Templates

    from reprokit.environment.lock import Pins
    from reprokit.environment.model import SourceTree

TAG_PREFIX = "reprokit/img:"
VENV_PREFIX = "reprokit/venv:"
_USED = re.compile(r'reprokit/([\w.-]+)[,"]')
"""A file of the context's folder reprokit/ where a recipe uses it: mounted, or in the quotes of a shell."""
_TEMPLATES: Mapping[Recipe, str] = {"dockerfile": "Dockerfile.j2", "script": "venv.sh.j2"}
_PREFIXES: Mapping[Recipe, str] = {"dockerfile": TAG_PREFIX, "script": VENV_PREFIX}
FORMAT = "reprokit-image/v1"
SUPPORT = (
    "apt.conf",
    "conda_packages.py",
    "cuda-conda.sh",
    "cuda-distribution.sh",
    "cuda-preferences",
    "cuda-tree.sh",
    "failing-line.sh",
    "gcc-tree.sh",
    "keeping_pip.py",
    "locked-apt.sh",
    "locked-setup.conf",
    "pip_before.py",
    "pip_of_setup.py",
    "relay.pl",
    "relay.py",
    "rpm-install.sh",
    "site.sh",
    "uv-python.sh",
)
"""Files that build steps use; they lie beside the templates and travel in the context's folder reprokit/."""


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """``context`` maps a path in the build context to bytes, or to a folder on this host.

    Where the recipe is a script, ``dockerfile`` is that script.
    """

    dockerfile: str
    context: Mapping[str, bytes | Path]
    prefix: str = TAG_PREFIX

    def __post_init__(self) -> None:
        """Raise UsageError for a context that :func:`context_of` would not make."""
        context_of(self.context.items())

    def tag(self, base_id: str) -> str:
        """``reprokit/img:<hash>`` over Dockerfile, context content and the base image's id, and over nothing else.

        Where there are several images to start from, ``base_id`` is all their ids with spaces between.
        """
        inputs = [
            FORMAT,
            self.dockerfile,
            base_id,
            [[name, _digest(self.context[name])] for name in sorted(self.context)],
        ]
        return self.prefix + hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:32]

    def beginnings(self, base_id: str) -> tuple[str, ...]:
        """A hash for each beginning of the Dockerfile that ends with a step which may download; shortest first.

        Images with such a hash in common probably have these steps in common. Files of the context do not count: the
        engine compares what a step really reads. ``base_id``: as of :meth:`tag`.
        """
        found, text = [], ""
        for instruction in instructions(self.dockerfile):
            text += instruction
            if "source=reprokit/site.sh," in instruction:
                found.append(hashlib.sha256(json.dumps([FORMAT, base_id, text]).encode()).hexdigest()[:32])
        return tuple(found)

    def starting_from(self, names: Mapping[str, str]) -> str:
        """The Dockerfile for an engine that holds the images FROM names under other ``names``."""

        def renamed(found: re.Match[str]) -> str:
            return f"FROM {names.get(found[1], found[1])}"

        return re.sub(r"^FROM (\S+)", renamed, self.dockerfile, flags=re.MULTILINE)


def render(
    environment: Environment,
    spec: CellSpec,
    *,
    sources: Mapping[str, SourceTree],
    given_datasets: Collection[str],
    pins: Pins | None = None,
) -> Rendered:
    """The Dockerfile that makes the environment of a cell, or the script for one of a host, with its build context.

    ``pins``: what a lock holds for the cell, which is then all that is installed.
    ``sources``: the fetched tree of each of the cell's sources. ``given_datasets``: names of datasets that will be
    mounted; the others are generated in the image where the case says how.
    """
    recipe: Recipe = "script" if environment.host else "dockerfile"
    entries: list[tuple[str, bytes | Path]] = []
    locks: dict[str, list[str]] = {}
    workdir = posixpath.normpath(spec.workdir)
    copied = []
    alike = Counter(map(fold_path, sources))
    for number, (name, tree) in enumerate(sorted(sources.items())):
        # A name is the case's: ".." would put its tree in the place of our Dockerfile, "0" or "X" that of another, "x".
        plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{,100}", name) and alike[fold_path(name)] == 1
        place = f"sources/{name if plain else number}"
        entries.append((place, tree.archive))
        copied.append({"context": place + "/", "target": posixpath.join(workdir, tree.path) + "/"})
    modes: dict[str, list[str]] = {}
    for path, file in spec.files.items():
        name = posixpath.normpath(path)
        folder = "executables" if file.permissions == 0o755 else "files"
        entries.append((f"{folder}/{name}", file.text.encode()))
        if file.permissions not in (0o644, 0o755):
            modes.setdefault(f"{file.permissions:03o}", []).append(posixpath.join(workdir, name))
    if pins:
        locks = installing.lock_files(pins, environment)
    installs = installing.locked_calls(environment, pins) if pins else installing.calls(environment)
    scripts = _generate_scripts(spec, given_datasets)
    entries += scripts.items()
    if environment.setup:
        entries.append(("reprokit/setup.sh", environment.setup.encode()))
    text = (
        _templates()
        .get_template(_TEMPLATES[recipe])
        .render(
            env=environment,
            layers=[layer for axis in AXES for layer in axis.layers(environment)],
            workdir=workdir,
            folders=_folders(workdir, spec),
            sources=copied,
            files=any(name.startswith("files/") for name, _ in entries),
            executables=any(name.startswith("executables/") for name, _ in entries),
            modes=modes,
            pip_options=installing.common_options(environment, locked=pins is not None),
            pins=pins,
            pip=installs,
            setup=bool(environment.setup),
            sanitizer=_sanitizer(spec.environment.sanitize),
            datasets=[{"script": script} for script in scripts],
        )
    )
    used = set(_USED.findall(text))
    entries += ((f"reprokit/{name}", _support(name)) for name in SUPPORT if name in used)
    texts = {name: "".join(line + "\n" for line in lines).encode() for name, lines in locks.items() if name in used}
    entries += ((f"reprokit/{name}", text) for name, text in texts.items())
    return Rendered(dockerfile=text, context=context_of(entries), prefix=_PREFIXES[recipe])


def _sanitizer(kind: str) -> dict[str, object]:
    if not kind:
        return {}
    own = sanitizing.SANITIZERS.get(kind)
    return {
        "kind": kind,
        "flags": sanitizing.flags(kind),
        "library": own.library if own else "",
        "preloaded": sanitizing.PRELOADED,
        "compute": "" if own else sanitizing.COMPUTE_SANITIZER,
    }


def render_one(template: str, files: Mapping[str, bytes | Path], **values: Any) -> Rendered:
    """A Dockerfile of a template of its own, with ``files`` and the scripts that it mounts as context."""
    text = _templates().get_template(template).render(pins=None, **values)
    support = {f"reprokit/{name}": _support(name) for name in SUPPORT if f"/{name}," in text}
    return Rendered(dockerfile=text, context=context_of((*files.items(), *support.items())))


def build_reads_files(spec: CellSpec, given_datasets: Collection[str]) -> bool:
    """Whether a step of the build may read the case's files: ``setup``, data that is generated, a local requirement.

    Where none does, the files can be handed to each container instead, and cases that differ only in them share an
    image.
    """
    generates = any(data.generate and name not in given_datasets for name, data in spec.datasets.items())
    asked = spec.environment
    return bool(asked.setup or generates or installing.reads_files(asked))


def _generate_scripts(spec: CellSpec, given: Collection[str]) -> dict[str, bytes]:
    made = (data.generate for name, data in sorted(spec.datasets.items()) if data.generate and name not in given)
    return {f"reprokit/generate-{number}.sh": text.encode() for number, text in enumerate(made)}


@functools.cache
def _support(name: str) -> bytes:
    """A file of the folder of templates that travels in the context as it is."""
    return (shipped("dockerfiles") / name).read_bytes()


def _folders(workdir: str, spec: CellSpec) -> list[str]:
    """Folders that must exist and belong to the user before anything is put into them, parents first."""
    wanted = [workdir]
    for path in [source.path for source in spec.sources.values()] + [data.path for data in spec.datasets.values()]:
        steps = [part for part in posixpath.normpath(path).split("/") if part not in {"", "."}]
        wanted += [posixpath.join(workdir, *steps[: end + 1]) for end in range(len(steps))]
    for path in spec.files:
        steps = posixpath.normpath(path).split("/")[:-1]
        wanted += [posixpath.join(workdir, *steps[: end + 1]) for end in range(len(steps))]
    return sorted(set(wanted))


def _digest(content: bytes | Path) -> str:
    return _tree_digest(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()


@functools.cache
def _tree_digest(folder: Path) -> str:
    """Over names, kinds, executable bits and bytes of a folder. Exported trees do not change while we run."""
    total = hashlib.sha256()
    for name, path in _walk(folder):
        if path.is_symlink():
            total.update(f"link {name}\0{path.readlink()}\0".encode())
        elif path.is_dir():
            total.update(f"folder {name}\0".encode())
        else:
            kind = "program" if path.stat().st_mode & 0o100 else "file"
            total.update(f"{kind} {name}\0{path.stat().st_size}\0".encode())
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    total.update(block)
    return total.hexdigest()


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        yield path.relative_to(folder).as_posix(), path


@functools.cache
def _templates() -> Templates:
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(shipped("dockerfiles")),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # a Dockerfile is not HTML; every value goes through one of the filters below
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=cache.compiled_templates(),
        auto_reload=False,
    )
    filters: dict[str, Any] = {"sh": shlex.quote, "quoted": _quoted, "instruction": _instruction}
    templates.filters.update(filters)
    templates.globals["m"] = templates.get_template("macros.j2").module
    return templates


def _instruction(value: str) -> str:
    """A value of an instruction that expands variables and takes quotes away itself (WORKDIR, COPY)."""
    return re.sub(r"""[\\$"']""", r"\\\g<0>", value)


def _quoted(value: str) -> str:
    """A path in an instruction's JSON form, which expands variables as well."""
    return json.dumps(_instruction(value))
