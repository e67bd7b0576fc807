"""The event that started a workflow: read from the file that the runner wrote, so that its texts reach no shell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprokit.core import json_text
from reprokit.core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Event:
    """A webhook event. ``name``: issues, push ...; ``action``: opened, labeled ..., or ''; ``data``: the payload."""

    name: str
    action: str
    data: Mapping[str, Any]

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


def read(environ: Mapping[str, str] = os.environ) -> Event:
    """The event in the file GITHUB_EVENT_PATH. Raises UsageError when there is none, or it is not a JSON object."""
    path = environ.get("GITHUB_EVENT_PATH", "")
    if not path:
        raise UsageError("GITHUB_EVENT_PATH is not set: run this command in a workflow of GitHub Actions")
    try:
        data = json_text.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: the event cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: the event is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: the event is not a JSON object")
    action = data.get("action")
    return Event(name=environ.get("GITHUB_EVENT_NAME", ""), action=action if isinstance(action, str) else "", data=data)
