"""The event that started a workflow, and the case that a job leaves for another: untrusted, to reach no shell."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprokit.core import json_text
from reprokit.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Event:
    """A webhook event."""

    name: str  # issues, push ...
    action: str  # opened, labeled ..., or ''
    data: Mapping[str, Any]  # the payload

    def text(self, *path: str) -> str:
        """The text at that path of keys, '' when there is none (an empty body is null)."""
        value = self._at(path)
        return value if isinstance(value, str) else ""

    def number(self, *path: str) -> int:
        """The whole number at that path of keys. Raises UsageError when there is none."""
        value = self._at(path)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"the event has no number at {'.'.join(path)}")
        return value

    def _at(self, path: tuple[str, ...]) -> object:
        value: object = self.data
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def read_event(environ: Mapping[str, str] = os.environ) -> Event:
    """The event in the file GITHUB_EVENT_PATH. Raises UsageError when there is none, or it is not a JSON object."""
    path = environ.get("GITHUB_EVENT_PATH", "")
    if not path:
        raise UsageError("GITHUB_EVENT_PATH is not set: run this command in a workflow of GitHub Actions")
    try:
        data = json_text.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: the event cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path}: the event is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: the event is not a JSON object")
    action = data.get("action")
    return Event(name=environ.get("GITHUB_EVENT_NAME", ""), action=action if isinstance(action, str) else "", data=data)


def run_url(environ: Mapping[str, str]) -> str:
    """The address of the workflow run, from the variables that Actions sets."""
    server, name, run = (environ.get(f"GITHUB_{key}", "") for key in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    return f"{server}/{name}/actions/runs/{run}"


def pinned(folder: Path, digest: str) -> Path:
    """The path of case.yaml of an earlier job, whose sha256 must be ``digest``. Raises UsageError for another text."""
    case = folder / "case.yaml"
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise UsageError(
            "CASE_DIGEST is not a sha256: pass the output `digest` of `reprokit integrate github check-issue`"
        )
    try:
        found = hashlib.sha256(case.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{case}: cannot be read: {error.strerror or error}") from None
    if found != digest:
        raise UsageError(f"{case}: its sha256 is {found}, but {digest} was reviewed: nothing is run")
    return case
