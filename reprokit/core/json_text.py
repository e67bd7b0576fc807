"""JSON that others wrote: damaged in whatever way, it is a ValueError."""

from __future__ import annotations

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """As of :mod:`json`. Raises ValueError for what is nested too deeply, too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
