"""Jinja2 as cases may use it: nothing depends on chance or the host, and no operator makes a value of any size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from reprokit.case.inspection import MAX_TEXT, RenderError


class _Sandbox(SandboxedEnvironment):
    """The sandbox, with operators that could make a value of any size held to ``MAX_TEXT``."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("the operator ** is not allowed in templates")
        if not all(isinstance(value, (int, float)) and abs(value) < 1e15 for value in (left, right)):
            raise SecurityError("the operator * is only allowed for numbers in templates")
        return super().call_binop(context, operator, left, right)


def _environment() -> SandboxedEnvironment:
    environment = _Sandbox(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.globals.pop("lipsum")
    environment.filters.pop("random")  # the same case and cell must give the same text
    return environment


ENVIRONMENT = _environment()


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Template:
    return ENVIRONMENT.from_string(text)


def filled(text: str, values: Mapping[str, str]) -> str:
    """``text`` with the values put in, rendered here and now: see :func:`reprokit.case.templates.render_text`."""
    parts: list[str] = []
    length = 0
    try:
        for part in _compiled(text).generate(values):
            length += len(part)
            if length > MAX_TEXT:
                raise RenderError(f"the template makes more than {MAX_TEXT // 1024**2} MiB of text")
            parts.append(part)
    except TemplateError as error:
        raise RenderError(error.message or type(error).__name__) from error
    except RenderError:
        raise
    except Exception as error:  # a template calls methods of texts, which raise what they like
        raise RenderError(f"{type(error).__name__}: {error}"[:500]) from error
    return "".join(parts)
