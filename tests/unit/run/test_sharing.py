"""Which cases share images with other machines, and what a build does with a registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprokit.case.trust import Trust
from reprokit.run.request import Request
from reprokit.run.run_session import Session


@pytest.mark.parametrize(
    ("push", "shared"),
    [("trusted", [Trust.OWN, Trust.REVIEWED]), ("never", [Trust.OWN, Trust.REVIEWED]), ("all", list(Trust))],
)
def test_images_of_untrusted_cases_are_shared_only_where_the_site_says_so(
    push: str, shared: list[Trust], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REPROKIT_REGISTRY_IMAGES", "registry.example.com/team")
    monkeypatch.setenv("REPROKIT_REGISTRY_PUSH", push)
    nothing: Any = None

    class Listener:
        def note(self, text: str) -> None:
            raise AssertionError(text)

    listener: Any = Listener()
    shares = Session(tmp_path, display=nothing)._shares(Request(cases=()), listener)
    assert [level for level in Trust if shares(level)] == shared
    share: Any = shares(Trust.OWN)
    assert share.pushes is (push != "never")
    monkeypatch.delenv("REPROKIT_REGISTRY_IMAGES")
    none = Session(tmp_path, display=nothing)._shares(Request(cases=()), listener)
    assert not any(none(level) for level in Trust)
