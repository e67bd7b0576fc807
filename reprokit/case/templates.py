"""Sandboxed Jinja2 over the axes of a cell: undefined names are errors, and nothing depends on chance or the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from reprokit.core.near_match import near

MAX_TEXT = 16 * 1024**2
"""Largest text, in characters, that a template may produce."""

CONSTANTS = frozenset({"true", "false", "none", "True", "False", "None", "and", "or", "not", "if", "else", "in", "is"})
"""Words of the template language, which no axis can be named after."""

RAW_HINT = "text that is not a template belongs between {% raw %} and {% endraw %}"


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


_ENVIRONMENT = _environment()


class RenderError(ValueError):
    """A template that cannot be rendered with the values of one cell; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a template needs, without rendering it.

    ``names`` must be defined; ``guarded`` ones have a default or are tested for being defined.
    ``error`` and its ``line`` (from 1 within the text) and ``hint`` are set when the template is not valid.
    """

    names: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    error: str = ""
    line: int = 0
    hint: str = ""


def is_template(text: str) -> bool:
    """Whether the text holds anything that Jinja2 would act on."""
    return "{{" in text or "{%" in text or "{#" in text


@lru_cache(maxsize=4096)
def inspect(text: str) -> Inspection:
    """The names that ``text`` uses, or what is wrong with it as a template."""
    if not is_template(text):
        return Inspection()
    try:
        tree = _ENVIRONMENT.parse(text)
        undeclared = meta.find_undeclared_variables(tree) - set(_ENVIRONMENT.globals)
    except TemplateSyntaxError as error:
        return Inspection(error=error.message or "not a template", line=error.lineno, hint=_hint(text, error))
    except RecursionError:
        return Inspection(error="a template that is nested too deeply", line=1)
    guarded = frozenset(_guarded(tree)) & undeclared
    return Inspection(names=frozenset(undeclared) - guarded, guarded=guarded)


def _guarded(tree: nodes.Template) -> Iterator[str]:
    for use in tree.find_all((nodes.Filter, nodes.Test)):
        name = use.name
        if name in ("default", "d", "defined", "undefined") and isinstance(use.node, nodes.Name):
            yield use.node.name


def _hint(text: str, error: TemplateSyntaxError) -> str:
    message = error.message or ""
    if "comment" in message and "${#" in text:
        return "bash's ${#name} begins a Jinja2 comment: put it between {% raw %} and {% endraw %}"
    for kind, known in (("filter", _ENVIRONMENT.filters), ("test", _ENVIRONMENT.tests)):
        if message.startswith(f"No {kind} named"):
            return near(message.split("'")[1], known) or RAW_HINT
    return RAW_HINT


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Any:
    return _ENVIRONMENT.from_string(text)


def render_text(text: str, values: Mapping[str, str]) -> str:
    """``text`` with the values put in. Raises RenderError when a name has no value, or it goes wrong otherwise."""
    if not is_template(text):
        return text
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
        raise RenderError(f"{type(error).__name__}: {error}") from error
    return "".join(parts)
