"""Sandboxed Jinja2 over the axes of a cell: undefined names are errors, and no template takes much time or memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import Environment, TemplateSyntaxError, meta, nodes
from jinja2.compiler import Frame

from reprokit.case.confined import render_confined
from reprokit.case.sandbox import ENVIRONMENT, MAX_TEXT, RenderError, filled
from reprokit.core.near_match import near

__all__ = ["CONSTANTS", "MAX_TEXT", "Inspection", "RenderError", "inspect", "is_template", "render_text"]

CONSTANTS = frozenset({"true", "false", "none", "True", "False", "None", "and", "or", "not", "if", "else", "in", "is"})
"""Words of the template language, which no axis can be named after."""

_ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")
"""How Python shows an object that has no text of its own: another text in each process."""

RAW_HINT = "text that is not a template belongs between {% raw %} and {% endraw %}"


_MAX_DEPTH = 40
"""Statements of a template within one another. Python itself takes 20 loops."""
_PLAIN = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.If, nodes.CondExpr),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Concat, nodes.Filter, nodes.Test),
    *(nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Keyword, nodes.Dict, nodes.Pair, nodes.List, nodes.Tuple),
)
_PLAIN_FILTERS = frozenset({"d", "default", "lower", "trim", "int", "float", "string", "first", "last", "length"})
_PLAIN_TESTS = frozenset({"defined", "undefined", "none", "in", "eq", "equalto", "ne", "string"})
_PLAIN_METHODS = frozenset({"startswith", "endswith", "lower", "strip", "split", "lstrip", "rstrip", "count", "find"})
_PLAIN_TEXT = 256 * 1024
"""Characters that a template of plain parts may come to, by a rough upper bound, to be rendered in this process."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a template needs, without rendering it.

    ``names`` must be defined; ``guarded`` ones have a default or are tested for being defined.
    ``pieces``: texts (even places) and names (odd) that it is put together from, () where it holds anything else.
    ``plain_names``: how often names are used, -1 where it could take any time and memory.
    ``error`` and its ``line`` (from 1 within the text) and ``hint`` are set when the template is not valid.
    """

    names: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    pieces: tuple[str, ...] = ()
    plain_names: int = -1
    error: str = ""
    line: int = 0
    hint: str = ""


class _Names(meta.TrackingCodeGenerator):
    """``meta.find_undeclared_variables``, which evaluates constant expressions on its way, without that."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.optimizer = None

    def _output_child_to_const(self, *_: object) -> str:
        raise nodes.Impossible

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier, frame: Frame) -> None:
        self.blockvisit(node.body, frame)


def is_template(text: str) -> bool:
    """Whether the text holds anything that Jinja2 would act on."""
    return "{{" in text or "{%" in text or "{#" in text


@lru_cache(maxsize=4096)
def inspect(text: str) -> Inspection:
    """The names that ``text`` uses, or what is wrong with it as a template."""
    if not is_template(text):
        return Inspection()
    try:
        tree = ENVIRONMENT.parse(text)
        if _depth(tree) > _MAX_DEPTH:
            return Inspection(error="a template that is nested too deeply", line=1)
        names = _Names(ENVIRONMENT)
        names.visit(tree)
        undeclared = names.undeclared_identifiers - set(ENVIRONMENT.globals)
        guarded = frozenset(_guarded(tree)) & undeclared
        return Inspection(
            names=frozenset(undeclared) - guarded,
            guarded=guarded,
            pieces=_pieces(tree),
            plain_names=_plain_names(tree),
        )
    except TemplateSyntaxError as error:
        return Inspection(error=error.message or "not a template", line=error.lineno, hint=_hint(text, error))
    except RecursionError:
        return Inspection(error="a template that is nested too deeply", line=1)
    except ValueError as error:  # a number of more digits than Python reads
        return Inspection(error=str(error), line=1)


