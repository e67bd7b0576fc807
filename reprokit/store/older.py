"""What records of older versions lack, filled in as they are read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_engine_kind(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A run's ``host``, or a cell's ``details``, with the kind of its ``engine``.

    reprokit 0.1 recorded an engine's description alone, such as ``Docker Engine 20.10.24`` or ``venv (uv 0.9)``. The
    first word of its engines' descriptions was their kind.
    """
    if "engine" not in facts or "engine_kind" in facts:
        return dict(facts)
    words = (facts["engine"] or "").split()
    return {**facts, "engine_kind": words[0].lower() if words else None}
