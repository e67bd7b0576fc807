"""Where the text of a report comes from: a file, standard input, an issue, or another address."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from reprokit.case import markdown, read
from reprokit.core import fetch, issues
from reprokit.core.errors import UsageError
from reprokit.core.redaction import scrub
from reprokit.intake import days, exported, texts

MAX_BYTES = 32 * 1024**2
"""Largest file that is read."""


@dataclass(frozen=True, kw_only=True)
class ReportText:
    """A report as it was read. ``url``: its address, '' for a file; ``path``: its name in messages.

    ``created``: the time or day at which its server, or the page that was saved, says that it was written; '' for none.
    """

    path: str
    text: str
    url: str = ""
    created: str = ""


def read_report(source: str) -> ReportText:
    """Read the report at ``source`` (a file, ``-``, an address); of an issue, also as JSON, its title and first text.

    Raises UsageError when it cannot be read, is not text, or contains a case already.
    """
    url = source if source.lower().startswith(("http://", "https://")) else ""
    if url and issues.is_issue(url):
        issue = issues.read(url)
        text, created = f"# {issue.title}\n\n{issue.body.text}", issue.body.created
    else:
        data = fetch.get(fetch.raw(url)).data if url else _bytes(source)
        if len(data) > MAX_BYTES:
            ends = f"(head -c 500000 {source}; tail -c 500000 {source}) > report.txt"
            raise UsageError(f"{source}: more than {MAX_BYTES // 1024**2} MiB: keep the part with the failure: {ends}")
        try:
            text = texts.decode(data)
            saved = exported.read(text)
        except (texts.NotText, exported.SeveralIssues) as error:
            raise UsageError(f"{source}: {error}") from None
        created = days.of_page(data)
        if saved:
            own = saved.url if scrub(saved.url).text == saved.url else ""  # what is private in a file stays there
            text, url, created = saved.text, url or own, saved.created
    path = "<stdin>" if source == "-" else source
    return _without_case(ReportText(path=path, text=text, url=url, created=created), source)


def _bytes(source: str) -> bytes:
    if source == "-":
        stream = getattr(sys.stdin, "buffer", None)
        return stream.read(MAX_BYTES + 1) if stream else sys.stdin.read(MAX_BYTES + 1).encode("utf-8", "surrogatepass")
    if Path(source).is_dir():
        raise UsageError(f"{source} is a folder: name the file with the report")
    return read.data(Path(source), MAX_BYTES + 1)


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
