"""What a run says of its images and its time."""

from __future__ import annotations

import dataclasses

import pytest

from reprokit.evidence.records import CellRecord, ImageRecord
from reprokit.report.labels import totals

BUILT = ImageRecord(tag="a", id="1", built=True, seconds=100.0)
OTHER = ImageRecord(tag="b", id="2", built=True, seconds=30.5)
REUSED = ImageRecord(tag="c", id="3", seconds=0.1)


def cell(image: ImageRecord | None, seconds: float | None) -> CellRecord:
    plain = CellRecord(number=1, case_id="c", case_path="c.yaml", case_digest="sha256:0", cell={})
    return dataclasses.replace(plain, image=image, seconds=seconds)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (
            [cell(BUILT, 10.0), cell(BUILT, 20.0), cell(OTHER, 5.0), cell(REUSED, 5.0)],
            "built 2 images in 2 min 10 s, reused 1; trials 40.0 s",
        ),
        ([cell(REUSED, 0.5)], "reused 1 image; trials 0.50 s"),
        (
            [cell(dataclasses.replace(BUILT, built=False), 1.0), cell(BUILT, None)],
            "built 1 image in 1 min 40 s; trials 1.0 s",
        ),
        ([cell(None, None)], ""),
    ],
)
def test_totals_count_each_image_once(cells: list[CellRecord], text: str) -> None:
    assert totals(cells) == text
