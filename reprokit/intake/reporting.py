"""Where the text of a report comes from: a file, standard input, an issue, or another address."""

from __future__ import annotations

from dataclasses import dataclass

from reprokit.errors import Problem, UsageError


@dataclass(frozen=True, kw_only=True)
class ReportText:
    """A report as it was read. ``url``: where it stands, '' for a file; ``path``: what to call it."""

    path: str
    text: str
    url: str = ""


def read_report(source: str) -> ReportText:
    """The report that ``source`` (a file, ``-``, an address) stands for; of an issue its title and its first text.

    Raises UsageError when it cannot be read, or is no text.
    """
    from pathlib import Path

    from reprokit.case import read

    if source.lower().startswith(("http://", "https://")):
        from reprokit.web import issues

        if issues.is_issue(source):
            issue = issues.read(source)
            return ReportText(path=source, text=f"# {issue.title}\n\n{issue.body.text}", url=source)
    elif Path(source).is_dir():
        raise UsageError(f"{source} is a folder; name the file with the report")
    item = next(iter(read.read(source)))
    if isinstance(item, Problem):
        raise UsageError(str(item))
    return ReportText(path=item.path, text=item.text, url=source if "://" in source else "")
