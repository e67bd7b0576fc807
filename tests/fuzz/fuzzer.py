"""One target under atheris: ``python -m tests.fuzz.fuzzer TARGET [options of libFuzzer]``; see ``tests.fuzz``."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import atheris

with atheris.instrument_imports(include=["reprokit"]):
    from tests.fuzz import oracle, targets


ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e308, float("nan"), 2**63, "", "\u00b2", "9" * 5000, "../x", "/x", "-x"),
    *("a\0b", "\ud800", "\x1b[31m\u202e", "\u2028", "a from b", "2026-99-99", [], {}, [[]], {"a": 1}),
)
"""Values that readers trip over."""


def mutate(data: bytes, largest: int, seed: int) -> bytes:
    """An input with one change, half of the time of a value of a JSON document in it: bytes alone break its syntax."""
    random = Random(seed)
    lines = data.split(b"\n")
    at = random.choice([at for at, line in enumerate(lines) if re.search(rb"[{\[]", line)] or [0])
    before = re.split(rb"[{\[]", lines[at])[0]
    text = lines[at].removeprefix(before)
    try:
        value = json.loads(text) if random.random() < 0.5 else None
    except (ValueError, RecursionError):
        value = None
    if value is None:
        return bytes(atheris.Mutate(data, largest))
    lines[at] = before + json.dumps(_changed(value, random)).encode()
    return b"\n".join(lines)[:largest]


def _changed(value: Any, random: Random) -> Any:
    if not isinstance(value, (dict, list)) or not value or random.random() < 0.15:
        return random.choice(ODD)
    key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if random.random() < 0.1:
        value.pop(key)
    elif isinstance(value, list) and random.random() < 0.1:
        value.append(value[key])
    else:
        value[key] = _changed(value[key], random)
    return value


def main() -> None:
    """Fuzz until libFuzzer's limits, or to the first input that breaks a property."""
    name = sys.argv.pop(1)
    target = targets.TARGETS[name]
    scratch = Path(tempfile.mkdtemp(prefix="reprokit-fuzz-"))
    again = scratch / "again"  # to merge corpora, libFuzzer starts its own program, of which it knows the first word
    again.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.fuzz.fuzzer {name} "$@"\n')
    again.chmod(0o700)
    sys.argv[0] = str(again)

    def one(data: bytes) -> None:
        folder = scratch / "one"
        folder.mkdir()
        try:
            with oracle.confined(folder):
                target(data, folder)
        finally:
            shutil.rmtree(folder)

    targets.warm()
    atheris.Setup(sys.argv, one, custom_mutator=mutate)
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
