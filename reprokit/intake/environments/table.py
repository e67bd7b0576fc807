"""The table of what reports say about environments: ``data/environments.yaml``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml


@cache
def table(name: str = "environments") -> Mapping[str, Any]:
    """A table of the folder ``data``, by its name."""
    text = resources.files("reprokit.intake").joinpath(f"data/{name}.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.safe_load(text)
    return found
