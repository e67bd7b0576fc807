"""The stacks on a cell's page."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.report.html.cell import MOST_THREADS, stacks_of

GOLDEN = Path(__file__).parents[2] / "golden" / "stacks"


def test_no_stacks_no_section() -> None:
    assert stacks_of("fine\n") is None


def test_the_thread_that_crashed_comes_first_with_both_kinds_of_frames() -> None:
    found = stacks_of((GOLDEN / "c-extension.log").read_text())
    assert found is not None
    assert found["threads"][0]["name"].endswith(": SIGSEGV")
    calls = [call for call, _ in found["threads"][0]["frames"]]
    assert calls[0] == "PyObject_Size"
    assert calls[-1] == "<module>"
    assert (found["more"], found["missing"]) == (0, "")


def test_of_a_hang_the_last_look_is_shown_with_how_often_it_was_the_same() -> None:
    found = stacks_of((GOLDEN / "hang-queue.log").read_text())
    assert found is not None
    assert found["title"].startswith("Stacks at the time limit: ")
    assert any(one["name"].endswith("the same in 3 of 3 looks") for one in found["threads"])


def test_why_there_are_none() -> None:
    found = stacks_of("fine\n[reprokit: no stacks: ptrace is refused]\n")
    assert found == {"title": "No stacks", "threads": [], "more": 0, "missing": "ptrace is refused"}


def test_a_page_has_a_bounded_number_of_threads() -> None:
    text = (GOLDEN / "hang-queue.log").read_text()
    head, *lines = text[text.rindex("[reprokit: stacks of process") :].splitlines()
    thread = [line for line in lines if line.startswith("    ")][:2]
    many = "".join(f"Thread {number} (idle)\n" + "\n".join(thread) + "\n" for number in range(1, 101))
    found = stacks_of(f"x\n{head}\n{many}{lines[-1]}\n")
    assert found is not None
    assert (len(found["threads"]), found["more"]) == (MOST_THREADS, 100 - MOST_THREADS)


@pytest.mark.parametrize("cut", range(0, 3000, 97))
def test_a_cut_log_is_not_a_defect(cut: int) -> None:
    text = (GOLDEN / "c-extension.log").read_text()
    stacks_of(text[:-cut] if cut else text)
