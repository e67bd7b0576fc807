"""What the rules make of every golden log, as digests that are recorded with the version of the rules."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

from reprokit.case.model import Failure
from reprokit.evidence import crashes
from reprokit.evidence.fingerprint import FINGERPRINT_VERSION
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import RULES_VERSION, Ending, Judgement, Outcome
from reprokit.evidence.observation import observe
from reprokit.evidence.parser import Parser
from reprokit.evidence.parsers import parsers
from reprokit.evidence.text import clean
from reprokit.evidence.verdict import decide
from tests.golden import FOLDER, LOGS, load

FILE = FOLDER / "versions.json"
TRIALS = "(trials to verdict)"
"""The entry beside those of logs: the verdicts of all combinations of up to three outcomes."""

Digests = dict[str, str]
"""Name of a log -> digest of what went in and of what came out, ``IN:OUT``."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Versioned:
    """Something with a version: its ``name``, where the ``version`` is written, and its results on the golden logs."""

    name: str
    version: str
    place: str
    results: Callable[[], Digests]


def _result(one: Any) -> dict[str, Any]:
    """A result without what is as in most: fields that came later change no digest."""
    common = (("library", ""), ("statuses", (1,)), ("of_test", False), ("captured", False))
    return dataclasses.asdict(one, dict_factory=lambda pairs: {k: v for k, v in pairs if (k, v) not in common})


def versioned() -> tuple[Versioned, ...]:
    """Everything whose results a version stands for."""
    return (
        Versioned(
            name="rules",
            version=RULES_VERSION,
            place="RULES_VERSION in reprokit/evidence/model.py",
            results=lambda: {name: _digests(name, _outcome, observed=True) for name in LOGS} | {TRIALS: _verdicts()},
        ),
        Versioned(
            name="fingerprint",
            version=FINGERPRINT_VERSION,
            place="FINGERPRINT_VERSION in reprokit/evidence/fingerprint.py",
            results=lambda: {name: _digests(name, _fingerprint) for name in LOGS},
        ),
        *(
            Versioned(
                name=f"parser {parser.name}",
                version=parser.version,
                place="its version, and RULES_VERSION where verdicts can change with it",
                results=functools.partial(_parsed, parser),
            )
            for parser in parsers()
        ),
    )


def golden_logs(parser: Parser) -> list[str]:
    """The names of the logs that specify a parser."""
    return [name for name in LOGS if any(fnmatch.fnmatch(name, pattern) for pattern in parser.golden)]


def found_by(parser: Parser, name: str) -> list[Any]:
    """What one parser finds in a golden log."""
    text = clean(load(name)[0])
    seen = parser.exceptions.read(text.split("\n")) if parser.exceptions else ()
    kinds = {rule.kind for rule in parser.crashes}
    found = [crash for crash in crashes.find(text) if crash.kind in kinds]
    return [_result(one) for one in (*seen, *found)]


def _parsed(parser: Parser) -> Digests:
    return {name: f"{digest(load(name)[0])}:{digest(found_by(parser, name))}" for name in golden_logs(parser)}


def changed(one: Versioned, recorded: Mapping[str, Any], found: Digests) -> str:
    """What to do where results changed under an unchanged version; '' where none did.

    A new log, or new signatures of a log, are not a change of the rules.
    """
    known = recorded.get(one.name, {"version": "", "logs": {}})
    before = {name: digests.split(":") for name, digests in known["logs"].items()}
    now = {name: digests.split(":") for name, digests in found.items()}
    names = [n for n in sorted(now) if n in before and before[n][0] == now[n][0] and before[n][1] != now[n][1]]
    if not names or known["version"] != one.version:
        return ""
    return (
        f"{one.name}: the results for {', '.join(names)} changed, and the version is still {one.version}. Where that "
        f"is intended, raise {one.place}, then record the new results: python -m tests.golden"
    )


def problem(one: Versioned, recorded: Mapping[str, Any], found: Digests) -> str:
    """What to do about ``found``, in words; '' where it is what was recorded for this version."""
    if recorded.get(one.name) == {"version": one.version, "logs": found}:
        return ""
    not_recorded = f"{one.name}: the results of version {one.version} are not recorded: python -m tests.golden"
    return changed(one, recorded, found) or not_recorded


def _digests(name: str, of: Callable[[Judgement], Any], *, observed: bool = False) -> str:
    text, sidecar = load(name)
    ending = Ending(exit_code=sidecar["exit_code"])
    signatures = [{}, *sidecar.get("reproduced_by", ()), *sidecar.get("not_reproduced_by", ())]
    results = [of(judge(Failure(**signature), ending, text)) for signature in signatures]
    if observed:
        results.append(_result(observe(text)))
    return f"{digest([text, sidecar['exit_code'], signatures])}:{digest(results)}"


def _outcome(judged: Judgement) -> Any:
    """What a judgement found; its reason and the checks' are words, which may be put better."""
    seen, crash = judged.exception, judged.crash
    return [
        judged.outcome.value,
        judged.known,
        [[check.key, check.matched, check.lines] for check in judged.checks],
        seen and [seen.type, seen.line, seen.end_line],
        crash and [crash.kind, crash.line],
    ]


def _fingerprint(judged: Judgement) -> Any:
    """What a fingerprint's id is made of, but for the version; the title is words."""
    found = judged.fingerprint
    return found and [found.kind, found.frames, found.message, found.cause]


def _verdicts() -> str:
    combined = [list(each) for most in range(4) for each in itertools.product(Outcome, repeat=most)]
    verdicts = [decide(outcomes)[0].value for outcomes in combined]
    return f"{digest([[each.value for each in outcomes] for outcomes in combined])}:{digest(verdicts)}"


def digest(value: Any) -> str:
    """Twelve hexadecimal digits that stand for a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
