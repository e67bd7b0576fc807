"""Where the text of a report comes from: a file, standard input, an issue, or another address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from reprokit.case import markdown, read
from reprokit.core import issues
from reprokit.core.errors import Problem, UsageError


@dataclass(frozen=True, kw_only=True)
class ReportText:
    """A report as it was read. ``url``: its address, '' for a file; ``path``: its name in messages."""

    path: str
    text: str
    url: str = ""


def read_report(source: str) -> ReportText:
    """Read the report at ``source`` (a file, ``-``, an address); of an issue, its title and first text.

    Raises UsageError when it cannot be read, is not text, or contains a case already.
    """
    if source.lower().startswith(("http://", "https://")):
        if issues.is_issue(source):
            issue = issues.read(source)
            return _without_case(
                ReportText(path=source, text=f"# {issue.title}\n\n{issue.body.text}", url=source), source
            )
    elif Path(source).is_dir():
        raise UsageError(f"{source} is a folder: name the file with the report")
    item = next(iter(read.read(source)))
    if isinstance(item, Problem):
        raise UsageError(str(item))
    report = ReportText(path=item.path, text=item.text, url=source if "://" in source else "")
    return _without_case(report, source)


def _without_case(report: ReportText, source: str) -> ReportText:
    """The report, unless it contains a case, which is more precise than a draft. Raises UsageError then."""
    found = markdown.blocks(report.text)
    if found or re.match(r"(?:\ufeff|#.*\n|\s)*schema[ \t]*:[ \t]*[\"']?reprokit/", report.text):
        where = f" in line {found[0].first_line + 1}" if found else ""
        raise UsageError(
            f"{report.path} holds a case already{where}: reprokit validate {source} checks it, and reprokit run "
            f"{source} runs it"
        )
    return report
