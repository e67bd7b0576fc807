"""The cases that a command names: files and folders of this host, standard input, and web addresses."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from reprokit.case.files import CaseFile
from reprokit.case.markdown import blocks
from reprokit.case.read import Text, decode
from reprokit.core.errors import CaseError, Problem, UsageError
from reprokit.environment import cases

if TYPE_CHECKING:
    from reprokit.core.issues import Issue


def load(source: str, *, stdin: TextIO | None = None) -> list[CaseFile]:
    """The cases of a CASE argument: see :func:`reprokit.case.files.load`."""
    return cases.load(source, stdin=stdin, fetch=fetch)


def load_all(sources: Iterable[str]) -> list[CaseFile]:
    """The cases of several CASE arguments. Raises CaseError with the problems of all of them, and UsageError."""
    files: list[CaseFile] = []
    problems: list[Problem] = []
    for source in dict.fromkeys(sources):
        try:
            files += load(source)
        except CaseError as error:
            problems += error.problems
    if problems:
        raise CaseError(problems)
    unique = {(os.path.realpath(file.path), file.digest): file for file in files}
    first: dict[str, CaseFile] = {}
    for file in unique.values():
        other = first.setdefault(file.case.id, file)
        if other is not file:
            raise UsageError(f"{other.path} and {file.path} both have the id {file.case.id!r}: ids must be unique")
    return list(unique.values())


def fetch(url: str) -> Text | Problem:
    """The text at a web address: a file, a gist, or an issue that holds a case. Raises UsageError."""
    from reprokit.core import fetch as pages  # here, because most runs need no network, and it takes a while to import
    from reprokit.core import issues

    if issues.is_discussion(url):
        raise UsageError(f"{url}: a discussion can only be read with a browser; {issues.INSTEAD}")
    if issues.is_issue(url):
        return _from_issue(issues.read(url))
    page = pages.get(pages.raw(url))
    if page.media_type != "text/html":
        return decode(url, page.data)
    if issues.may_be_issue(url):
        return _from_issue(issues.read(url))
    raise UsageError(f"{url}: answers with a web page, not with a case (use the address of the raw file)")


def _from_issue(issue: Issue) -> Text:
    """The text of an issue if it holds a case, else that of the one comment that does."""
    if not blocks(issue.body.text):
        holding = [comment for comment in issue.comments() if blocks(comment.text)]
        if len(holding) > 1:
            which = "".join(f"\n  {comment.url}" for comment in holding)
            raise UsageError(
                f"{issue.url}: {len(holding)} comments hold a case, and the text above does not: name one{which}"
            )
        if holding:
            return Text(path=holding[0].url, text=holding[0].text, markdown=True)
    return Text(path=issue.url, text=issue.body.text, markdown=True)
