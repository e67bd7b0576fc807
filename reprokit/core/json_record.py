"""Frozen dataclasses as JSON objects and back: for databases, files and pages. Pure."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, TypeVar

ABSENT = {"absent": True}
"""``metadata`` of a field that the JSON object lacks while it has its default; other fields are always written."""

T = TypeVar("T")


def key_of(name: str) -> str:
    """The key of a field: ``from`` for ``from_``, since that is a word of Python."""
    return name.removesuffix("_")


class JsonRecord:
    """Base of the dataclasses whose fields are the keys of a JSON object, in that order, each documented below it."""

    # Without an annotation, which would make it a field to those who ask for the types of fields.
    __pydantic_config__ = {"alias_generator": key_of, "use_attribute_docstrings": True}  # noqa: RUF012

    @classmethod
    def pick(cls: type[T], source: object, /, **given: Any) -> T:
        """A record of what ``source`` has by the names of the fields, but for what is ``given``."""
        names = [name for name, *_ in _keys(cls) if name not in given]  # type: ignore[arg-type]
        return cls(**{name: getattr(source, name) for name in names}, **given)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        """What pydantic describes, with every key required that is always written. The name is pydantic's."""
        found = handler(core)
        described = handler.resolve_ref_schema(found)
        if cls.to_json in (JsonRecord.to_json, JsonDocument.to_json):  # one of its own leaves out more
            described["required"] = [key for _, key, may_lack, _ in _keys(cls) if not may_lack]  # type: ignore[arg-type]
            for key in described["required"]:
                described["properties"][key].pop("default", None)
        return found

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object, which shares nothing with it that can be changed."""
        return _object(self)

    @classmethod
    def from_json(cls: type[T], data: Mapping[str, Any]) -> T:
        """The reverse of ``to_json``. Keys of newer versions are ignored; TypeError where a required one is missing."""
        return _record(cls, data)


class JsonDocument(JsonRecord):
    """Base of the records that a command prints on their own, under the name of their format and version."""

    FORMAT: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object, behind its format."""
        return {"format": self.FORMAT, **super().to_json()}


def _object(record: Any) -> dict[str, Any]:
    values = {}
    for name, key, may_lack, default in _keys(record.__class__):
        value = getattr(record, name)
        if not (may_lack and value == default):
            values[key] = encoded(value)
    return values


@functools.cache
def _keys(cls: Any) -> tuple[tuple[str, str, bool, Any], ...]:
    """Of each field its name and key, and whether the JSON object lacks it while it has the default."""
    fields = dataclasses.fields(cls)
    return tuple((each.name, key_of(each.name), "absent" in each.metadata, each.default) for each in fields)


def encoded(value: Any) -> Any:
    """A value, or a record with all that is in it, as JSON has it."""
    if value is None or isinstance(value, (bool, int, float)) or type(value) is str:
        return value
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "to_json"):
        return value.to_json()
    if dataclasses.is_dataclass(value):
        return _object(value)
    if isinstance(value, Mapping):
        return {key: encoded(each) for key, each in value.items()}
    return [encoded(each) for each in value] if isinstance(value, (list, tuple)) else value


def _record(cls: Callable[..., T], data: Mapping[str, Any]) -> T:
    return cls(**{name: decode(data[key_of(name)]) for name, decode in _decoders(cls) if key_of(name) in data})


@functools.cache
def _decoders(cls: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    hints = typing.get_type_hints(cls)
    return tuple((field.name, decoder(hints[field.name])) for field in dataclasses.fields(cls))


def _same(value: Any) -> Any:
    return value


def decoder(hint: Any) -> Callable[[Any], Any]:
    """What turns a JSON value into a value of the type ``hint``; plain values are taken as they are."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        [inner] = [decoder(each) for each in arguments if each is not type(None)]
        return inner if inner is _same else lambda value: None if value is None else inner(value)
    if origin is tuple:
        each = decoder(arguments[0])
        return tuple if each is _same else lambda value: tuple(each(one) for one in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        one = decoder(arguments[1])
        return _same if one is _same else lambda value: {key: one(each) for key, each in value.items()}
    if hasattr(hint, "from_json"):
        return typing.cast("Callable[[Any], Any]", hint.from_json)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return functools.partial(_record, hint)
    return functools.partial(member, hint) if isinstance(hint, type) and issubclass(hint, Enum) else _same


def fits(value: Any, hint: Any) -> bool:
    """Whether a value, or a record with all that is in it, has the type that it is declared with."""
    return _checker(hint)(value)


@functools.cache
def _checker(hint: Any) -> Callable[[Any], bool]:
    origin = typing.get_origin(hint)
    checks = [_checker(each) for each in typing.get_args(hint) if each is not ...]
    if origin in (typing.Union, types.UnionType):
        return lambda value: any(check(value) for check in checks)
    if origin is tuple:
        return lambda value: isinstance(value, tuple) and all(map(checks[0], value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return lambda value: isinstance(value, Mapping) and all(checks[0](k) and checks[1](v) for k, v in value.items())
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = typing.get_type_hints(hint)
        fields = [(field.name, _checker(hints[field.name])) for field in dataclasses.fields(hint)]
        return lambda value: isinstance(value, hint) and all(check(getattr(value, name)) for name, check in fields)
    kinds = object if hint is Any else (int, float) if hint is float else hint
    return lambda value: isinstance(value, kinds)


E_ = TypeVar("E_", bound=Enum)


def member(enum: type[E_], value: Any) -> E_:
    """The member of that value; for a word that a newer version wrote, one of its own that is equal to no other."""
    try:
        return enum(value)
    except ValueError:
        if not (issubclass(enum, str) and isinstance(value, str)):
            raise
    unknown = str.__new__(enum, value)
    unknown._name_, unknown._value_ = value, value
    return unknown
