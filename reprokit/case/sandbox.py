"""Jinja2 as cases may use it: nothing depends on chance or the host, and no operator makes a value of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.compiler import Frame
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from reprokit.case.inspection import MAX_TEXT, RAW_HINT, Inspection, RenderError
from reprokit.core.near_match import near


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


class _Names(meta.TrackingCodeGenerator):
    """``meta.find_undeclared_variables``, which evaluates constant expressions on its way, without that."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.optimizer = None

    def _output_child_to_const(self, *_: object) -> str:
        raise nodes.Impossible

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier, frame: Frame) -> None:
        self.blockvisit(node.body, frame)


def inspected(text: str) -> Inspection:
    """The names that ``text`` uses, or what is wrong with it as a template."""
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
