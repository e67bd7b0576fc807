"""Keys of ``expect`` that are about measured numbers, in place of ``failure``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from reprokit.case.scalars import PlainSize

MEASURES = ("leaks",)
"""The keys."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Leaks(_Model):
    """A leak: the memory of a trial grows with every iteration that it marks."""

    per_iteration: PlainSize = Field(
        description="The case reproduces where the memory grows by more than this per iteration, such as 1MiB. The "
        "command prints `reprokit: iteration N` at the end of each, 20 times or more."
    )
