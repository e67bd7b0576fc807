"""``reprokit explain`` as a user types it, on the real engine."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_run import REPOSITORY, User

pytestmark = pytest.mark.integration
PTXAS = str(REPOSITORY / "cases" / "ptxas_unknown_arch.yaml")


class Asker(User):
    """Someone who wants to know why."""

    def why(self, what: str) -> dict[str, Any]:
        [case] = json.loads(self.types("explain", what, "--json", "-"))["cases"]
        explanation: dict[str, Any] = case["explanation"]
        return explanation


@pytest.fixture
def user(tmp_path: Path) -> Asker:
    return Asker(tmp_path)


def test_the_first_case_is_explained_by_two_conjunctions_and_the_proposed_cells_distinguish_rivals(user: Asker) -> None:
    user.types("run", PTXAS, "--only", "cuda=11.7,arch=sm_90", "--only", "cuda=11.8,arch=sm_35")
    explanation, rounds = user.why(PTXAS), 0
    assert (explanation["claim"], explanation["words"], explanation["rivals"][0]["words"]) == (
        "one-of",
        "arch = sm_90",
        "cuda = 11.7",
    )
    while explanation["claim"] == "one-of":
        for telling in explanation["tell_apart"]:
            user.types(*shlex.split(telling["command"])[1:])
        explanation, rounds = user.why(PTXAS), rounds + 1
    assert (explanation["claim"], rounds < 4) == ("exact", True)

    words = "cuda = 11.7 and arch = sm_90, or cuda = 12.0 and arch = sm_35"
    assert f"reproduces exactly when {words} (in the 6 cells decided)" in user.types("run", PTXAS)
    assert user.result()["cases"][0]["explanation"]["words"] == words
    assert "or cuda = 12.0 and arch = sm_35" in user.types("explain")
    user.types("run", PTXAS, "--only", "cuda=11.8")
    assert "no claim: none of the 2 cells decided reproduces" in user.types("explain", "last")
