"""Plain data -> :class:`~reprokit.case.model.Case`; what the models refuse is worded like the format. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reprokit.case import measures, model
from reprokit.case.axes import KnownAxes
from reprokit.case.tree import Loc, dotted, found, listing, value_at
from reprokit.core.near_match import near, nearest


@dataclass(frozen=True, kw_only=True)
class FormatProblem:
    """Something wrong at ``loc``: at its value, its key (``on_key``), or a line and column (``at``) of the text.

    ``meant``: the key that an unknown key nearly is; ``missing``: the key that is not there.
    """

    loc: Loc
    message: str
    hint: str = ""
    on_key: bool = False
    at: tuple[int, int] | None = None
    meant: str = ""
    missing: str = ""


_MODELS: tuple[tuple[Loc, type[BaseModel]], ...] = (
    ((), model.Case),
    (("report",), model.Report),
    (("environment",), model.EnvironmentSection),
    (("environment", "pip", "*"), model.PipStep),
    (("sources", "*"), model.Source),
    (("datasets", "*"), model.Dataset),
    (("datasets", "*", "layout", "*"), model.LayoutRule),
    (("files", "*"), model.FileEntry),
    (("resources",), model.Resources),
    (("trials",), model.TrialsEntry),
    (("expect",), model.Expect),
    (("expect", "failure"), model.Failure),
    (("expect", "leaks"), measures.Leaks),
    (("expect", "slower_than"), measures.Ratio),
    (("expect", "more_memory_than"), measures.Ratio),
    (("expect", "known", "*"), model.Known),
    (("expect", "known", "*", "failure"), model.Failure),
)


def keys_at(loc: Loc) -> tuple[str, ...]:
    """The keys that a mapping at ``loc`` may hold, or none when its keys are free."""
    for pattern, kind in _MODELS:
        if len(pattern) == len(loc) and all(p in ("*", part) for p, part in zip(pattern, loc, strict=True)):
            return tuple(field.alias or name for name, field in kind.model_fields.items())
    return ()


def section_of(key: str) -> str:
    """The section that takes ``key``, for keys that stand in the wrong place: ``shm_size`` -> ``resources``."""
    homes = [pattern for pattern, kind in _MODELS if "*" not in pattern and key in keys_at(pattern)]
    return dotted(homes[0]) or "the top level" if len(homes) == 1 else ""


def build(data: dict[str, Any], known: KnownAxes) -> tuple[model.Case | None, list[FormatProblem]]:
    """The case that ``data`` (texts, lists, mappings) describes, or None and everything that the models refuse."""
    shaped = {key: value for key, value in data.items() if key != "schema_"}
    matrix = data.get("matrix")
    if isinstance(matrix, dict):
        axes = {name: values for name, values in matrix.items() if name not in model.RESERVED}
        shaped["matrix"] = {"axes": axes} | {name: matrix[name] for name in model.RESERVED if name in matrix}
    findings = [_unknown_key(("schema_",), known)] if "schema_" in data else []
    try:
        return model.Case.model_validate(shaped), findings
    except ValidationError as error:
        found = [_finding(details, data, known) for details in error.errors(include_url=False)]
        return None, findings + _without_echoes(found)


def _without_echoes(found: list[FormatProblem]) -> list[FormatProblem]:
    """Without the keys that are only missing because they are misspelt there, which is reported already."""
    meant = {(one.loc[:-1], one.meant) for one in found if one.meant}
    return [one for one in found if not (one.missing and (one.loc, one.missing) in meant)]


def _finding(details: ErrorDetails, data: dict[str, Any], axes: KnownAxes) -> FormatProblem:
    loc = _own_loc(details["loc"], data)
    kind, context = details["type"], details.get("ctx", {})
    if kind == "missing":
        return _missing(loc)
    if kind == "extra_forbidden":
        return _unknown_key(loc, axes)
    on_key = details["loc"][-1:] == ("[key]",)
    value = loc[-1] if on_key else value_at(data, loc)
    what, hint = _expectation(kind, context, loc, value)
    return FormatProblem(
        loc=loc,
        message=f"{dotted(loc)}: expected {what}, found {found(value, empty=value == '')}",
        hint=hint,
        on_key=on_key,
    )


def _expectation(kind: str, context: dict[str, Any], loc: Loc, value: Any) -> tuple[str, str]:
    """What a key takes, to complete "expected ...", and a hint."""
    what, hint = "another value", ""
    if kind == "expected":
        what, _, suggestion = str(context["expected"]).partition("; did you mean")
        what, _, example = what.partition(" such as ")
        hint = str(context.get("hint", "")) or (f"such as {example}" if example else "")
        hint = f"did you mean{suggestion}" if suggestion else hint
    elif kind in ("model_type", "dict_type", "model_attributes_type"):
        what, hint = "a mapping", _mapping_hint(loc, value)
    elif kind == "tuple_type":
        what = "a list"
        hint = f"write [{value}]" if isinstance(value, str) and value.strip() and "\n" not in value else "write [a, b]"
        if isinstance(value, dict):
            hint = "write a list: each item begins with '- '"
    elif kind == "string_type":
        what, hint = "text", "quote it" if isinstance(value, dict) else "write one value"
    elif kind == "literal_error":
        what = str(context.get("expected", ""))
        choices = [part.strip("'") for part in what.replace(" or ", ", ").split(", ")]
        hint = near(str(value), choices) if isinstance(value, str) else ""
        if loc == ("schema",):
            what, hint = "reprokit/v1", hint or "this version reads cases of the format reprokit/v1"
    elif kind == "too_short":
        what = "a list that is not empty"
    elif kind == "greater_than_equal":
        what = f"at least {context.get('ge')}"
    elif kind == "less_than_equal":
        what = f"at most {context.get('le')}"
    elif kind == "string_pattern_mismatch":
        what = "small letters, digits and dashes"
        suggestion = _slug(str(value))
        hint = f"did you mean {suggestion!r}?" if suggestion else "such as rmi-singular-matrix"
    return what, hint


def _mapping_hint(loc: Loc, value: Any) -> str:
    keys = keys_at(loc)
    if value == "":
        return "indent its keys below it" + (f": {listing(keys)}" if keys else "") + "; or leave the key out"
    if isinstance(value, list) and loc[:1] in (("env",), ("files",)):
        return "write name: value, without dashes"
    if loc == ("fix",):
        return f"give what it changes, and a summary: {listing(model.FIX_KEYS)}"
    if loc[:1] in (("matrix",), ("expect",)) and isinstance(value, str):
        return 'write a cell such as {cuda: "11.8"}'
    return f"its keys: {listing(keys)}" if keys else ""


def _missing(loc: Loc) -> FormatProblem:
    parent, name = loc[:-1], loc[-1]
    where = f" in {dotted(parent)}" if parent else ""
    hints = {
        "schema": "write schema: reprokit/v1 at the top",
        "id": "give the case a name of small letters, digits and dashes",
        "title": "say what the bug is in one line",
        "command": "give the command that shows the bug",
        "ref": "name a tag, branch or commit",
        "path": "say where it goes below workdir",
        "failure": "say how it looks, such as {exception: TypeError}",
    }
    message = f"the key {name!r} is missing{where}"
    return FormatProblem(loc=parent, message=message, hint=hints.get(str(name), ""), on_key=True, missing=str(name))


def _unknown_key(loc: Loc, axes: KnownAxes) -> FormatProblem:
    parent, name = loc[:-1], str(loc[-1])
    known = keys_at(parent)
    where = f"in {dotted(parent)}" if parent else "in a case"
    close = nearest(name, known)
    home = section_of(name)
    if home and not nearest(name, known, cutoff=0.85):
        hint = f"{name!r} belongs under {home}" if home != "the top level" else f"{name!r} belongs at the top level"
    elif close:
        hint = f"did you mean {close!r}?"
    elif not parent and name in (*axes.names, *model.RESERVED):
        hint = f"{name!r} belongs under matrix"
    else:
        hint = f"known keys: {listing(known, limit=25)}"
    return FormatProblem(loc=loc, message=f"unknown key {name!r} {where}", hint=hint, on_key=True, meant=close)


def _own_loc(loc: tuple[str | int, ...], data: Any) -> Loc:
    """pydantic's location without what is not in the file: ``axes``, ``[key]``, and the branches of unions."""
    if loc[:2] == ("matrix", "axes"):
        loc = ("matrix", *loc[2:])
    own: list[str | int] = []
    for index, part in enumerate(loc):
        if part == "[key]":
            continue
        inside = (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if inside:
            data = data[part]
            own.append(part)
        elif index == len(loc) - 1 and isinstance(data, dict):
            own.append(part)  # a key that is missing
    return tuple(own)


def _slug(text: str) -> str:
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower()).strip("-")
    return "-".join(part for part in slug.split("-") if part)
