"""What ``run --build-only``, ``lock`` and ``validate --cells`` print as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from reprokit.core.json_record import JsonDocument, JsonRecord
from reprokit.evidence.auditing import Variant
from reprokit.evidence.model import Verdict

if TYPE_CHECKING:
    from reprokit.run.lock_making import LockResult
    from reprokit.run.run_session import BuildResult


@dataclass(frozen=True, kw_only=True)
class MatrixCell(JsonRecord):
    """A cell of a case."""

    case: str
    cell: Mapping[str, str]
    expected: Verdict | None
    unsupported: str | None
    """why this host cannot serve it"""
    notes: tuple[str, ...]


CellList = tuple[MatrixCell, ...]


@dataclass(frozen=True, kw_only=True)
class ServedCell(JsonRecord):
    """A cell that an image serves."""

    case: str
    cell: Mapping[str, str]
    variant: Variant


@dataclass(frozen=True, kw_only=True)
class ServingImage(JsonRecord):
    """An image, and the cells that share it."""

    tag: str
    id: str
    built: bool
    """now, in `seconds`"""
    seconds: float
    size: int
    """in bytes"""
    cells: tuple[ServedCell, ...]


@dataclass(frozen=True, kw_only=True)
class CellWithoutImage(ServedCell):
    """A cell that has no image, and why."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, kw_only=True)
class ImageList(JsonDocument):
    """What `run --build-only` built or found, and what it could not build."""

    FORMAT = "reprokit-build/v1"

    images: tuple[ServingImage, ...]
    failed: tuple[CellWithoutImage, ...]


def describe_build(done: BuildResult) -> ImageList:
    """What was built or found."""
    return ImageList(
        images=tuple(
            ServingImage.pick(
                ready.image,
                built=ready.built,
                seconds=round(ready.seconds, 3),
                cells=tuple(ServedCell.pick(one, case=one.case.id) for one in tasks),
            )
            for ready, tasks in done.built
        ),
        failed=tuple(CellWithoutImage.pick(one, case=one.case_id) for one in done.failed),
    )


@dataclass(frozen=True, kw_only=True)
class CaseLock(JsonRecord):
    """The lock of a case."""

    case: str
    path: str
    state: Literal["fresh", "stale", "written"]
    """whether the file holds for all cells now"""
    faults: tuple[str, ...]
    """what was missing or stale"""


@dataclass(frozen=True, kw_only=True)
class CellsWithoutLock(JsonRecord):
    """Cells of a case that no lock was made for."""

    case: str
    cells: tuple[Mapping[str, str], ...]
    reason: str
    lasting: bool
    """they are unsupported, which is locked"""


@dataclass(frozen=True, kw_only=True)
class Locks(JsonDocument):
    """What `lock` wrote, or found with --check."""

    FORMAT = "reprokit-locks/v1"

    locks: tuple[CaseLock, ...]
    refused: tuple[CellsWithoutLock, ...]


def describe_locks(done: LockResult) -> Locks:
    """What became of locks."""
    return Locks(
        locks=tuple(
            CaseLock(
                case=one.tasks[0].case.id,
                path=str(one.path),
                state="written" if one.path in done.written else "stale" if one.todo else "fresh",
                faults=one.faults,
            )
            for one in done.wishes
        ),
        refused=tuple(
            CellsWithoutLock.pick(one, case=one.tasks[0].case.id, cells=tuple(task.cell for task in one.tasks))
            for one in done.refused
        ),
    )