def _depth(tree: nodes.Template) -> int:
    """How deeply statements are nested: looking for their names takes more than quadratic time in that."""
    deepest, left = 0, [(1, child) for child in tree.iter_child_nodes()]
    while left:
        depth, node = left.pop()
        deepest = max(deepest, depth)
        left += [(depth + isinstance(child, nodes.Stmt), child) for child in node.iter_child_nodes()]
    return deepest


def _guarded(tree: nodes.Template) -> Iterator[str]:
    for use in tree.find_all((nodes.Filter, nodes.Test)):
        name = use.name
        if name in ("default", "d", "defined", "undefined") and isinstance(use.node, nodes.Name):
            yield use.node.name


def _hint(text: str, error: TemplateSyntaxError) -> str:
    message = error.message or ""
    if "comment" in message and "${#" in text:
        return "bash's ${#name} begins a Jinja2 comment: put it between {% raw %} and {% endraw %}"
    for kind, known in (("filter", ENVIRONMENT.filters), ("test", ENVIRONMENT.tests)):
        if message.startswith(f"No {kind} named"):
            return near(message.split("'")[1], known) or RAW_HINT
    return RAW_HINT


def render_text(text: str, values: Mapping[str, str]) -> str:
    """``text`` with the values put in. Raises RenderError when a name has no value, or it goes wrong otherwise."""
    if not is_template(text):
        return text
    known = inspect(text)
    names = known.plain_names
    if names < 0 or len(text) + names * max(map(len, values.values()), default=0) > _PLAIN_TEXT:
        rendered = render_confined(text, values)
    elif known.pieces and all(name in values for name in known.pieces[1::2]):  # which Jinja2 would do no otherwise
        rendered = "".join(values[one] if at % 2 else one for at, one in enumerate(known.pieces))
    else:
        rendered = filled(text, values)
    if (shown := _ADDRESS.search(rendered)) and shown[0] not in text:
        raise RenderError("the template shows a method or another object, not a text: call it, as in x.lower()")
    return rendered


def _pieces(tree: nodes.Template) -> tuple[str, ...]:
    """See :class:`Inspection`: of a template that is nothing but text and ``{{ name }}``."""
    parts = [part for one in tree.body if isinstance(one, nodes.Output) for part in one.nodes]
    pieces = [""]
    for part in parts:
        if isinstance(part, nodes.TemplateData):
            pieces[-1] += part.data
        elif isinstance(part, nodes.Name) and part.name != "self":  # which Jinja2 defines itself
            pieces += [part.name, ""]
        else:
            return ()
    return tuple(pieces) if all(isinstance(one, nodes.Output) for one in tree.body) else ()


def _plain_names(tree: nodes.Template) -> int:
    """How often a template uses a name; -1 unless it is made of parts that take each value once, and make none larger.

    What such a template takes is in proportion to its length and the values.
    """
    count = 0
    for node in tree.find_all(nodes.Node):
        count += isinstance(node, nodes.Name)
        plain = isinstance(node, _PLAIN)
        if isinstance(node, nodes.Filter):
            plain = node.name in _PLAIN_FILTERS or _shortens(node)
        elif isinstance(node, nodes.Test):
            plain = node.name in _PLAIN_TESTS
        elif isinstance(node, nodes.Call):
            plain = isinstance(node.node, nodes.Getattr) and node.node.attr in _PLAIN_METHODS
        if not plain:
            return -1
    return count


def _shortens(node: nodes.Filter) -> bool:
    """Whether it is a ``replace`` that makes nothing longer, such as that of ``cu{{ cuda | replace('.', '') }}``."""
    old, new = ([*node.args, None, None][:2]) if node.name == "replace" and not node.kwargs else (None, None)
    if not (isinstance(old, nodes.Const) and isinstance(new, nodes.Const)):
        return False
    return isinstance(old.value, str) and isinstance(new.value, str) and 0 < len(old.value) >= len(new.value)
