"""``reprokit audit``."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from reprokit.cli import options, searching
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import CaseError, UsageError
from reprokit.core.interrupts import STATUS
from reprokit.evidence.auditing import OF_KIND
from reprokit.run.loading import load_all
from reprokit.search.audit_case import TRIALS, AuditRequest, make
from reprokit.search.queries import AuditDocument, AuditedCase
from reprokit.search.search_session import SearchSession

EXAMPLES = """\b
Examples:
  reprokit audit bugs/ --json audit.json              # every case of a folder
  reprokit audit bugs/ --without rebuilt --time 8h    # begins no case after 8 hours; with --resume, it goes on

\b
Exit status: 0 all are sound, 1 a case is not, 2 wrong usage or case file, 3 a case is not decided, 130 interrupted.
"""


@click.command("audit", epilog=EXAMPLES)
@options.cases_argument()
@options.selection_options
@click.option("--trials", type=click.IntRange(min=2), default=TRIALS, show_default=True, help="Of a case as it is.")
@click.option("--without", multiple=True, type=click.Choice([*OF_KIND]), help="Leave out a condition.")
@click.option("--time", metavar="8h", callback=options.unit("duration"), help="Begin no further case after this time.")
@options.stand_in_options
@options.base_option
@options.engine_option
@searching.output_options
def command(**given: Any) -> int:
    """Find which cases fail before their fix and pass with it, whatever the day, the order and the machine.

    Each case is run several times without and with its fix, and then once in reverse order of its tests, on other
    dates, without a network, on one core, and in an image that is built from nothing. What departs is repeated until
    chance is excluded. A case is then sound, or a flaky test, or depends on the order, the date (time bomb), a network
    or what is installed (drift), or its fix fails, or it never failed. --resume takes over what earlier audits decided.
    """
    resume, json_file, verbose, most = (given.pop(name) for name in ("resume", "json_file", "verbose", "time"))
    store_folder = options.obeyed_store(given.pop("store_folder"))
    options.check_writable("--json", json_file)
    ends, without = time.monotonic() + (most or math.inf), given.pop("without")
    asked = AuditRequest(trials=given.pop("trials"), kinds=tuple(kind for kind in OF_KIND if kind not in without))
    request = options.request_of({**given, "confirm": "always"})
    files = load_all(request.cases)
    screen = Screen(sys.stderr if json_file == Path("-") else sys.stdout, verbose=verbose)
    found: list[AuditedCase] = []
    left_out: dict[str, str] = {}
    status: int | None = None
    try:
        for file in files:
            session = SearchSession(store_folder, display=screen)
            try:
                with suppress(UsageError):  # there is none
                    status = session.resume("audit", [file.path], make, request.jobs, asked) if resume else None
                if session.record is None and time.monotonic() > ends:
                    raise UsageError("the time was over; --resume goes on")
                if session.record is None:
                    status = session.start("audit", replace(request, cases=(file.path,)), asked, make, file)
            except (UsageError, CaseError) as error:
                if len(files) == 1:
                    raise
                left_out[file.path] = str(error)
            finally:
                found += [AuditedCase.pick(session.result())] if session.record is not None else []
            if status == STATUS:
                return STATUS
    finally:  # what was decided is shown and written even if the audit failed
        for line in _table(found, left_out):
            screen.say(line)
        options.write_json(json_file, AuditDocument(cases=tuple(found), left_out=left_out))
    statuses = {one.answer.exit_status if one.answer else 3 for one in found} | {3 * bool(left_out)}
    return 1 if 1 in statuses else max(statuses)


def _table(found: Sequence[AuditedCase], left_out: Mapping[str, str]) -> Iterator[str]:
    """A line for each case, and how many there are of each finding."""
    rows = [("case", "finding", "fails", "passes with fix", "departs")]
    for name, answer in ((one.case.id, one.answer) for one in found if one.answer):
        base = {one.variant: f"{one.kept}/{one.of}" for one in answer.trials if not one.kind}
        departs = dict.fromkeys(one.condition for one in answer.trials if one.kind in OF_KIND and one.departed)
        rows.append((name, answer.finding, base["case"], base.get("fix", "no fix"), ", ".join(departs)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield from ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    yield from (f"{path}: left out: {why}" for path, why in left_out.items())
    yield ", ".join(f"{count} {finding}" for finding, count in Counter(row[1] for row in rows[1:]).most_common())
