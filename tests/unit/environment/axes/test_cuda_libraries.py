"""The libraries of CUDA: what frameworks open by name, and what a cell of wheels has."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.case.matrix import expand
from reprokit.case.render import render
from reprokit.environment.axes.cuda import LIBRARIES
from reprokit.environment.cases import load
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from tests.paddle_libraries import WHEELS

CASE = Path(__file__).parents[4] / "cases" / "cityscapes_rmi.yaml"


def test_both_cells_of_the_report_from_two_machines_have_what_paddle_opens() -> None:
    [file] = load(str(CASE))
    matrix = file.case.matrix
    cells = expand(matrix.axes, matrix.exclude, matrix.include)
    assert [cell["cuda"] for cell in cells] == ["11.8", "12.0"]
    for cell in cells:
        found = resolve(render(file.case, cell), Supply(base_source="bootstrap"))
        assert found.cuda is not None
        assert found.cudnn is not None
        wheels = (*found.cuda.requirements, *found.cudnn.requirements, *found.parts["nccl"].tree)
        names = {wheel.partition("==")[0].removesuffix(f"-cu{cell['cuda'][:2]}") for wheel in wheels}
        assert set(WHEELS.values()) <= names


@pytest.mark.parametrize("library", sorted(set(WHEELS) - {"libcudnn.so", "libnccl.so", "libnvToolsExt.so"}))
def test_what_paddle_opens_of_the_toolkit_is_looked_for_in_every_image(library: str) -> None:
    """cuDNN and NCCL are axes of their own; libnvToolsExt.so went with 13.0."""
    assert library in LIBRARIES
