"""``environment.pip_before``: what images that have it do otherwise, and that others stay as they were."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from reprokit.case import units
from reprokit.environment import dockerfile, lock
from reprokit.environment.on_host import resolve_on
from reprokit.environment.steps import short_step
from tests.unit.environment.builders import HOST, artefact, cell, pins, rendered

DAY = "2021-05-04T00:00:00Z"
INSTALLS: dict[str, Any] = {"pip": ("mxnet==1.9.1", "six", "-r requirements.txt"), "setup": "pip install wheel\n"}
BASE = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("", ""),
        ("  ", ""),
        ("2021-05-04", DAY),
        ("2021-05-04T00:00:00Z", DAY),
        ("2021-05-04 02:00:00+02:00", DAY),
        ("2021-05-03t22:00:00-02:00", DAY),
        ("2021-05-04T00:00:00.75z", DAY),
        ("2020-02-29", "2020-02-29T00:00:00Z"),
    ],
)
def test_a_day_begins_at_midnight_utc_and_a_moment_has_an_offset(text: str, moment: str) -> None:
    assert units.instant(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        *("yesterday", "2021", "2021-5-4", "2021-02-29", "2021-13-01", "2021-05-04T10:00:00", "2021-05-04T10:00Z"),
        *("2021-05-04T25:00:00Z", "2021-05-04T10:00:00+99:00", "0001-01-01T00:00:00+01:00"),
        *("9999-12-31T23:59:59-01:00", "2021-05-04; id", "٢٠٢١-05-04", "2021-05-04\n2021-05-04"),
    ],
)
def test_what_is_not_a_day_or_a_moment_is_said_to_be_wrong(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a date such as 2021-05-04, or a date and time with its offset such as"):
        units.instant(text)


def limited(**more: Any) -> dockerfile.Rendered:
    return rendered({"cuda": "12.0", "cudnn": "8.9"}, **INSTALLS, **more)


def test_an_image_without_it_has_the_bytes_that_it_had() -> None:
    plain = limited()
    assert "pip_before" not in plain.dockerfile
    assert "REPROKIT_PIP" not in plain.dockerfile
    assert not [name for name in plain.context if "before" in name or "of_setup" in name]
    assert limited(pip_before="").tag(BASE) == plain.tag(BASE)


def test_where_pip_installs_nothing_it_makes_no_other_image() -> None:
    assert rendered({}, pip_before=DAY).tag(BASE) == rendered({}).tag(BASE)


def test_it_holds_for_the_requirements_of_the_case_and_its_setup_and_not_for_wheels_of_axes() -> None:
    found = limited(pip_before=DAY)
    runs = [step for step in re.split(r"\n(?=[A-Z]+ )", found.dockerfile) if step.startswith("RUN ")]
    with_limit = [step for step in runs if f"export REPROKIT_PIP_BEFORE={DAY}" in step]
    assert [short_step(step) for step in with_limit] == [
        "pip install mxnet==1.9.1",
        "pip install mxnet==1.9.1 six",
        "pip install -r requirements.txt",
        "environment.setup",
    ]
    for step in with_limit:
        assert "source=reprokit/pip_before.py,target=/run/reprokit/pip_before.py" in step
        assert "source=reprokit/keeping_pip.py,target=/run/reprokit/keeping_pip.py" in step
    assert "pip install pip==" in found.dockerfile
    assert not [step for step in runs if "wheels/cu" in step and "PIP_BEFORE" in step]
    assert {"reprokit/pip_before.py", "reprokit/pip_of_setup.py"} <= set(found.context)
    assert limited(pip_before="2021-05-05T00:00:00Z").tag(BASE) != found.tag(BASE)


def test_a_locked_image_chooses_only_between_files_of_the_versions_of_its_lock() -> None:
    locked = pins(pip=(artefact("six", "1.15.0"),))
    found = rendered({}, pins=locked, pip=("six", "./here"), setup="pip install ./x", pip_before=DAY)
    assert found.dockerfile.count(f"export REPROKIT_PIP_BEFORE={DAY}") == 1
    assert found.dockerfile.count("PIP_BEFORE") == 1  # what is local, and setup, reach no index in a locked image


def test_a_lock_remembers_it_and_locks_of_cases_without_it_stay_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(lock, "_canonical", lambda value: asked.append(value) or b"")
    spec = cell({}, pip=("six",))
    for moment in ("", DAY):
        lock.asked_digest(replace(spec, environment=replace(spec.environment, pip_before=moment)), reads_files=False)
    assert "pip_before" not in asked[0]["environment"]  # versions without the key wrote those digests
    assert asked[1]["environment"]["pip_before"] == DAY


def test_a_virtual_environment_of_a_host_keeps_to_it() -> None:
    def script(**more: Any) -> dockerfile.Rendered:
        spec = cell({"cudnn": "8.9", "cuda": "12.0"}, **INSTALLS, **more)
        return dockerfile.render(resolve_on(HOST, spec), spec, sources={}, given_datasets=set())

    plain, found = script(), script(pip_before=DAY)
    assert "PIP_BEFORE" not in plain.dockerfile
    calls = [line for line in found.dockerfile.splitlines() if re.match(r"(limited_)?pip install", line)]
    assert [line for line in calls if line.startswith("limited_pip")] == [
        "limited_pip install mxnet==1.9.1",
        "limited_pip install mxnet==1.9.1 six",
        "limited_pip install -r requirements.txt",
    ]
    assert all("--target" in line for line in calls if line.startswith("pip "))
    assert 'PYTHONPATH="$limited" \\\nBASH_ENV=' in found.dockerfile
    assert {"reprokit/pip_before.py", "reprokit/pip_of_setup.py", "reprokit/keeping_pip.py"} <= set(found.context)
