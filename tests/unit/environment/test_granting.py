"""What of a case's limits a host with caps grants."""

from __future__ import annotations

import pytest

from reprokit.case.cellspec import Limits
from reprokit.core.errors import Unsupported
from reprokit.environment.granting import Caps

GIB = 1024**3


def test_without_caps_the_case_decides() -> None:
    limits = Limits(memory=64 * GIB, timeout=86400.0)
    assert Caps().grant(limits) == limits


def test_what_a_case_leaves_open_is_capped() -> None:
    caps = Caps(memory=4 * GIB, cpus=2.0, pids=100, timeout=600.0)
    assert caps.grant(Limits()) == Limits(memory=4 * GIB, cpus=2.0, pids=100, timeout=600.0)
    modest = Limits(memory=GIB, cpus=1.0, pids=60, timeout=60.0)
    assert caps.grant(modest) == modest
    assert Caps(timeout=7200.0, pids=5000).grant(Limits()) == Limits()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(memory=16 * GIB), r"resources\.memory 16 GiB; this host grants at most 4 GiB \(max_memory"),
        (Limits(cpus=2.5), r"resources\.cpus 2\.5; this host grants at most 2 \(max_cpus"),
        (Limits(timeout=3600.0), r"resources\.timeout 3600 s; this host grants at most 600 s \(max_timeout"),
    ],
)
def test_more_than_the_cap_is_refused_with_the_key(limits: Limits, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        Caps(memory=4 * GIB, cpus=2.0, timeout=600.0).grant(limits)
