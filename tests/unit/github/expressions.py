"""The expressions of workflow files, as far as ours use them: a small evaluator with the documented semantics.

https://docs.github.com/en/actions/reference/workflows-and-actions/expressions
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?)|'(?P<string>(?:[^']|'')*)'|(?P<name>[A-Za-z_][\w-]*)"
    r"|(?P<op>&&|\|\||==|!=|<=|>=|[!<>().,\[\]*]))"
)
_HOLE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


def template(text: str, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """A value of a workflow file with its ``${{ }}`` filled in; a lone one keeps its type."""
    whole = _HOLE.fullmatch(text.strip())
    if whole and "${{" not in whole[1]:
        return evaluate(whole[1], contexts, functions)
    return _HOLE.sub(lambda hole: to_text(evaluate(hole[1], contexts, functions)), text)


def condition(text: str, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> bool:
    """An ``if``: with ``success() &&`` in front unless it asks for the status itself."""
    inner = _HOLE.sub(lambda hole: f"({hole[1]})", text)
    if not re.search(r"\b(always|success|failure|cancelled)\s*\(", inner):
        inner = f"success() && ({inner})" if inner.strip() else "success()"
    return truth(evaluate(inner, contexts, functions))


def evaluate(text: str, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of one expression. Raises ValueError for one that cannot be read, as GitHub refuses the file."""
    return _Parser(text, contexts, {**FUNCTIONS, **functions}).whole()


def truth(value: Any) -> bool:
    """What counts as false: false, 0, '', null."""
    return value not in (None, "", 0, False)


def to_text(value: Any) -> str:
    """A value as it is written into a text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return "Object" if isinstance(value, dict) else "Array"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: Any) -> float:
    if value is None or value == "":
        return 0.0
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def equal(left: Any, right: Any) -> bool:
    """``==``: texts regardless of case, other kinds as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return left.lower() == right.lower()
    if type(left) is type(right):
        return bool(left == right)
    return _number(left) == _number(right)


def _contains(search: Any, item: Any) -> bool:
    if isinstance(search, list):
        return any(equal(entry, item) for entry in search)
    return to_text(item).lower() in to_text(search).lower()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "contains": _contains,
    "startswith": lambda text, start: to_text(text).lower().startswith(to_text(start).lower()),
    "endswith": lambda text, end: to_text(text).lower().endswith(to_text(end).lower()),
    "format": lambda text, *values: re.sub(r"\{(\d+)\}", lambda hole: to_text(values[int(hole[1])]), text),
    "join": lambda items, by=",": by.join(map(to_text, items)),
    "tojson": lambda value: json.dumps(value, indent=2),
    "fromjson": json.loads,
}


class _Parser:
    def __init__(self, text: str, contexts: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        self.contexts, self.functions = contexts, functions
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if not found:
                raise ValueError(f"cannot read the expression {text!r} at {text[at:]!r}")
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self.at = 0

    def whole(self) -> Any:
        value = self._or()
        if self.at != len(self.tokens):
            raise ValueError(f"unexpected {self.tokens[self.at][1]!r} in an expression")
        return value

    def _take(self, *ops: str) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "op" and self.tokens[self.at][1] in ops:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return ""

    def _need(self, op: str) -> None:
        if not self._take(op):
            raise ValueError(f"{op!r} is missing in an expression")

    def _or(self) -> Any:
        value = self._and()
        while self._take("||"):
            other = self._and()
            value = value if truth(value) else other
        return value

    def _and(self) -> Any:
        value = self._comparison()
        while self._take("&&"):
            other = self._comparison()
            value = other if truth(value) else value
        return value

    def _comparison(self) -> Any:
        value = self._unary()
        while op := self._take("==", "!=", "<", ">", "<=", ">="):
            other = self._unary()
            left, right = _number(value), _number(other)
            value = {
                "==": equal(value, other),
                "!=": not equal(value, other),
                "<": left < right,
                ">": left > right,
                "<=": left <= right,
                ">=": left >= right,
            }[op]
        return value

    def _unary(self) -> Any:
        if self._take("!"):
            return not truth(self._unary())
        if self._take("("):
            value = self._or()
            self._need(")")
            return self._path(value)
        return self._path(self._atom())

    def _atom(self) -> Any:
        if self.at >= len(self.tokens):
            raise ValueError("an expression ends too early")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return float(text) if "." in text else int(text)
        if kind == "string":
            return text.replace("''", "'")
        if kind != "name":
            raise ValueError(f"unexpected {text!r} in an expression")
        if text in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[text]
        if self._take("("):
            return self._call(text)
        if text not in self.contexts:
            raise ValueError(f"no context {text!r} here")
        return self.contexts[text]

    def _call(self, name: str) -> Any:
        arguments = []
        while not self._take(")"):
            arguments.append(self._or())
            self._take(",")
        if name.lower() not in self.functions:
            raise ValueError(f"no function {name!r}")
        return self.functions[name.lower()](*arguments)

    def _path(self, value: Any) -> Any:
        while op := self._take(".", "["):
            if op == "[":
                value = _item(value, self._or())
                self._need("]")
            elif self._take("*"):
                value = list(value.values() if isinstance(value, dict) else value or ())
                following = self._take(".")
                if following:
                    name = self._atom_name()
                    value = [_item(entry, name) for entry in value]
            else:
                value = _item(value, self._atom_name())
        return value

    def _atom_name(self) -> str:
        kind, text = self.tokens[self.at]
        if kind != "name":
            raise ValueError(f"a name is expected, not {text!r}")
        self.at += 1
        return text


def _item(value: Any, key: Any) -> Any:
    """A member, regardless of case; null where it is missing."""
    if isinstance(value, list):
        return value[int(key)] if isinstance(key, (int, float)) and int(key) < len(value) else None
    if not isinstance(value, Mapping):
        return None
    return next((item for name, item in value.items() if equal(name, key)), None)
