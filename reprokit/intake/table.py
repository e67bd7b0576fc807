"""The tables of ``data/``: what is known of programs and of what reports call things. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any


@cache
def table(name: str = "environments") -> Mapping[str, Any]:
    """A table, by the name of its file."""
    import yaml

    text = resources.files("reprokit.intake").joinpath(f"data/{name}.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.safe_load(text)
    return found
