"""All cases, or some, as pages: a folder of plain files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.report.publishing import PagesFormat, Scrub

if TYPE_CHECKING:
    from reprokit.report.html.building import Built, PagesRequest
    from reprokit.store.database import Store


def _write(store: Store, target: Path, request: PagesRequest, scrub: Scrub) -> Built:
    from reprokit.report.html.building import build

    return build(store, target, request, scrub)


FORMAT = PagesFormat(
    name="html", help="a folder of pages, of all cases or some", suffix="", scrubbed=True, write=_write
)
