"""The registry of failure parsers: what every parser must declare, and that one module is enough for one more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.evidence import crashes, parsers
from reprokit.evidence.observation import observe
from reprokit.evidence.parser import Parser, Trait
from tests.golden import LOGS
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
    assert len({parser.name for parser in ALL}) == len({parser.precedence for parser in ALL}) == len(ALL)
    kinds = [kind for parser in ALL for kind in {rule.kind for rule in parser.crashes}]
    assert len(kinds) == len(set(kinds))


def test_every_golden_log_specifies_a_parser() -> None:
    assert {name for parser in ALL for name in golden_logs(parser)} == set(LOGS)


RUST = """
from reprokit.evidence.parser import CrashRule, Parser, Trait

PARSER = Parser(
    name="rust", traits=frozenset({Trait.NATIVE}), golden=("rust-*",), version="1",
    crashes=(CrashRule(kind="rust-panic", needles=("panicked at",), pattern=r"^thread '.*' panicked at .*"),),
)
"""


@pytest.fixture
def rust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more parser, as one more module of the package."""
    (tmp_path / "rust.py").write_text(RUST, encoding="utf-8")
    cached = (parsers.parsers, parsers._by_kind, crashes.text_rules, crashes.coarse_texts, crashes.byte_rules)
    monkeypatch.setattr(parsers, "__path__", [*parsers.__path__, str(tmp_path)])
    for each in cached:
        each.cache_clear()
    yield
    monkeypatch.undo()
    for each in cached:
        each.cache_clear()


@pytest.mark.usefixtures("rust")
def test_one_module_is_enough_for_one_more_parser() -> None:
    log = "start\nthread 'main' panicked at src/main.rs:2:5: out of luck\nnote: run with RUST_BACKTRACE=1\n"
    [crash] = observe(log).crashes
    assert (crash.kind, crash.line) == ("rust-panic", 2)
    assert crash.text == "thread 'main' panicked at src/main.rs:2:5: out of luck"
    assert "panicked at" in crashes.coarse_texts()
    assert [*crashes.spans(log.encode(), "panicked at")] == [(6, 6 + len(crash.text))]
