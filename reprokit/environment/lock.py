"""What a lock holds: the environments of a case's cells, down to every version and hash. Plain values, no effects."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reprokit.case.cellspec import CellSpec, FileSpec
from reprokit.case.matrix import cell_key
from reprokit.environment.axes import AXES
from reprokit.environment.model import BASE_PREFIX
from reprokit.environment.supply import Supply

FORMAT = "reprokit-lock/v1"
GROUPS = ("pip_itself", *(axis.name for axis in AXES if axis.locked), "pip")
"""The groups of files that pip installs, as lock files name them."""

LARGE_BYTES = 50_000_000
"""Files from this size on are installed in a layer of their own, which cells that differ otherwise share."""


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """A file that pip installs: of an index (``url`` ''), or from the address that the case itself names.

    ``size`` in bytes; ``sha256`` in hexadecimal digits.
    """

    name: str
    version: str
    file: str
    sha256: str
    size: int
    url: str = ""

    @property
    def is_large(self) -> bool:
        """Whether it gets the layer of large files, where the order of the steps allows it."""
        return self.size >= LARGE_BYTES

    @property
    def requirement(self) -> str:
        """The line of a requirements file that admits this file and no other."""
        what = f"{self.name} @ {self.url}" if self.url else f"{self.name}=={self.version}"
        return f"{what} --hash=sha256:{self.sha256}"


@dataclass(frozen=True, kw_only=True)
class LockedBase:
    """The image that a locked Dockerfile starts from.

    ``source`` as in :class:`reprokit.environment.model.Base`. ``reference`` says what it holds: a registry's digest, or
    for one made from packages (``recipe``) a digest over exactly these ``packages``, name -> version.
    """

    name: str
    source: str
    reference: str
    recipe: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LockedSource:
    """A source tree: its full commit ('' for a folder that stood in), and the digest over content and patch."""

    commit: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class LockedCell:
    """A cell of the case. ``asked`` is :func:`asked_digest` of what it asked for when it was locked.

    ``reason``: why it was ``unsupported`` then, '' where it was not.
    """

    cell: Mapping[str, str]
    variant: str
    asked: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Pins:
    """Everything that goes into a locked image: base, the distribution's packages beyond it, and files for pip.

    ``date`` is when these packages were the archive's, RFC 3339 in UTC. ``pip_itself`` replaces the pip of the virtual
    environment; ``cuda`` and ``cudnn`` go below /usr/local/cuda, ``pip`` goes where Python looks; where pip
    installs in several steps, that is what the last one does, and ``pip_steps`` is what those before do. ``local``:
    name -> version of what pip installs from the case's own files, which the build does again. ``trees``: what goes
    below /usr/local/cuda for other axes, by name.
    """

    base: LockedBase
    date: str
    apt: Mapping[str, str] = field(default_factory=dict)
    pip_itself: tuple[Artefact, ...] = ()
    cuda: tuple[Artefact, ...] = ()
    cudnn: tuple[Artefact, ...] = ()
    pip: tuple[Artefact, ...] = ()
    pip_steps: tuple[tuple[Artefact, ...], ...] = ()
    trees: Mapping[str, tuple[Artefact, ...]] = field(default_factory=dict)
    local: Mapping[str, str] = field(default_factory=dict)

    def group(self, name: str) -> tuple[Artefact, ...]:
        """The files of one of :data:`GROUPS`."""
        return self.trees[name] if name in self.trees else getattr(self, name, ())

    @property
    def steps(self) -> tuple[tuple[Artefact, ...], ...]:
        """What each step of pip installs, or changes, of what the steps before it did."""
        return (*self.pip_steps, self.pip)

    @property
    def installed(self) -> Mapping[str, str]:
        """Name -> version of what pip has installed after its last step."""
        from packaging.utils import canonicalize_name

        files = (one for group in (self.pip_itself, *self.steps) for one in group)
        return {canonicalize_name(one.name): one.version for one in files} | dict(self.local)


@dataclass(frozen=True, kw_only=True)
class LockEntry:
    """One locked environment, and the cells that share it.

    ``image`` is the identity (tag) of the image that is built from it. ``platform`` is the engine's processor
    architecture. ``providers``: who served ``base``, ``python`` and ``gcc``; ``served_by``: the same in words.
    """

    image: str
    platform: str
    cells: tuple[LockedCell, ...]
    pins: Pins
    providers: Mapping[str, str] = field(default_factory=dict)
    served_by: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, LockedSource] = field(default_factory=dict)

    def supply(self) -> Supply:
        """The supply that resolves the cells to the same environment again."""
        return supply_of(self.providers)


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lock file. ``path`` is where it lies, ``version`` the reprokit that wrote it.

    ``unsupported``: the cells that no environment could be had for. ``lines``: path of keys in the file -> line,
    counted from 1.
    """

    path: str
    case: str
    version: str
    entries: tuple[LockEntry, ...]
    unsupported: tuple[LockedCell, ...] = ()
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict, compare=False)

    @property
    def cells(self) -> tuple[LockedCell, ...]:
        """All cells that it holds, the unsupported ones last."""
        return (*(cell for entry in self.entries for cell in entry.cells), *self.unsupported)

    def find(self, cell: Mapping[str, str], variant: str) -> tuple[LockEntry | None, LockedCell] | None:
        """The entry of a cell, without one where it was unsupported; None where the lock does not hold it."""
        key = cell_key(cell)
        groups = [*((entry, entry.cells) for entry in self.entries), (None, self.unsupported)]
        for entry, cells in groups:
            for locked in cells:
                if locked.variant == variant and cell_key(locked.cell) == key:
                    return entry, locked
        return None

    def why(self, locked: LockedCell) -> str:
        """Why a cell of ``unsupported`` is without an environment, in words."""
        line = self._line(("unsupported", self.unsupported.index(locked)))
        return f"{line}: unsupported when it was locked (`reprokit lock --upgrade` tries again): {locked.reason}"

    def where(self, entry: LockEntry, *keys: str | int) -> str:
        """``PATH:LINE`` of something in an entry, or of the nearest thing around it."""
        return self._line(("environments", self.entries.index(entry), *keys))

    def _line(self, loc: tuple[str | int, ...]) -> str:
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return f"{self.path}:{self.lines.get(loc, 1)}"


