"""Changed verdicts of nightly runs as issues: one per case, opened, updated, and closed when all is as before.

The first line of an issue, a hidden comment, holds its data: the state of each cell before and now. So nothing has to
be stored elsewhere, and running it again changes nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reprokit.case.matrix import cell_key, label
from reprokit.core import json_text
from reprokit.core.github_api import ApiError
from reprokit.core.text import pluralize
from reprokit.report.history.transitions import describe_trials
from reprokit.report.labels import served_by
from reprokit.report.markdown.text import code, size, table

if TYPE_CHECKING:
    from reprokit.core.github_api import Repository
    from reprokit.report.history.changes import DescribedChange

LABEL = "reprokit-nightly"
MARK = "reprokit-changes"
MOST = 10
"""Most new issues in one night; if more cases changed, one issue covers them together."""
MOST_CASES = 100
"""Most cases in one issue that covers several; further ones go to another issue."""
MOST_CELLS = 400
"""Most cells of a case that an issue follows; fewer where it covers many cases."""
NAMED = 60
"""Most cells that a table lists."""
LIMIT = 65_000
"""Most characters of an issue: GitHub accepts 65,536."""
MARK_LIMIT = 50_000
"""Most characters of its first line, which must not be cut."""
_RATES = {"reproducing more often", "reproducing less often"}
"""Changes of a rate alone: one after the other, a cell is as before."""
_MARK = re.compile(rf"<!-- {MARK} (\{{.*\}}) -->")


@dataclass(frozen=True, kw_only=True)
class ChangedCell:
    """A cell that changed: its verdicts before and now, and since when."""

    was: str
    now: str
    since: str
    name: str = ""  # '' where too many cells changed


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What an issue follows of a case."""

    cells: Mapping[str, ChangedCell] = field(default_factory=dict)  # its changed cells by key
    upto: str = ""  # up to when changes are included
    full: bool = False  # more cells changed than it can follow; it says nothing about the others


@dataclass(frozen=True, kw_only=True)
class CaseIssue:
    """An issue of ours."""

    number: int  # 0: to be opened
    open: bool
    cases: Mapping[str, Followed]
    together: bool = False  # it covers several cases


@dataclass(frozen=True, kw_only=True)
class Action:
    """What to do about an issue."""

    kind: str  # open, update or close
    number: int
    title: str
    body: str
    comment: str = ""  # '' where the issue is new


@dataclass(frozen=True, kw_only=True)
class NightLinks:
    """The addresses of a night's workflow run and of its published report, '' without one."""

    url: str = ""
    report: str = ""


def plan(
    changes: Sequence[DescribedChange],
    issues: Sequence[CaseIssue],
    night: NightLinks = NightLinks(),
    most: int = MOST,
) -> list[Action]:
    """What to do about changes, given our existing issues. Pure.

    ``most``: new issues at most. Only confirmed changes count (see :mod:`reprokit.report.history.transitions`), and new
    cells are not changes.
    """
    own_last = sorted(issues, key=lambda one: not one.together)
    homes = {name: issue for issue in own_last if issue.open for name in issue.cases}
    moved: dict[str, tuple[Followed, list[DescribedChange]]] = {}
    for name, news in _news(changes, issues).items():
        home = homes.get(name)
        moved[name] = _follow(home.cases[name] if home else Followed(), news), news
    fresh = [name for name, (followed, _) in moved.items() if name not in homes and followed.cells]
    if len(fresh) > most:
        for start in range(0, len(fresh), MOST_CASES):
            some = fresh[start : start + MOST_CASES]
            room = (one for one in issues if one.open and one.together and len(one.cases) + len(fresh) <= MOST_CASES)
            homes |= dict.fromkeys(some, next(room, CaseIssue(number=0, open=True, cases={}, together=True)))
    else:
        homes |= {name: CaseIssue(number=0, open=True, cases={name: Followed()}) for name in fresh}
    touched: dict[int, tuple[CaseIssue, list[str]]] = {}
    for name in moved:
        if name in homes:
            touched.setdefault(id(homes[name]), (homes[name], []))[1].append(name)
    return [_action(issue, {name: moved[name] for name in names}, night) for issue, names in touched.values()]


def _news(changes: Iterable[DescribedChange], issues: Sequence[CaseIssue]) -> dict[str, list[DescribedChange]]:
    """The changes that are in no issue yet, by case, the oldest first."""
    upto: dict[str, str] = {}
    for issue in issues:
        for name, followed in issue.cases.items():
            upto[name] = max(upto.get(name, ""), followed.upto)
    found: dict[str, list[DescribedChange]] = {}
    counted = [one for one in changes if one.confirmed and one.from_ is not None]
    for one in sorted(counted, key=lambda one: (one.case, _settled_at(one), _key(one))):
        if _settled_at(one) > upto.get(one.case, ""):
            found.setdefault(one.case, []).append(one)
    return found


def _settled_at(change: DescribedChange) -> str:
    return change.confirmed_by.at if change.confirmed_by else ""


