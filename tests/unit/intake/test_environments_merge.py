"""Which blocks describe one environment, what becomes of them together, and what holds for any text."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.intake import environments
from reprokit.intake.environment_model import EnvironmentBlock, Rank, ReportedValue, group_blocks, merge
from reprokit.intake.environments import find_blocks
from reprokit.intake.pieces import LONGEST, ReportLine, split_lines

NVCC = "Cuda compilation tools, release 12.0, V12.0.76\n"
TYPED = "- OS: Ubuntu 20.04\n- Python: 3.9\n- torch: 2.0.1+cu118\n- GPU: Tesla T4\n"
SMI = "| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.2     |\n"


def test_the_toolkit_wins_over_the_frameworks_build_and_both_are_noted() -> None:
    (group,) = group_blocks(find_blocks(f"{TYPED}\n\n\n```\n{NVCC}```\n\n```\n{SMI}```\n"))
    one = merge(group)
    assert one.kind == "typed+nvcc+nvidia-smi"
    assert dict(one.axes) == {"os": "ubuntu-20.04", "python": "3.9", "cuda": "12.0.76"}
    assert one.notes == (
        "cuda 12.0.76 (NVCC: Cuda compilation tools, release 12.0, V12.0.76), but 11.8 (torch: 2.0.1+cu118)",
    )
    assert (one.first, one.last) == (1, 13)
    assert list(one.values) == ["OS", "Python", "torch", "GPU", "NVCC", "nvidia-smi"]


def test_a_typed_version_equal_to_the_drivers_is_noted_as_doubtful() -> None:
    (group,) = group_blocks(find_blocks(f"CUDA: 12.2\nPython: 3.9\n\n\n```\n{SMI}```\n"))
    assert merge(group).notes == (
        "cuda 12.2 is also the highest that the driver supports, so it may not be the toolkit's",
    )


def test_blocks_that_contradict_each_other_are_environments_of_their_own() -> None:
    other = TYPED.replace("3.9", "3.11")
    text = f"A:\n\n{TYPED}\n\n\nB:\n\n{other}\n\n\n\n```\nattrs==1.0\nsix==1.16.0\ntorch==2.0.1\n```\n"
    first, second = group_blocks(find_blocks(text))
    assert [one.kind for one in first] == ["typed"]
    assert [one.kind for one in second] == ["typed", "pip"]
    windows = find_blocks("- OS: Windows 10\n- Python: 3.9\n\n\n\n- OS: Ubuntu 20.04\n- torch: 1.9.0\n")
    assert len(group_blocks(windows)) == 2


def test_any_package_separates_two_environments_of_the_same_kind() -> None:
    fails, works = "Python: 3.11.2\nscipy: 1.26.4\n", "Python: 3.11.2\nscipy: 1.23.5\n"
    assert len(group_blocks(find_blocks(f"```\n{fails}```\n\n```\n{works}```\n"))) == 2
    assert len(group_blocks(find_blocks(f"```\n{fails}```\n\n```\n{fails}```\n"))) == 1
    # What is installed, beside what the reporter remembers of it, is a contradiction within one environment.
    assert len(group_blocks(find_blocks(f"```\n{works}```\n\n```\nattrs==1.0\nscipy==1.26.4\nsix==1.16.0\n```\n"))) == 1


def test_the_first_block_keeps_its_keys_and_other_versions_are_noted() -> None:
    one = EnvironmentBlock(kind="a", first=1, last=2, values={"k": "1"}, packages={"numpy": "1.20.0"}, gpus=("x",))
    other = EnvironmentBlock(
        kind="b", first=5, last=9, values={"k": "2", "l": "3"}, packages={"numpy": "1.21.0"}, gpus=("y",)
    )
    both = merge([one, other])
    assert (dict(both.values), dict(both.packages), both.gpus) == ({"k": "1", "l": "3"}, {"numpy": "1.20.0"}, ("x",))
    assert both.notes == ("numpy is 1.20.0 (a) and 1.21.0 (b)",)
    assert merge([one]) == one
    with pytest.raises(ValueError, match="no environment"):
        merge([])


def test_within_a_rank_the_more_precise_version_is_the_axis() -> None:
    claims = [
        ReportedValue(axis="python", version=text, rank=Rank.STATED, quote=text) for text in ("3.8", "3.8.10", "3.8.1x")
    ]
    assert EnvironmentBlock(kind="a", first=1, last=1, claims=tuple(claims)).axes == {"python": "3.8.10"}


_WORDS = st.sampled_from(
    """\
Python: 3.8.10;FROM a:b;RUN pip install 'x;| a | b | c |;```;~~~;> ;- ;platform: ;GPU 0: X;\\;环境：;cuda 11.2;ENV A;
PyTorch compiling details: x;sys.platform: linux;numpy==1.2;dependencies:;  - pip:;    - a;### OS;docker run -e;
NVIDIA-SMI 1;cuDNN version: Probably;Package Version""".replace("\n", "").split(";")
)


@settings(deadline=None)
@given(st.lists(st.one_of(_WORDS, st.text(max_size=40)), max_size=30), st.sampled_from(["\n", " ", "\n\n", ": "]))
def test_any_text_is_read_and_every_block_is_within_it(words: list[str], between: str) -> None:
    text = between.join(words)
    found = find_blocks(text)
    count = len(text.splitlines())
    for one in found:
        assert 1 <= one.first <= one.last <= count
        assert set(one.axes) <= {"os", "cuda", "cudnn", "python", "gcc"}
        assert all(one.axes.values())
        assert one.notes is not None
    groups = group_blocks(found)
    assert sorted(map(id, found)) == sorted(id(one) for group in groups for one in group)
    for group in groups:
        merge(group)


@given(st.text())
def test_lines_lose_nothing(text: str) -> None:
    assert [line.raw for line in split_lines(text)] == text.splitlines()


_HARD = [
    "PyTorch compiling details: a\n" + "  - b\n" * 20,
    "Python: 3.8\n" + "x: y\n" * 5,
    "RUN pip install \\\n" * 20,
    "FROM a:b\n" + "RUN x \\\n" * 20,
    "dependencies:\n" + "  - a\n" * 10,
    "a==1\nb\n" * 10,
    "A=b\n" * 20,
    "- " * 200 + "\n",
    "> " * 200 + "\n",
    "((((" * 200 + "\n",
    "Ubuntu " * 200 + "\n",
    "| a | b | c |\n" * 10,
    "### OS\n\n" * 10,
    "'" * 200 + "GPU: '\n",
    "cuda" * 200 + "\n",
]


class Counted(list[ReportLine]):
    """Lines that count how many of them are looked at."""

    looked = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.looked += len(found) if isinstance(place, slice) else 1
        return found


def work(text: str) -> int:
    """Calls of functions, and lines looked at, while all finders read a text."""
    calls = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    counted = Counted(split_lines(text))
    sys.setprofile(called)
    try:
        for finder in environments._FINDERS:
            for _ in finder(counted):
                pass
    finally:
        sys.setprofile(None)
    return calls + counted.looked


@pytest.mark.system
@pytest.mark.parametrize("piece", _HARD)
def test_work_grows_linearly_with_the_text(piece: str) -> None:
    assert work(piece * 80) <= 4.4 * work(piece * 20) + 2000


def test_no_line_is_read_beyond_its_first_part() -> None:
    """Patterns meet short texts only: what they may do within one is bounded, whatever the length of the report."""
    long = split_lines("a" * 100_000 + "\n> " + "b" * 100_000)
    assert max(len(line.text) for line in long) <= LONGEST
