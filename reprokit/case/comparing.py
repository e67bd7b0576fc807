"""``expect.compare``: outputs of trials that are compared number by number, and with what."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Tag, model_validator

from reprokit.case.scalars import Below, OutputGlob, PartialCell, Tolerated, Truth, Whole, expected, mapping_or

MOST_PATTERNS = 100


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ReferenceOf(_Model):
    """What outputs are compared with: the cell that has these values, and is alike otherwise; or a file of the case."""

    cell: PartialCell | None = Field(
        None, description="Axis values: the outputs of the cell that has them, and else the same values."
    )
    file: Below | None = Field(
        None, description="A file of `files` that holds what the one output should be, such as expected.json."
    )

    @model_validator(mode="before")
    @classmethod
    def _one_of_both(cls, data: Any) -> Any:
        if isinstance(data, dict) and ("cell" in data) == ("file" in data):
            raise expected("either cell or file", "such as {cell: {numpy: 1.26.4}}, or {file: expected.json}")
        return data


FEWEST_TRIALS = 4
"""Trials of each cell. Noise of any size then passes for a difference between two cells in at most 1 % of pairs: 0.3 %
in the worst case that a simulation of normal and uniform noise found, and 8 % with two trials."""


class Compare(_Model):
    """Numbers that a trial writes, against those of a reference. A cell reproduces where they differ.

    Each cell gets four trials at least: one whose own trials differ beyond the tolerance is `inconclusive`.
    """

    outputs: Annotated[tuple[OutputGlob, ...], Field(min_length=1, max_length=MOST_PATTERNS)] = Field(
        description="Globs below workdir of what a trial writes: .npy, .npz, .safetensors, .json, .png, or text."
    )
    reference: Annotated[
        Annotated[Literal["majority"], Tag("text")] | Annotated[ReferenceOf, Tag("mapping")],
        mapping_or("text", ReferenceOf),
    ] = Field(
        "majority",
        description="What they are compared with: `majority` (default), that of more than half of the cells; or "
        "{cell: {numpy: 1.26.4}}; or {file: expected.json}.",
    )
    rtol: Tolerated = Field(0.0, description="How far a number may be off, as a share of the reference.")
    atol: Tolerated = Field(0.0, description="How far a number may be off in any case; what rtol allows is added.")
    ulp: Whole = Field(
        0, description="How many floating-point numbers of its dtype a number may be off, whatever rtol and atol allow."
    )
    equal_nan: Truth = Field(False, description="Whether NaN agrees with NaN. NaN in both is inconclusive else.")
    mismatch: Literal["inconclusive", "reproduced"] = Field(
        "inconclusive",
        description="What another shape or dtype than the reference's, or NaN everywhere, is: inconclusive (default), "
        "or reproduced, where that is the bug.",
    )
