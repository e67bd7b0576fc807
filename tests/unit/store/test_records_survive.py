"""Whatever is put into the store is equal to what is read back: over all fields of the records, made up."""

from __future__ import annotations

import dataclasses
import tempfile
import typing
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprokit.core.json_record import JsonRecord
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails
from reprokit.evidence.origin import OwnerRecord
from reprokit.evidence.records import CellRecord, RequestRecord, RunRecord, TrialRecord
from reprokit.store.database import Store
from tests.unit.limits import examples

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
plain = st.none() | st.booleans() | st.integers(-9, 2**40) | words
texts = st.dictionaries(words, words, max_size=2)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: words,
    bool: st.booleans(),
    int: st.integers(0, 2**40),
    float: st.floats(0, 1e9),
    Any: plain | st.lists(plain, max_size=2),
}
RESERVED = ("search", "workflow", "merged")


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type, of every field of a record, too."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if hint is Measured:  # read without a look at its types
        return st.builds(Measured, python=words, gpu=st.lists(words, max_size=2).map(tuple))
    if hint is OwnerRecord:
        return st.builds(OwnerRecord, labels=texts)
    if hint is RequestRecord:
        asked = st.dictionaries(words.filter(lambda name: name not in RESERVED), plain, max_size=3)
        return record(RequestRecord, asked=asked)
    if origin in (typing.Union, UnionType):
        return st.one_of(*(st.none() if each is type(None) else of(each) for each in arguments))
    if origin is tuple:
        many = [st.lists(of(arguments[0]), max_size=2).map(tuple)]
        return many[0] if arguments[-1] is ... else st.tuples(*map(of, arguments))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(words, of(arguments[1]), max_size=2)
    return st.sampled_from(hint) if issubclass(hint, Enum) else record(hint)


def record(cls: type, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{name: of(hint) for name, hint in hints.items() if name not in given}, **given)


trials = st.lists(record(TrialRecord), max_size=2).map(
    lambda some: tuple(dataclasses.replace(one, number=at) for at, one in enumerate(some, 1))
)
cells = st.lists(record(CellRecord, cell=texts, trials=trials), max_size=2).map(
    lambda some: tuple(dataclasses.replace(one, number=at) for at, one in enumerate(some, 1))
)
runs = record(RunRecord, cells=cells)


@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(runs)
def test_what_is_put_is_what_is_read(run: RunRecord) -> None:
    run = dataclasses.replace(run, id="r")
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.put(run, {})
        assert store.run("r") == run
        undecided = [
            CellRecord(number=one.number, case_id="c", case_path="", case_digest="", cell={}) for one in run.cells
        ]
        store.put(dataclasses.replace(run, id="s", cells=tuple(undecided)), {})
        for cell in run.cells:
            store.decide("s", cell)
        assert store.run("s").cells == run.cells
        store.close()


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(record(CellDetails), texts)
def test_keys_of_a_newer_version_are_ignored(details: CellDetails, more: Mapping[str, str]) -> None:
    data = details.to_json()
    assert CellDetails.from_json({f"new {name}": value for name, value in more.items()} | data) == details


def test_every_record_is_typed_but_for_json_that_is_a_searchs_or_a_requests_own() -> None:
    """``Any`` is the edge: what only :mod:`reprokit.run.request` and each kind of search can read."""

    def loose(cls: type, seen: set[type]) -> set[str]:
        found: set[str] = set()
        for name, hint in {} if cls in seen else typing.get_type_hints(cls).items():
            todo = [hint]
            while todo:
                each = todo.pop()
                todo += typing.get_args(each)
                found |= {f"{cls.__name__}.{name}"} if each is Any else set()
                if isinstance(each, type) and issubclass(each, JsonRecord):
                    found |= loose(each, seen | {cls})
        return found

    assert loose(RunRecord, set()) == {"RequestRecord.asked", "SearchRecord.arguments"}
