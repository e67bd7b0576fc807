"""Datasets on the host: checked against the layout that a case states before anything is built or run."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from pathlib import Path

from reprokit.case.cellspec import DatasetSpec
from reprokit.core.errors import UsageError


def check(name: str, spec: DatasetSpec, folder: Path) -> Path:
    """The resolved folder, when it holds what the case's layout asks for.

    Raises UsageError naming every glob that matches too little, and every file whose digest differs.
    """
    root = folder.expanduser().resolve()
    if not root.is_dir():
        raise UsageError(f"--dataset {name}={folder}: no such folder")
    wrong = []
    for pattern, least in spec.layout:
        try:
            # Stop counting at the least number: a real dataset holds a hundred thousand files.
            found = sum(1 for _ in itertools.islice(root.glob(pattern), least))
        except (ValueError, NotImplementedError) as error:
            wrong.append(f"{pattern!r} is not a glob: {error}")
            continue
        if found < least:
            wrong.append(f"{pattern!r} matches {found} file(s), at least {least} wanted")
    wrong += _wrong_digests(root, spec.sha256)
    if wrong:
        lines = "\n".join(f"  - {line}" for line in wrong)
        raise UsageError(
            f"--dataset {name}={folder}: this folder is not laid out as the case asks:\n{lines}\n"
            f"  the globs are relative to {root}"
        )
    return root


def _wrong_digests(root: Path, digests: Mapping[str, str]) -> list[str]:
    wrong = []
    for relative, wanted in digests.items():
        path = root / relative
        if not path.is_file():
            wrong.append(f"{relative!r} is missing")
            continue
        digest = hashlib.sha256()
        with path.open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
        if digest.hexdigest() != wanted.removeprefix("sha256:"):
            wrong.append(f"{relative!r} has sha256 {digest.hexdigest()}, the case says {wanted}")
    return wrong