def _key(change: DescribedChange) -> str:
    parts = (cell_key(change.cell), change.variant, change.engine)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def name_change(change: DescribedChange) -> str:
    """Its cell, with its variant and the engine where that is not the usual one."""
    fix = " [fix]" if change.variant == "fix" else ""
    return f"{label(change.cell)}{fix}{served_by(change.engine)}"


def _follow(followed: Followed, news: Sequence[DescribedChange]) -> Followed:
    """What is followed after new changes: a cell that is as before is not followed any more."""
    cells, full = dict(followed.cells), followed.full
    for one in news:
        key = _key(one)
        full = full or (key not in cells and len(cells) >= MOST_CELLS)
        if key not in cells and full:
            continue
        known = cells.pop(key, None)
        was, now = known.was if known else str(one.from_), str(one.to)
        if one.from_ is one.to:
            now = f"{now} {one.words.partition(' -> ')[2]}"
            now = was if known and {known.now, now} == _RATES else now
        if now != was:
            name = name_change(one) if len(cells) < NAMED else ""
            cells[key] = ChangedCell(was=was, now=now, since=one.after.at[:10], name=name[:200])
    upto = max([followed.upto, *map(_settled_at, news)])
    return Followed(cells=cells, upto=upto, full=full and bool(cells))


def _action(issue: CaseIssue, moved: Mapping[str, tuple[Followed, list[DescribedChange]]], night: NightLinks) -> Action:
    cases = {**issue.cases, **{name: followed for name, (followed, _) in moved.items()}}
    news = [one for _, some in moved.values() for one in some]
    done = not any(followed.cells for followed in cases.values())
    after = fitted(dataclasses.replace(issue, cases=cases))
    all_known = not any(followed.full for one in (issue, after) for followed in one.cases.values())
    kind = "open" if not issue.number else "close" if done else "update"
    return Action(
        kind=kind,
        number=issue.number,
        title=_title(after),
        body=body(after, news, night, all_known),
        comment="" if kind == "open" else _comment(news, done, night, all_known),
    )


def fitted(issue: CaseIssue) -> CaseIssue:
    """The issue with as many cells as its first line has room for; a case with more becomes ``full``."""
    most = MOST_CELLS
    while size(mark(issue)) > MARK_LIMIT and most > 1:
        most //= 2
        cases = dict(issue.cases)
        for name, followed in issue.cases.items():
            if len(followed.cells) > most:
                some = dict(list(followed.cells.items())[:most])
                cases[name] = dataclasses.replace(followed, cells=some, full=True)
        issue = dataclasses.replace(issue, cases=cases)
    return issue


def _title(issue: CaseIssue) -> str:
    # A case's id is letters, digits and hyphens: nothing in a title can be more than text.
    changed = {name: followed for name, followed in issue.cases.items() if followed.cells}
    if issue.together:
        return f"Nightly runs: {pluralize(len(changed), 'case')} changed"
    [name] = issue.cases
    cells = list(changed[name].cells.values()) if changed else []
    states = {f"{cell.was.replace('-', ' ')}, now {cell.now.replace('-', ' ')}" for cell in cells}
    how = states.pop() if len(states) == 1 else "changed"
    least = "at least " if changed and changed[name].full else ""
    return f"{name}: {how} in {least}{pluralize(len(cells), 'cell')}" if cells else f"{name}: as before"


def body(issue: CaseIssue, news: Sequence[DescribedChange], night: NightLinks, all_known: bool = True) -> str:
    """The issue's text: its data in the first line, then tables for people.

    ``news``: the changes of this night; ``all_known``: the issue follows every changed cell.
    """
    where = f" ([the night]({night.url}))" if night.url else ""
    head = f"{mark(issue)}\nThe nightly runs give other verdicts than before{where}.\n\n"
    tail = (
        "\nThe nightly workflow updates this issue and closes it when every cell that it follows is as before. "
        "If you close it by hand, the current verdicts become the new normal.\n"
    )
    parts = [_cells(issue, all_known), _differences(news), _ways(issue, night)]
    text = head + "".join(parts) + tail
    while size(text) > LIMIT and parts:
        parts.pop(1 if len(parts) > 1 else 0)
        text = head + "".join(parts) + tail
    return text


