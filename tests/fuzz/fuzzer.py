"""One target under atheris: ``python -m tests.fuzz.fuzzer TARGET [options of libFuzzer]``; see ``tests.fuzz``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["reprokit"]):
    from tests.fuzz import oracle, targets


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
    atheris.Setup(sys.argv, one)
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
