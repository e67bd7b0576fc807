"""A run as JUnit XML: a suite per case, a test per cell, so that CI systems show departures as failures."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from itertools import groupby

from reprokit.core.terminal import visible
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report import explanation
from reprokit.report.formats import RunFormat
from reprokit.report.labels import cell_name

# XML 1.0 has no way to write these; logs are full of them.
UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: RunRecord) -> str:
    """The XML text. A departure from the expectation is a ``failure``, an inconclusive cell ``error`` or, when this
    host cannot serve it, ``skipped``.
    """
    root = ET.Element("testsuites", name=f"reprokit {run.id}")
    for case_id, cells in groupby(run.cells, key=lambda cell: cell.case_id):
        _suite(root, case_id, list(cells), run.started_at)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, case_id: str, cells: list[CellRecord], started_at: str) -> None:
    kinds = [_kind(cell) for cell in cells]
    suite = ET.SubElement(
        root,
        "testsuite",
        name=case_id,
        tests=str(len(cells)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=f"{sum(cell.seconds or 0 for cell in cells):.3f}",
        timestamp=started_at,
    )
    if any(cell.variant == "case" for cell in cells[1:]):  # one by itself is nothing to compare
        words = " / ".join(explanation.short(explanation.explain_records(cells)))
        properties = ET.SubElement(suite, "properties")
        ET.SubElement(properties, "property", name="explanation", value=_text(words))
    for cell, kind in zip(cells, kinds, strict=True):
        test = ET.SubElement(
            suite, "testcase", classname=case_id, name=_text(cell_name(cell)), time=f"{cell.seconds or 0:.3f}"
        )
        verdict = cell.verdict.value if cell.verdict else "cancelled"
        if kind:
            wanted = f" (expected {cell.expected})" if kind == "failure" else ""
            message = f"{verdict}{wanted}: {cell.marked_reason}{_failure(cell)}"
            element = ET.SubElement(test, kind, message=_text(message), type=verdict)
            element.text = _text("\n".join(_lines(cell)))
        else:
            ET.SubElement(test, "system-out").text = _text(f"{verdict}: {cell.marked_reason}")


def _failure(cell: CellRecord) -> str:
    """What tells a failure from others: CI systems group by the message."""
    return f" [failure {cell.details.failure.id}]" if cell.details.failure else ""


def _kind(cell: CellRecord) -> str:
    if cell.as_expected is False:
        return "failure"
    if cell.verdict in (Verdict.UNSUPPORTED, Verdict.CANCELLED, None):
        return "skipped"
    return "" if cell.verdict is not None and cell.verdict.conclusive else "error"


def _lines(cell: CellRecord) -> Iterable[str]:
    for trial in cell.trials:
        yield f"trial {trial.number}: {trial.outcome}: {trial.reason} (log: {trial.log})"
    yield from cell.details.build.tail if cell.details.build else ()
    if cell.repeat:
        yield f"repeat by hand: {cell.repeat}"


def _text(text: str) -> str:
    return UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", visible(text))


FORMAT = RunFormat(
    name="junit", help="JUnit XML, for CI systems", suffix=".xml", scrubbed=False, write=lambda run, _: junit(run)
)
