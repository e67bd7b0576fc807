"""Logs of real programs, each with what must be read out of it: the specification of the parsers.

``reproduced_by`` and ``not_reproduced_by`` in a sidecar are signatures as a case would give them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprokit.case.model import Failure
from reprokit.evidence.judgement import judge
from reprokit.evidence.log_trimmer import LogTrimmer
from reprokit.evidence.model import Ending, ExceptionSeen, Outcome
from reprokit.evidence.observation import observe
from tests.golden import FOLDER, LOGS, load


def as_written(seen: ExceptionSeen) -> dict[str, Any]:
    """An exception in the form of the sidecar files."""
    shown: dict[str, Any] = {"type": seen.type}
    if len(seen.message) <= 500:
        shown["message"] = seen.message
    else:
        shown["message_start"] = seen.message[: seen.message.index("\n")]
        shown["message_end"] = seen.message[seen.message.rindex("\n") + 1 :]
    shown["lines"] = [seen.line, seen.end_line]
    if seen.frames:
        shown["frames"] = [f"{f.file.rpartition('/')[2]}:{f.line}:{f.function}" for f in seen.frames]
    if seen.nested:
        shown["members"] = [as_written(member) for member in seen.nested]
    return shown | {key: True for key in ("cause_of_next", "ignored") if getattr(seen, key)}


def test_every_log_has_its_sidecar() -> None:
    assert len(LOGS) > 50
    assert sorted(path.stem for path in FOLDER.glob("*.yaml")) == LOGS


@pytest.mark.parametrize("name", LOGS)
def test_log_is_read_as_expected(name: str) -> None:
    text, expected = load(name)
    observation = observe(text)
    assert [as_written(seen) for seen in observation.exceptions] == expected["exceptions"]
    assert [[crash.kind, crash.line] for crash in observation.crashes] == expected["crashes"]


@pytest.mark.parametrize("name", LOGS)
def test_signatures_hold_or_not(name: str) -> None:
    text, expected = load(name)
    ending = Ending(exit_code=expected["exit_code"])
    for signature in expected.get("reproduced_by", ()):
        judgement = judge(Failure(**signature), ending, text)
        assert judgement.outcome is Outcome.REPRODUCED, (signature, judgement.reason)
    for signature in expected.get("not_reproduced_by", ()):
        judgement = judge(Failure(**signature), ending, text)
        assert judgement.outcome is not Outcome.REPRODUCED, (signature, judgement.reason)


@pytest.mark.system
@pytest.mark.parametrize("name", LOGS)
def test_a_flood_around_the_log_changes_no_finding(name: str, tmp_path: Path) -> None:
    text, expected = load(name)
    raw = (FOLDER / f"{name}.log").read_bytes()
    flood = b"".join(b"step %d value %d\n" % (i, i * 7) for i in range(20_000))
    signatures = expected.get("reproduced_by") or [{}]
    for signature in signatures[:1]:
        path = tmp_path / "log"
        file = path.open("w+b", buffering=0)
        with LogTrimmer(file, Failure(**signature), head=4096, kept=1 << 20, tail=4096) as trimmer:
            trimmer.feed(flood + b"\n" + raw + (b"" if raw.endswith(b"\n") else b"\n") + b"\n" + flood)
        kept = path.read_bytes().decode("utf-8", "replace")
        assert len(kept) < len(flood) // 2
        plain, trimmed = observe(text), observe(kept)
        assert [(e.type, e.message, e.frames) for e in trimmed.exceptions] == [
            (e.type, e.message, e.frames) for e in plain.exceptions
        ]
        assert [(crash.kind, crash.text) for crash in trimmed.crashes] == [(c.kind, c.text) for c in plain.crashes]
        if expected.get("reproduced_by"):
            ending = Ending(exit_code=expected["exit_code"])
            assert judge(Failure(**signature), ending, kept).outcome is Outcome.REPRODUCED
