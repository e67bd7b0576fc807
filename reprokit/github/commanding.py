"""What goes from job to job of a workflow, as files; read back as what a stranger may have written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reprokit.core.errors import UsageError
from reprokit.github.reply import Reply, from_json

MAX_RESULT = 32 * 1024**2
"""Largest result file that is read, in bytes."""


def run_url(environ: Mapping[str, str]) -> str:
    """The page of the workflow's run."""
    server, name, run = (environ.get(f"GITHUB_{key}", "") for key in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    return f"{server}/{name}/actions/runs/{run}"


def read_reply(folder: Path) -> Reply:
    """reply.json of an earlier job. Raises UsageError when it is none."""
    try:
        return from_json(json.loads((folder / "reply.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError):
        raise UsageError(f"{folder / 'reply.json'}: no reply of check-issue") from None


def pinned(folder: Path, digest: str) -> Path:
    """case.yaml of an earlier job, which must be the text that was reviewed. Raises UsageError for another."""
    case = folder / "case.yaml"
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise UsageError("CASE_DIGEST is no sha256: the step needs the digest that check-issue gave")
    try:
        found = hashlib.sha256(case.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{case}: cannot be read: {error.strerror or error}") from None
    if found != digest:
        raise UsageError(f"{case}: its sha256 is {found}, reviewed was {digest}: nothing is run")
    return case


def read_result(folder: Path, digest: str) -> Mapping[str, Any] | None:
    """result.json of the runner, None without one that is about that text.

    The runner ran a stranger's case: the file is parsed and its words are shown, and that is all it can do.
    """
    file = folder / "result.json"
    try:
        if not file.is_file() or file.stat().st_size > MAX_RESULT:
            return None
        data = json.loads(file.read_bytes())
        digests = [case["digest"] for case in data["cases"]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return data if digests == [f"sha256:{digest}"] else None
