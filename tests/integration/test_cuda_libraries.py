"""Every library that PaddlePaddle opens by its plain name is in the image of the report from two machines."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.render import render
from reprokit.engine.docker.engine import DockerEngine
from reprokit.environment.cases import load
from tests import paddle_libraries
from tests.conftest import as_files
from tests.integration.test_environment_images import built, output

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not os.environ.get("REPROKIT_TEST_LARGE"),
        reason="REPROKIT_TEST_LARGE is not set: it downloads 4 GB and builds an image of 8 GB",
    ),
]

CASE = Path(__file__).parents[2] / "cases" / "cityscapes_rmi.yaml"


@pytest.mark.nightly
def test_what_paddle_opens_is_in_the_image(engine: DockerEngine) -> None:
    [file] = load(str(CASE))
    axes = {"os": "debian-12", "cuda": "11.8", "cudnn": "8.6", "python": "3.11", "gcc": "12.2", "nccl": "2.16"}
    spec = render(file.case, axes)
    program = {"opens.py": paddle_libraries.PROGRAM}
    environment = replace(spec.environment, pip=("paddlepaddle-gpu==2.6.2", "numpy==1.26.4"))
    bare = replace(spec, environment=environment, sources={}, datasets={}, files=as_files(program))
    image = built(engine, bare)
    looked = output(engine, image, "LD_DEBUG=libs python opens.py 2>&1 || true")
    after = looked.rpartition("libraries of functions")[2]
    names = set(re.findall(r"find library=(lib(?:cu|nv|nccl|mkl_rt)\w*\.so) ", after))
    assert names == {*paddle_libraries.WHEELS, *paddle_libraries.OTHERS}
    opens = output(engine, image, f"python opens.py {' '.join(paddle_libraries.WHEELS)}").split()
    assert opens == list(paddle_libraries.WHEELS)
