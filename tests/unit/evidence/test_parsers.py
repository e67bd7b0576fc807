"""The registry of failure parsers: what every parser must declare, and that one module is enough for one more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.evidence import crashes, parsers
from reprokit.evidence.observation import observe
from reprokit.evidence.parser import Parser, StackFormat, Trait
from reprokit.evidence.stacks import _native
from tests.golden import LOGS, load
from tests.golden.versions import found_by, golden_logs

ALL = parsers.parsers()


@pytest.mark.parametrize("parser", ALL, ids=lambda parser: parser.name)
def test_golden_logs_specify_the_parser(parser: Parser) -> None:
    named = golden_logs(parser)
    assert any(found_by(parser, name) for name in named)
    assert [name for name in LOGS if name not in named and found_by(parser, name)] == []


@pytest.mark.parametrize("parser", ALL, ids=lambda parser: parser.name)
def test_traits_say_what_is_found(parser: Parser) -> None:
    assert (Trait.EXCEPTION in parser.traits) == (parser.exceptions is not None) != bool(parser.crashes)


def test_names_precedences_and_kinds_are_each_of_one_parser() -> None:
    for key in ("name", "precedence"):
        assert [one for one, count in Counter(getattr(one, key) for one in ALL).items() if count > 1] == [], key
    kinds = [kind for parser in ALL for kind in {rule.kind for rule in parser.crashes}]
    assert len(kinds) == len(set(kinds))


@pytest.mark.parametrize(
    "parser", [one for one in ALL if one.stack and one.stack.needle], ids=lambda parser: parser.name
)
def test_the_stack_is_read_from_a_golden_log(parser: Parser) -> None:
    assert parser.stack
    assert any(_native(load(name)[0].split("\n"), [parser.stack]) for name in golden_logs(parser))


@pytest.mark.parametrize("parser", [one for one in ALL if one.stack is None], ids=lambda parser: parser.name)
def test_a_log_that_shows_a_stack_has_its_format_declared(parser: Parser) -> None:
    texts = "\n".join(load(name)[0] for name in golden_logs(parser) if not parser.exceptions)
    assert re.findall(r"^\s+(?:at |#\d+ |\d+: ).*", texts, re.MULTILINE) == [], "declare `stack`"


def test_every_golden_log_specifies_a_parser() -> None:
    assert {name for parser in ALL for name in golden_logs(parser)} == set(LOGS)


INVENTED = """
from reprokit.evidence.parser import CrashRule, Parser, Trait

PARSER = Parser(
    name="invented", traits=frozenset({Trait.NATIVE}), golden=("invented-*",), version="1",
    crashes=(CrashRule(kind="invented-fall", needles=("fell down at",), pattern=r"^part '.*' fell down at .*"),),
)
"""


@pytest.fixture
def invented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more parser, as one more module of the package."""
    (tmp_path / "invented.py").write_text(INVENTED, encoding="utf-8")
    cached = (parsers.parsers, parsers._by_kind, crashes.text_rules, crashes.coarse_texts, crashes.byte_rules)
    monkeypatch.setattr(parsers, "__path__", [*parsers.__path__, str(tmp_path)])
    for each in cached:
        each.cache_clear()
    yield
    monkeypatch.undo()
    for each in cached:
        each.cache_clear()


@pytest.mark.usefixtures("invented")
def test_one_module_is_enough_for_one_more_parser() -> None:
    log = "start\npart 'main' fell down at stairs:2:5: out of luck\nend\n"
    [crash] = observe(log).crashes
    assert (crash.kind, crash.line) == ("invented-fall", 2)
    assert crash.text == "part 'main' fell down at stairs:2:5: out of luck"
    assert "fell down at" in crashes.coarse_texts()
    assert [*crashes.spans(log.encode(), "fell down at")] == [(6, 6 + len(crash.text))]


def test_lines_of_a_stack_without_a_function_are_passed_over() -> None:
    form = StackFormat(line=r" +(?:\d+: (?P<function>.+)|at .*)")
    lines = ["part 'main' fell down", "   0: inner", "      at stairs:2:5", "   1: outer", "end", "   2: later"]
    assert _native(lines, [form]) == ["inner", "outer"]


def test_a_row_with_a_key_that_there_is_not_is_refused() -> None:
    row = {"name": "x", "traits": ["native"], "golden": ["x"], "version": "1", "crashes": []}
    assert parsers._parser({**row, "leave_out": " at .*"}, {}).said("fell at 0x1") == "fell"
    with pytest.raises(TypeError, match="leave"):
        parsers._parser({**row, "leave": " at .*"}, {})
