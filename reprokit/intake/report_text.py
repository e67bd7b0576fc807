"""Where the text of a report comes from: a file, standard input, an issue or its JSON, or another address."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprokit.case import markdown, read
from reprokit.core import fetch, issues, json_text
from reprokit.core.errors import UsageError
from reprokit.core.redaction import scrub

MAX_BYTES = 32 * 1024**2
"""Largest file that is read."""
MOST = 160_000
"""Most characters of a report that are read: of a longer one the first and the last half of them."""
MOST_LINES = 3_000
"""Most lines that are read, in the same way."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""In this order: UTF-32's mark begins with that of UTF-16."""
_CONTROL = dict.fromkeys((*range(9), 11, *range(14, 27), *range(28, 32)))


@dataclass(frozen=True, kw_only=True)
class ReportText:
    """A report as it was read."""

    path: str
    """Its name in messages."""
    text: str
    url: str = ""
    """Its address, '' for a file."""
    created: str = ""
    """The time or day at which its server says that it was written; '' where none does."""


def read_report(source: str) -> ReportText:
    """Read the report at ``source`` (a file, ``-``, an address); of an issue, also as JSON, its title and first text.

    Raises UsageError when it cannot be read, is not text, or contains a case already.
    """
    path = "<stdin>" if source == "-" else source
    url = source if source.lower().startswith(("http://", "https://")) else ""
    if url and issues.is_issue(url):
        issue = issues.read(url)
        found = ReportText(path=path, text=f"# {issue.title}\n\n{issue.body.text}", url=url, created=issue.body.created)
        return _refuse_case(found, source)
    data = fetch.get(fetch.raw(url)).data if url else _bytes(source)
    if len(data) > MAX_BYTES:
        ends = f"(head -c 500000 {source}; tail -c 500000 {source}) > report.txt"
        raise UsageError(f"{source}: more than {MAX_BYTES // 1024**2} MiB: keep the part with the failure: {ends}")
    text = decode(data, source)
    saved = read_issue_json(text, path)
    if saved is not None:
        own = saved.url if scrub(saved.url).text == saved.url else ""  # what is private in a file stays there
        saved = ReportText(path=path, text=saved.text, url=url or own, created=saved.created)
    return _refuse_case(saved or ReportText(path=path, text=text, url=url), source)


def _bytes(source: str) -> bytes:
    if source == "-":
        stream = getattr(sys.stdin, "buffer", None)
        return stream.read(MAX_BYTES + 1) if stream else sys.stdin.read(MAX_BYTES + 1).encode("utf-8", "surrogatepass")
    if Path(source).is_dir():
        raise UsageError(f"{source} is a folder: name the file with the report")
    return read.data(Path(source), MAX_BYTES + 1)


def _refuse_case(report: ReportText, source: str) -> ReportText:
    """The report, unless it contains a case, which is more precise than a draft. Raises UsageError then."""
    found = markdown.blocks(report.text)
    if found or re.match(r"(?:\ufeff|#.*\n|\s)*schema[ \t]*:[ \t]*[\"']?reprokit/", report.text):
        where = f" in line {found[0].first_line + 1}" if found else ""
        raise UsageError(
            f"{report.path} holds a case already{where}: reprokit validate {source} checks it, and reprokit run "
            f"{source} runs it"
        )
    return report


def decode_marked(data: bytes) -> str | None:
    """The text in data that begin with a byte order mark; None for other data."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data.decode(name, "replace").removeprefix("\ufeff")
    return None


def decode(data: bytes, name: str) -> str:
    """The text in ``data``, in UTF-8, with a byte order mark, or in GB 18030. Raises UsageError for anything else."""
    text = decode_marked(data)
    if text is None:
        text = data.decode("utf-8", "replace")
        high = sum(byte > 127 for byte in data)
        if text.count("\ufffd") * 20 > high:  # more than a broken character here and there
            text = data.decode("gb18030", "replace")
    sample = text[:4000]
    if "\0" in sample or len(sample.translate(_CONTROL)) < 0.9 * len(sample):
        raise UsageError(f"{name}: not text: copy what it shows into a text file, and name that")
    return text


def shorten_report(text: str) -> str:
    """The first and the last lines of a text of more than so many characters or lines, with a line about the rest.

    All lines end in a line feed then: what ends a line for the readers counts here.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    half = MOST_LINES // 2
    if len(text) <= MOST and text.count("\n") < MOST_LINES:
        return text
    head, tail = text[: MOST // 2], text[-(MOST // 2) :]
    head = head[: head.rfind("\n") + 1] or head
    tail = tail[tail.find("\n") + 1 :] or tail
    head = "".join(f"{line}\n" for line in head.split("\n")[:-1][:half]) or head
    tail = "\n".join(tail.rsplit("\n", half)[-half:])
    lines = text.count("\n", len(head), len(text) - len(tail))
    cut = len(text) - len(head) - len(tail)
    return f"{head}[reprokit: {cut} bytes ({lines} lines) cut]\n{tail}"


# -- issues as JSON ------------------------------------------------------------------------------------------------

_TITLES, _BODIES = ("title", "summary"), ("body", "description")
_CREATED, _ADDRESSES = ("createdAt", "created_at", "created"), ("html_url", "web_url", "url")
_WITHIN = ("data", "repository", "issue", "issueOrPullRequest", "fields")
"""Keys below which interfaces of trackers have the issue."""


def read_issue_json(text: str, name: str) -> ReportText | None:
    """The issue in the JSON of a tracker, such as ``gh issue view 3 --json title,body`` prints; None for other text.

    Raises UsageError for a list of several issues.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = json_text.loads(text)
    except ValueError:
        return None
    issues_ = [one for one in (_issue(row) for row in (found if isinstance(found, list) else [found])) if one]
    if len(issues_) > 1:
        raise UsageError(f"{name}: a list of {len(issues_)} issues: name a file with one of them (jq '.[0]' FILE)")
    return issues_[0] if issues_ else None


def _issue(found: Any) -> ReportText | None:
    outer: Mapping[str, Any] = {}
    for _ in _WITHIN:
        if not isinstance(found, Mapping):
            return None
        outer = {**outer, **found}
        if any(isinstance(found.get(key), str) for key in _TITLES):
            break
        found = next((found[key] for key in _WITHIN if key in found), None)
    if not isinstance(found, Mapping):
        return None
    title, body = _first(found, _TITLES), _first(found, _BODIES)
    if not title or not body:
        return None
    url = next((one for key in _ADDRESSES if re.match(r"https?://\S+$", one := str(outer.get(key, "")))), "")
    return ReportText(path="", text=f"# {' '.join(title.split())}\n\n{body}", url=url, created=_first(outer, _CREATED))


def _first(found: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((found[key] for key in keys if isinstance(found.get(key), str)), "")
