"""The list of engines: every package that it names declares itself, and is tested as the others are."""

from __future__ import annotations

import pytest

from reprokit.engine import kinds, registry
from tests.conformance.conftest import SUBJECTS


def test_every_engine_declares_itself() -> None:
    assert [one.kind for one in registry.entries()] == list(kinds.KINDS)
    for one in registry.entries():
        assert one.help
        assert (one.capabilities.recipe == "script") == (one.host is not None)
        assert (one.start is not None) == bool(one.package)


def test_every_engine_runs_the_conformance_tests() -> None:
    assert set(kinds.KINDS) <= {subject.id for subject in SUBJECTS}


@pytest.mark.parametrize("name", [kinds.AUTO, "of-a-newer-reprokit"])
def test_an_engine_that_is_unknown_here_can_do_what_the_reference_can(name: str) -> None:
    assert registry.capabilities(name) == registry.entries()[0].capabilities


def test_only_another_engine_than_the_reference_is_mentioned() -> None:
    assert [kind for kind in ("", *kinds.KINDS, "toy") if not registry.is_reference(kind)] == [*kinds.KINDS[1:], "toy"]