def mark(issue: CaseIssue) -> str:
    """The first line of an issue: its data as JSON, escaped so that it cannot end the comment around it."""
    data = {
        "cases": {
            name: {
                "upto": followed.upto,
                **({"full": True} if followed.full else {}),
                "cells": {key: [one.was, one.now, one.since, one.name] for key, one in followed.cells.items()},
            }
            for name, followed in issue.cases.items()
        },
        "together": issue.together,
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    escaped = re.sub(r"[<>@#]|(?<=-)-", lambda found: f"\\u{ord(found[0]):04x}", text)
    return f"<!-- {MARK} {escaped} -->"


def parse(number: int, text: str, *, is_open: bool) -> CaseIssue | None:
    """The issue that the first line of ``text`` describes; None where that line is not one of ours."""
    found = _MARK.fullmatch(text.partition("\n")[0].strip())
    try:
        data = json_text.loads(found[1]) if found else {}
        cases = {
            str(name): Followed(
                upto=str(one["upto"]),
                full=bool(one.get("full")),
                cells={
                    str(key): ChangedCell(was=str(was), now=str(now), since=str(since), name=str(word))
                    for key, (was, now, since, word) in one["cells"].items()
                },
            )
            for name, one in data["cases"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return CaseIssue(number=number, open=is_open, cases=cases, together=bool(data.get("together")))


def _as_before(all_known: bool) -> str:
    if all_known:
        return "Every cell is as it was before"
    return "Every cell that was followed is as it was before; others were too many to follow"


def _cells(issue: CaseIssue, all_known: bool) -> str:
    rows = [
        [*([code(name, table=True)] if issue.together else []), *_row(cell)]
        for name, followed in issue.cases.items()
        for cell in followed.cells.values()
        if cell.name
    ]
    count = sum(len(followed.cells) for followed in issue.cases.values())
    if not count:
        return f"{_as_before(all_known)}.\n"
    head = [*(["case"] if issue.together else []), "cell", "before", "now", "since"]
    least = "" if all_known else "at least "
    more = f"\nand {least}{pluralize(count - len(rows[:NAMED]), 'more cell')}\n" if count > len(rows[:NAMED]) else ""
    return table(head, rows[:NAMED]) + more


def _row(cell: ChangedCell) -> list[str]:
    return [code(cell.name, table=True), cell.was.replace("-", " "), f"**{cell.now.replace('-', ' ')}**", cell.since]


def _differences(news: Sequence[DescribedChange], most: int = 30) -> str:
    """What changed between the last record of the old state and the first of the new one, each fact once."""
    rows: dict[tuple[str, ...], None] = {}
    for one in news:
        for fact in one.changed:
            shown = (fact.concern, fact.name, fact.before or "", fact.after or "")
            rows[tuple(code(str(text), 120, table=True) for text in shown)] = None
    if not rows:
        return ""
    more = f"\nand {pluralize(len(rows) - most, 'other fact')}\n" if len(rows) > most else ""
    return "\nWhat else changed:\n\n" + table(["", "", "before", "after"], list(rows)[:most]) + more


def _ways(issue: CaseIssue, night: NightLinks) -> str:
    names = sorted(name for name, followed in issue.cases.items() if followed.cells)[:5]
    lines = [f"- all verdicts and logs: {night.report}\n"] if night.report else []
    lines += [f"- over time, in the night's store: `reprokit history {name}`\n" for name in names]
    return "\n" + "".join(lines) if lines else ""


def _comment(news: Sequence[DescribedChange], done: bool, night: NightLinks, all_known: bool) -> str:
    where = f" ([the night]({night.url}))" if night.url else ""
    several = len({one.case for one in news}) > 1
    lines = [f"- {_line(one, several)}" for one in news[:NAMED]]
    lines += [f"- and {len(news) - NAMED} more"] if len(news) > NAMED else []
    heading = _as_before(all_known) if done else "This changed"
    return "\n".join([f"{heading}{where}:", "", *lines]) + "\n" + (_differences(news) if not done else "")


def _line(change: DescribedChange, several: bool) -> str:
    name = f"{change.case}: {name_change(change)}" if several else name_change(change)
    parts = [change.words, describe_trials(change.earlier, change.since, change.chance), code(change.after.reason, 160)]
    return f"{code(name)}: {'; '.join(filter(None, parts))}"


def ours(repository: Repository) -> Iterator[CaseIssue]:
    """Our issues, open or closed: they have the label, and the workflow or a maintainer wrote them.

    The author is checked since anyone may write such a first line; only some may add a label.
    """
    for one in repository.all("issues", labels=LABEL, state="all"):
        author = one.get("user") or {}
        trusted = author.get("type") == "Bot" or one.get("author_association") in ("OWNER", "MEMBER", "COLLABORATOR")
        found = parse(one["number"], one.get("body") or "", is_open=one["state"] == "open")
        if found is not None and trusted and "pull_request" not in one:
            yield found


def carry_out(repository: Repository, actions: Iterable[Action]) -> Iterator[str]:
    """Carry out the actions; yields a line about each.

    It updates an issue before it comments: if the comment fails, the next night does not repeat it. Raises ApiError.
    """
    labelled = False
    for action in actions:
        if action.kind == "open":
            if not labelled:
                _label(repository)
                labelled = True
            body = {"title": action.title, "body": action.body, "labels": [LABEL]}
            yield f"opened #{repository.post('issues', body=body)['number']}: {action.title}"
            continue
        state = {"state": "closed", "state_reason": "completed"} if action.kind == "close" else {}
        # A closed issue keeps its title, which says what it was about.
        title = {} if action.kind == "close" else {"title": action.title}
        repository.patch("issues", action.number, body={"body": action.body, **title, **state})
        repository.post("issues", action.number, "comments", body={"body": action.comment})
        yield f"{'closed' if action.kind == 'close' else 'updated'} #{action.number}: {action.title}"


def _label(repository: Repository) -> None:
    try:
        about = "The nightly runs give other verdicts than before for a case"
        repository.post("labels", body={"name": LABEL, "color": "d4a72c", "description": about})
    except ApiError as error:
        if error.status != 422:  # the label exists already
            raise
