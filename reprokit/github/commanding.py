"""The files that one job of a workflow leaves for another; they are read back as untrusted input."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reprokit.core import json_text
from reprokit.core.errors import UsageError
from reprokit.github.reply import Reply, from_json

MAX_RESULT = 32 * 1024**2
"""Largest result file that is read, in bytes."""


def run_url(environ: Mapping[str, str]) -> str:
    """The address of the workflow run, from the variables that Actions sets."""
    server, name, run = (environ.get(f"GITHUB_{key}", "") for key in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    return f"{server}/{name}/actions/runs/{run}"


def read_reply(folder: Path) -> Reply:
    """The reply in reply.json of an earlier job. Raises UsageError when there is none."""
    try:
        return from_json(json_text.loads((folder / "reply.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError):
        raise UsageError(f"{folder / 'reply.json'}: not a reply of `reprokit github check-issue`") from None


def pinned(folder: Path, digest: str) -> Path:
    """The path of case.yaml of an earlier job, whose sha256 must be ``digest``. Raises UsageError for another text."""
    case = folder / "case.yaml"
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise UsageError("CASE_DIGEST is not a sha256: pass the output `digest` of `reprokit github check-issue`")
    try:
        found = hashlib.sha256(case.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{case}: cannot be read: {error.strerror or error}") from None
    if found != digest:
        raise UsageError(f"{case}: its sha256 is {found}, but {digest} was reviewed: nothing is run")
    return case


def read_result(folder: Path, digest: str) -> Mapping[str, Any] | None:
    """result.json of the runner; None where there is none for the case with this ``digest``.

    The runner ran an untrusted case, so the file is untrusted: it is parsed, and its texts are shown, nothing more.
    """
    file = folder / "result.json"
    try:
        if not file.is_file() or file.stat().st_size > MAX_RESULT:
            return None
        data = json_text.loads(file.read_bytes())
        digests = [case["digest"] for case in data["cases"]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return data if digests == [f"sha256:{digest}"] else None
