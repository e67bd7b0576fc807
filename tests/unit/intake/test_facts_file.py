"""The answer of a reader: what is read of it, however a model varies the format, and what is said of the rest."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.core.errors import UsageError
from reprokit.intake import facts as facts_file
from reprokit.intake.facts import CommandFact, FailureFact, GpuFact, VersionFact
from tests.unit.limits import within

PYTHON = {"fact": "version", "of": "python", "value": "3.10", "line": 3}


def load(text: str) -> list[Any]:
    return facts_file.parse_answer(text, "facts.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no", "facts.json: Expecting value"),
        ("{}", "facts.json: an object with the key facts"),
        ("[]", "facts.json: facts: a list of 1 to 200 facts"),
        ('{"facts": []}', "facts: a list of 1 to 200 facts"),
        (
            '{"facts": [{"fact": "version", "of": "os", "line": 1}]}',
            "Fact 1 (version) is left out: value: Field required",
        ),
        ('{"format": "reprokit-facts/v9", "facts": []}', "format: 'reprokit-facts/v9' is not reprokit-facts/v1"),
    ],
)
def test_a_wrong_answer_says_where_and_what_to_do(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(text)
    assert said in str(refused.value)
    assert "`reprokit integrate schema facts`" in str(refused.value)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"fact": "version", "of": "os", "value": "x", "lime": 1}, "line: Field required"),
        ({"fact": "guess", "line": 1}, "Fact 1 (guess) is left out: Input tag 'guess'"),
        ({"fact": "gpu", "line": 0}, "line: Input should be greater than or equal to 1"),
        (7, "Fact 1 (of no kind) is left out"),
    ],
)
def test_a_fact_that_cannot_be_read_costs_no_other(row: object, why: str) -> None:
    wrong, good, *_ = load(json.dumps({"facts": [row, PYTHON]}))
    assert good == VersionFact(**PYTHON)
    assert why in wrong


def test_an_answer_in_a_fence_is_read() -> None:
    answer = 'Sure, here it is:\n```json\n{"facts": [{"fact": "gpu", "line": 3}]}\n```\n'
    assert load(answer) == [GpuFact(fact="gpu", line=3)]


GPU = '{"fact": "gpu", "line": 3}'


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (f'Here are the facts: {{"facts": [{GPU}, {GPU}]}} I hope that helps!', "not whole JSON"),
        (f'{{"facts": [{GPU}, {GPU},]}}', "not whole JSON"),
        (f'{{"facts": [{GPU}, {GPU}, {{"fact": "env", "na', "not whole JSON"),
        (f"{GPU}\n{GPU}\n", "not whole JSON"),
        (f"[{GPU}, {GPU}]", ""),
        (f"```\n[{GPU}, {GPU}]\n```", ""),
    ],
    ids=["words around it", "a comma too many", "cut off", "one on each line", "a list", "a list in a fence"],
)
def test_what_can_be_read_of_an_answer_is_taken(answer: str, said: str) -> None:
    facts = load(answer)
    assert facts[:2] == [GpuFact(fact="gpu", line=3)] * 2
    assert (said in facts[2]) if said else len(facts) == 2


@pytest.mark.parametrize(
    ("row", "fact"),
    [
        ('{"fact": "version", "of": "python", "value": 3.10, "line": "3", "works": null}', VersionFact(**PYTHON)),
        ('{"fact": "command", "line": "5-7", "text": null}', CommandFact(fact="command", line=5, last=7)),
        ('{"fact": "command", "lines": [5, 6, 7]}', CommandFact(fact="command", line=5, last=7)),
        ('{"fact": "gpu", "line": "line 3"}', GpuFact(fact="gpu", line=3)),
        ('{"fact": "failure", "kind": "Wrong-Result", "line": 4}', FailureFact(fact="failure", kind="wrong", line=4)),
        (
            '{"fact": "failure", "kind": "crash", "signal": "Sigsegv", "line": 4}',
            FailureFact(fact="failure", kind="signal", signal="SIGSEGV", line=4),
        ),
        (
            '{"fact": "failure", "kind": "signal", "signal": "segmentation fault", "line": 4}',
            FailureFact(fact="failure", kind="signal", line=4),
        ),
    ],
)
def test_a_fact_is_read_as_models_write_it(row: str, fact: object) -> None:
    assert load(f'{{"facts": [{row}]}}') == [fact]


def test_keys_of_their_own_cost_no_fact() -> None:
    fact, said = load(json.dumps([{**PYTHON, "confidence": 0.9, "why": "line 3"}]))
    assert fact == VersionFact(**PYTHON)
    assert said == "Facts have no key confidence, why: ignored."


@pytest.mark.parametrize("text", ['{"' * 300_000, '{"fact": "' * 100_000, "[" * 300_000, "```json\n{" * 50_000])
def test_an_answer_that_is_made_to_hold_it_costs_little(text: str) -> None:
    with within(seconds=5, megabytes=200), pytest.raises(UsageError):
        load(text)


KEYS = st.sampled_from(["fact", "facts", "line", "lines", "last", "kind", "signal", "of", "value", "format"])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)


@given(ANY)
def test_any_json_is_read_or_refused(found: object) -> None:
    with contextlib.suppress(UsageError):
        assert load(json.dumps(found))
