"""All cases, or some, as pages: a folder of plain files."""

from __future__ import annotations

from reprokit.report.formats import PagesFormat
from reprokit.report.html.building import build

FORMAT = PagesFormat(name="html", help="a folder of pages, of all cases or some", suffix="", scrubbed=True, write=build)
