"""A draft of a case: what is known, from where, and what is missing; its text, and what a run proves of it. Pure.

A draft is confirmed where it fails as its report shows, and passes in every cell that passes by the report: a program
that fails in the same way everywhere, such as one that lacks a file, is not the reported bug.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reprokit.case import emit, placeholders
from reprokit.case.matrix import label, matches
from reprokit.case.model import FIX_KEYS, RESERVED, Case
from reprokit.case.structure import keys_at
from reprokit.case.templates import is_template
from reprokit.case.tree import Loc
from reprokit.core.redaction import Omitted, scrub
from reprokit.core.text import pluralize, whole_number
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord

SCHEMA = "reprokit/v1"
_WIDTH = 110
_GROUPS = ("matrix", "environment", "expect")
"""Keys with an empty line before them."""
_LINE = re.compile("line [0-9]{1,9}")
_SHOWN = 12
"""Most places of a kind of secret that are listed one by one."""
_LONE = re.compile("[\ud800-\udfff]")
"""What no YAML can have: bytes of a terminal that are not text, and halves of characters."""
RAW, END_RAW = "{% raw %}", "{% endraw %}"
_TEMPLATE = re.compile(r"\{[{%#]|\{(?=\r)|\r")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A draft of a case."""

    data: Mapping[str, Any]
    """The case, nested as in the format; scalars are texts; ``schema`` may be left out."""
    notes: Mapping[Loc, tuple[str, ...]] = field(default_factory=dict)
    """Path -> comments above that value (its origin, the reason); the path ``()`` is the top of the file."""
    missing: tuple[str, ...] = ()
    """What is not known, one sentence each."""
    omitted: tuple[Omitted, ...] = ()
    """What was removed from the texts because it is secret."""
    passing: tuple[Mapping[str, str], ...] = ()
    """Axes of the cells that pass, by the report."""
    troubles: tuple[str, ...] = ()
    """The failures that a report shows, where it shows several: the number of each, its line and first words."""


def literal(text: str) -> str:
    """``text`` escaped for a place of a case that takes templates: rendered in any cell, it is ``text`` again.

    For every text from outside that goes below :data:`reprokit.case.model.TEMPLATED`.
    """
    if not is_template(text):
        return text
    if "endraw" in text or "\r" in text:  # Jinja2 would end the block there, or make a line feed of it
        return _TEMPLATE.sub(lambda match: "{{ '" + ("\\r" if match[0] == "\r" else match[0]) + "' }}", text)
    return RAW + text + END_RAW


def render(draft: Draft) -> str:
    """The draft as YAML, in the format's key order, with its comments; reading it gives the draft's ``data``."""
    data = _order_keys({"schema": SCHEMA} | dict(draft.data), ())
    head = "".join(f"# {line}".rstrip() + "\n" for line in _head(draft))
    return head + emit.document(
        data,
        comments=lambda loc: [line for note in draft.notes.get(loc, ()) for line in _wrap(note)],
        spaced=lambda loc: loc != ("schema",) and len(loc) == 1 and (loc[0] in _GROUPS or loc in draft.notes),
        bare_counts=lambda loc: loc[0] not in ("matrix", "report") and "reproduces" not in loc,
    )


def summary(omitted: tuple[Omitted, ...]) -> tuple[str, ...]:
    """What was left out, one line for each kind: ``github-token, 3 times: env GH_TOKEN; lines 3, 12``."""
    return tuple(
        f"{kind}{f', {len(found)} times' if len(found) > 1 else ''}{_where([one.where for one in found])}"
        for kind in sorted({one.kind for one in omitted})
        if (found := [one for one in omitted if one.kind == kind])
    )


def _where(places: Sequence[str]) -> str:
    """Places in order, with all line numbers in one list; only the first few of many."""
    lines = sorted({int(place[5:]) for place in places if _LINE.fullmatch(place)})
    shown = f"{', '.join(map(str, lines[:_SHOWN]))}{' ...' if len(lines) > _SHOWN else ''}"
    others = sorted({place for place in places if place and not _LINE.fullmatch(place)}, key=_by_number)
    more = [f"{len(others) - _SHOWN} other places"] if len(others) > _SHOWN else []
    parts = [*([f"line{'s' if lines[1:] else ''} {shown}"] if lines else []), *others[:_SHOWN], *more]
    return f": {'; '.join(parts)}" if parts else ""


