"""Options of searches along a package's releases: which of them count."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Day(click.ParamType):  # type: ignore[type-arg]
    """YYYY-MM-DD."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text, once it is a day of the calendar."""
        try:
            return date.fromisoformat(value).isoformat()
        except ValueError:
            self.fail(f"{value!r} is not a date (write 2024-03-31)", param, ctx)


def policy_options(function: F) -> F:
    """--pre, --since, --before: which releases between two count."""
    function = click.option("--before", type=Day(), help="Only releases before that day (YYYY-MM-DD).")(function)
    function = click.option("--since", type=Day(), help="Only releases of that day or later (YYYY-MM-DD).")(function)
    return click.option("--pre", is_flag=True, help="Count pre-releases too.")(function)


def policy_of(given: dict[str, Any]) -> dict[str, Any]:
    """What :func:`policy_options` say, as JSON; takes them out of ``given``."""
    return {key: given.pop(key) or "" for key in ("since", "before")} | {"pre": given.pop("pre")}
