"""Keys of ``expect`` that are about measured numbers, in place of ``failure``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from reprokit.case.scalars import PartialCell, PlainSize, Times

MEASURES = ("leaks", "slower_than", "more_memory_than")
"""The keys."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Leaks(_Model):
    """A leak: the memory of a trial grows with every iteration that it marks."""

    per_iteration: PlainSize = Field(
        description="The case reproduces where the memory grows by more than this per iteration, such as 1MiB. The "
        "command prints `reprokit: iteration N` at the end of each, 20 times or more."
    )


class Ratio(_Model):
    """How many times as much as a reference a cell needs; trials of both take turns, with nothing beside them."""

    ratio: Times = Field(description="The case reproduces where the cell needs more than this many times as much.")
    of: PartialCell = Field(
        description="Axis values of the reference, such as {numpy: 1.26.4}: the case without its fix in the cell that "
        "has these, and else the same values."
    )