@dataclass(frozen=True, kw_only=True)
class PinnedEnvironment:
    """What holds a cell to its lock: the lock, and its entry for the cell."""

    lock: Lock
    entry: LockEntry


def supply_of(providers: Mapping[str, str]) -> Supply:
    """The supply in which ``base``, ``python`` and ``gcc`` have these providers. Raises UsageError for unknown ones."""
    chosen: dict[str, Any] = {key: (providers[key],) for key in ("python", "gcc") if key in providers}
    return Supply(base_source=providers["base"], **chosen)


def asked_digest(spec: CellSpec, *, reads_files: bool) -> str:
    """``sha256:...`` over all that decides what is built for a cell, and nothing else: not its title or command.

    ``reads_files``: whether a step of the build may read the case's files.
    """
    environment = dataclasses.asdict(spec.environment)
    for later, free in (("sanitize", ""), ("dnf", ()), ("pip_before", ""), ("cuda_libraries", "all")):
        if environment[later] == free:
            del environment[later]  # locks of earlier versions know no such key
    asked = {
        "axes": {axis.name: spec.cell[axis.name] for axis in AXES if axis.asked(spec.cell)},
        "environment": environment,
        "sources": {name: dataclasses.asdict(source) for name, source in spec.sources.items()},
        "generate": {name: [data.path, data.generate] for name, data in spec.datasets.items() if data.generate},
        "files": {path: _asked_file(file) for path, file in spec.files.items()} if reads_files else {},
        "workdir": spec.workdir,
    }
    return "sha256:" + hashlib.sha256(_canonical(asked)).hexdigest()


def _asked_file(file: FileSpec) -> str | list[str]:
    """A file as a digest has it: its text, with the permissions where the case gives them."""
    return file.text if file.mode is None else [file.text, f"{file.mode:03o}"]


def base_reference(name: str, recipe: str, packages: Mapping[str, str]) -> str:
    """The name of a base made from exactly these packages: the same on every engine, whatever id that gives it."""
    digest = hashlib.sha256(_canonical([recipe, name, dict(packages)])).hexdigest()
    return f"{BASE_PREFIX}{name}-{digest[:16]}"


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
