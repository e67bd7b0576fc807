"""Which command a report's draft runs, by how the report shows it."""

from __future__ import annotations

import pytest

from reprokit.intake.drafting import draft

FAILS = "```\nwobble: error: cannot read the file\n```\n"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("```shell\nwobble check\n```\n\n" + FAILS, "wobble check"),
        ("```shell\n> wobble-server --port 80\nwobble: error: cannot open\n```\n", "wobble-server --port 80"),
        ("```sh\n(venv) me-MacBook:src me$ wobble\nwobble: error: cannot open\n```\n", "wobble"),
        # The home is left out of the text before: ~>pip.
        ("```\n(base) C:\\Users\\me>pip install wobble\nERROR: No matching distribution found for w\n```\n", "wobble"),
        ("```\nCPPFLAGS=-I/a\\ -std=c++11 cmake -D CMAKE_CXX_COMPILER=b ../\n```\n\n" + FAILS, "../"),
        (
            (
                "The build command:\nmake WOBBLE=1 -j 4\n\n```\nnvcc -std=c++11 -O3 -g -c a.cu -o a.o\n"
                "a.cu(3): error: identifier undefined\nmake: *** [Makefile:3: a.o] Error 2\n```\n"
            ),
            "make WOBBLE=1 -j 4",
        ),
        (
            "When I pip install wobble-kit I get this error:\n\nERROR: No matching distribution found for w\n",
            "wobble-kit",
        ),
    ],
)
def test_the_command_is_found(text: str, command: str) -> None:
    found = str(draft(f"# It fails\n\nDebian 12.\n\n{text}").data["command"])
    assert found.endswith(command)
    assert found.startswith(("wobble", "cmake", "make", "pip"))


def test_a_fence_of_output_without_a_command_is_not_run() -> None:
    text = "# It fails\n\n```sh\nwobble begins\nreading the file\nwobble: error: cannot read the file\n```\n"
    assert "TODO(reprokit)" in str(draft(text).data["command"])
