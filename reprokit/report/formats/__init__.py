"""The formats of reports: one module for each, with one :class:`~reprokit.report.publishing.Format`.

To add one, add a module: `--format`, its help and the test of secrets go by this list.
"""

from __future__ import annotations

import sys

from reprokit.core.discovery import registered
from reprokit.report.publishing import Format, PagesFormat, RunFormat


def formats() -> dict[str, Format]:
    """All formats by name: pages first, then those of one run."""
    found = registered(sys.modules[__name__], Format).values()
    ordered = sorted(found, key=lambda form: (isinstance(form, RunFormat), form.name))
    return {form.name: form for form in ordered}


def run_format(name: str) -> RunFormat:
    """The format of that name, which writes one run as a text. Raises KeyError where there is none."""
    form = formats()[name]
    if not isinstance(form, RunFormat):
        raise KeyError(f"{name} writes a folder, not the text of one run")
    return form


__all__ = ["Format", "PagesFormat", "RunFormat", "formats", "run_format"]
