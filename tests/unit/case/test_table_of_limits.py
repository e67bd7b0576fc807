"""One row for each key of ``resources``: what is not in all its places is found here."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from reprokit.case.cellspec import Limits
from reprokit.case.limits import LIMITS, LimitRow, docker_body, libpod_spec, option_words
from reprokit.case.model import Resources
from reprokit.environment.granting import Caps
from reprokit.evidence.details import LimitsRecord

SITE = {"disk", "build_time"}
"""Limits that no case has: the site's alone."""

ASKED: dict[str, Any] = {
    "gpus": 1,
    "gpu_memory": 1 << 30,
    "gpu_model": "V100",
    "gpu_capabilities": ("video",),
    "cpus": 1.5,
    "memory": 1 << 30,
    "shm_size": 1 << 20,
    "ipc": "host",
    "pids": 9,
    "ulimits": ("nofile=1024:4096",),
    "timeout": 7.0,
    "network": "bridge",
    "backtrace": True,
    "user": "root",
    "output": "separate",
}


def test_a_key_of_the_format_has_a_row_a_field_and_a_value_here() -> None:
    keys = [row.key for row in LIMITS]
    assert keys == list(Resources.model_fields)
    assert set(keys) | SITE == {one.name for one in fields(Limits)}
    assert set(keys) == set(ASKED)


def test_a_record_and_the_caps_have_what_the_table_says() -> None:
    assert {row.key for row in LIMITS if row.recorded} | SITE == {one.name for one in fields(LimitsRecord)}
    assert {row.cap for row in LIMITS if row.cap} <= {one.name for one in fields(Caps)}


@pytest.mark.parametrize("row", LIMITS, ids=[row.key for row in LIMITS])
def test_what_one_engine_is_asked_for_the_others_are_too(row: LimitRow) -> None:
    asked, plain = Limits(**{row.key: ASKED[row.key]}), Limits()
    changed = [
        ask(asked) != ask(plain)  # type: ignore[operator]
        for ask in (docker_body, libpod_spec, option_words)
    ]
    assert len(set(changed)) == 1, f"{row.key}: Docker, Podman and the line that repeats a trial differ: {changed}"
    assert row.is_asked(asked)
    assert not row.is_asked(plain)
    assert row.shown(ASKED[row.key])


def test_the_line_has_the_limit_of_processes_that_a_trial_gets_without_asking() -> None:
    assert "--pids-limit=4096" in option_words(Limits())