def _by_number(text: str) -> list[tuple[int, str]]:
    return [(whole_number(part) or 0, part) for part in re.split("([0-9]{1,9})", text)]


def _head(draft: Draft) -> Iterator[str]:
    for note in draft.notes.get((), ()):
        yield from _wrap(note)
    if draft.missing:
        yield "Missing:"
        for sentence in draft.missing:
            yield from _wrap(sentence, item=True)
    if draft.omitted:
        yield "Left out, since it looks secret or personal (<...> or REDACTED_... mark the places):"
        for line in summary(draft.omitted):
            yield from _wrap(line, item=True)


def _wrap(text: str, *, item: bool = False) -> list[str]:
    begin, rest = ("- ", "  ") if item else ("", "")
    return textwrap.wrap(
        emit.shown(text),
        _WIDTH,
        initial_indent=begin,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _order_keys(value: Any, loc: Loc) -> Any:
    """``value`` as YAML can have it, with the keys of the format in the format's order, then the others."""
    if isinstance(value, (list, tuple)):
        return [_order_keys(item, (*loc, index)) for index, item in enumerate(value)]
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if not isinstance(value, Mapping):
        return value
    known = FIX_KEYS if loc == ("fix",) else keys_at(loc[1:] if loc[:1] == ("fix",) else loc)
    last = RESERVED if loc == ("matrix",) else ()
    names = [name for name in known if name in value]
    names += [name for name in value if name not in names and name not in last]
    names += [name for name in last if name in value]
    return {name: _order_keys(value[name], (*loc, name)) for name in names}


# -- title and id -----------------------------------------------------------------------------------------------------

UNTITLED = "A bug without a title"
LONGEST_ID = 60
"""Most characters of an id."""
LONGEST_TITLE = 200
"""Most characters of a title."""

_LABEL = re.compile(
    r"^\s*(?:\[?(?:bug|issue|question|help)\]?\s*[:：]\s*|\[(?:bug|issue|question|help)\]\s+)", re.IGNORECASE
)
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""Characters that are invisible in a title, or change its writing direction."""
_CUT = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")


def clean_title(text: str) -> str:
    """``text`` as a title in one line, without a label such as ``[Bug]:`` before it; '' where nothing is left."""
    return cut_text(re.sub(r"\s+", " ", _LABEL.sub("", _UNSEEN.sub(" ", text))).strip(), LONGEST_TITLE, " ")


def slug(*texts: str) -> str:
    """The texts joined as an id of lower-case letters, digits and hyphens, cut between words; '' for nothing."""
    parts = [re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") for text in texts]
    return cut_text("-".join(dict.fromkeys(part for part in parts if part)), LONGEST_ID, "-")


def cut_text(text: str, most: int, between: str) -> str:
    """At most the first ``most`` characters of a text, cut at the separator ``between`` rather than within a word."""
    if len(text) <= most:
        return text
    whole = text[: most + 1].rpartition(between)[0].rstrip(between)
    return whole if len(whole) > most // 2 else text[:most].rstrip(between)


def is_foreign(text: str) -> bool:
    """Whether an id made of a text would lose most of it, such as Chinese."""
    return len(slug(text)) < 4 or bool(_CUT.search(text))


# -- what a run proves -------------------------------------------------------------------------------------------------

FAILS = (Verdict.REPRODUCED, Verdict.FLAKY)
"""Verdicts of a cell that fails as the report shows."""
_LISTED = 20
"""Most cells that a comment lists."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What a run says of a draft."""

    status: int
    """0 confirmed, 1 not confirmed, 3 not decided."""
    words: str
    cells: tuple[str, ...] = ()
    """The verdict of each cell, in words."""
    reproduced: bool = False
    """Whether a cell fails as the report shows, and no cell does that passes by the report."""


def open_parts(case: Case) -> list[str]:
    """The places of a drafted case that decide its verdict and are still to be written: ``expect.failure.output``."""
    found = [".".join(map(str, loc)) for loc, _ in placeholders.find(case)]
    return [*found, *(f"the data of {name}" for name, one in case.datasets.items() if not one.generate)]


def not_run(parts: Sequence[str]) -> Proof:
    """Of a draft that is not run, since these parts of it are still to be written."""
    return Proof(status=3, words=f"not run: write {', '.join(dict.fromkeys(parts))} first")


def judge_draft(made: Draft, cells: Sequence[CellRecord]) -> Proof:
    """What the cells of a run prove of the draft that was run."""
    passing = [cell for cell in cells if cell.variant == "fix" or any(matches(cell.cell, one) for one in made.passing)]
    failing = [cell for cell in cells if cell not in passing]
    axes = dict.fromkeys(axis for cell in cells for axis in cell.cell)
    varying = [axis for axis in axes if len({cell.cell.get(axis) for cell in cells}) > 1]

    def name(cell: CellRecord) -> str:
        own = label({axis: cell.cell[axis] for axis in varying if axis in cell.cell} or cell.cell)
        return f"{own} with the fix" if cell.variant == "fix" else own

    def proof(status: int, words: str, *, reproduced: bool = False) -> Proof:
        # What a program printed may name a home or a token; a draft is passed on.
        listed = tuple(scrub(f"{name(cell)}: {cell.verdict}: {cell.reason}").text for cell in cells[:_LISTED])
        text = scrub(words).text
        return Proof(status=status, words=text, cells=(*listed, *_measured(failing)), reproduced=reproduced)

    if too := next((cell for cell in passing if cell.verdict in FAILS), None):
        why = f"{name(too)} passes by the report, and fails in the same way here"
        return proof(1, f"not confirmed: {why}: the draft lacks what the bug depends on")
    shown = [cell for cell in failing if cell.verdict in FAILS]
    if not shown:
        if decided := next((cell for cell in failing if cell.verdict and cell.verdict.conclusive), None):
            return proof(1, f"not confirmed: no cell fails as the report shows: {decided.reason}")
        return proof(3, f"not decided: {failing[0].reason if failing else 'no cell of the draft fails by the report'}")
    where = f"in {len(shown)} of {pluralize(len(failing), 'cell')} ({_trials(shown)})"
    fixed = any(cell.variant == "fix" and cell.verdict is Verdict.NOT_REPRODUCED for cell in passing)
    if not (fixed or _identifies(made.data.get("expect", {}))):
        return proof(3, f"not decided: it fails {where}, and any failure would match expect.failure: name this one")
    if other := next((cell for cell in passing if cell.verdict is not Verdict.NOT_REPRODUCED), None):
        known = bool(other.verdict and other.verdict.conclusive)
        how = f"{name(other)} passes by the report: {other.verdict}: {other.reason}"
        end = "not confirmed" if known else "not decided"
        return proof(1 if known else 3, f"{end}: it fails as the report shows {where}, but {how}")
    compared = "; the report names no version that passes, so nothing is compared with one"
    if passing:
        compared = f", and {', '.join(map(name, passing[:_LISTED]))} passes ({_trials(passing)})"
    return proof(0, f"confirmed: it fails as the report shows {where}{compared}", reproduced=True)


def _measured(cells: Sequence[CellRecord]) -> Iterator[str]:
    """What was measured of the axes in the image of the first cell that fails by the report."""
    for cell in cells[:1]:
        found = cell.environment.versions if cell.environment else {}
        if text := ", ".join(f"{axis} {found[axis]}" for axis in cell.cell if found.get(axis)):
            yield f"measured in its image: {text}"


def _trials(cells: Sequence[CellRecord]) -> str:
    return pluralize(sum(len(cell.trials) for cell in cells), "trial")


def _identifies(expect: Mapping[str, Any]) -> bool:
    """Whether what is expected tells the failure of the report from any other one."""
    failure = dict(expect.get("failure", {}))
    if str(failure.get("exit_code")) in ("nonzero", "1"):
        del failure["exit_code"]
    return bool(failure) or any(key in expect for key in ("slower_than", "leaks", "compare"))


def mark(made: Draft, proof: Proof, run: str = "") -> Draft:
    """The draft with comments on what was confirmed and what was not. ``run``: the id of its run, '' without one."""
    of = f", run {run}" if run else ""
    notes = dict(made.notes)
    notes[()] = (*notes.get((), ()), f"Tried by `reprokit new --try`{of}: {proof.words}.")
    if proof.cells:
        notes[("matrix",)] = (*notes.get(("matrix",), ()), *(f"seen{of}: {one}" for one in proof.cells))
        end = f"confirmed by run {run}" if proof.reproduced else f"not confirmed by run {run}"
        notes[("expect",)] = (*notes.get(("expect",), ()), end)
    return replace(made, notes=notes)
