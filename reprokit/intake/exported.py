"""An issue that was saved as JSON, by a tracker's program or from its interface -> its title and text. Pure.

``gh issue view 3 --json title,body`` prints such a file, and so do the interfaces of GitHub, GitLab, Gitee and Jira.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reprokit.core import json_text

_TITLES = ("title", "summary")
_BODIES = ("body", "description")
_CREATED = ("createdAt", "created_at", "created")
_ADDRESSES = ("html_url", "web_url", "url")
_WITHIN = ("data", "repository", "issue", "issueOrPullRequest", "fields")
"""Keys below which interfaces have the issue."""
_DEEPEST = 50
"""Most levels of a formatted text that are read."""


class SeveralIssues(ValueError):
    """A file with more than one issue."""


@dataclass(frozen=True, kw_only=True)
class ExportedIssue:
    """An issue as its tracker has it. ``url``, ``created``: its address and its time, '' where they are not given."""

    title: str
    body: str
    url: str = ""
    created: str = ""

    @property
    def text(self) -> str:
        """The report: the title, and what the reporter wrote first."""
        return f"# {self.title}\n\n{self.body}"


def read(text: str) -> ExportedIssue | None:
    """The issue in a text; None where the text is not the JSON of one. Raises SeveralIssues."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = json_text.loads(text)
    except ValueError:
        return None
    if isinstance(found, list):
        issues = [one for one in map(_issue, found) if one]
        if len(issues) > 1:
            raise SeveralIssues(f"a list of {len(issues)} issues: name a file with one of them (jq '.[0]' FILE)")
        return next(iter(issues), None)
    return _issue(found)


def _issue(found: Any) -> ExportedIssue | None:
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
    title = _first(found, _TITLES)
    body = next((found[key] for key in _BODIES if isinstance(found.get(key), (str, Mapping))), None)
    if not title or body is None:
        return None
    written = body if isinstance(body, str) else "".join(_formatted(body))
    if isinstance(environment := found.get("environment"), str):  # a field of its own in Jira's form
        written += f"\n\n## Environment\n\n{environment}\n"
    url = next((one for key in _ADDRESSES if re.match(r"https?://\S+$", one := str(outer.get(key, "")))), "")
    return ExportedIssue(title=" ".join(title.split()), body=written, url=url, created=_first(outer, _CREATED))


def _first(found: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((found[key] for key in keys if isinstance(found.get(key), str)), "")


def _formatted(node: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """The Markdown of a text in Atlassian's document format."""
    kind, content = node.get("type"), node.get("content")
    attributes = node.get("attrs") if isinstance(node.get("attrs"), Mapping) else {}
    inner = content if isinstance(content, list) and depth < _DEEPEST else []
    parts = [part for one in inner if isinstance(one, Mapping) for part in _formatted(one, depth + 1)]
    if kind == "text":
        yield str(node.get("text", ""))
    elif kind == "hardBreak":
        yield "\n"
    elif kind == "codeBlock":
        yield from (f"\n\n```{(attributes or {}).get('language') or ''}\n", *parts, "\n```\n\n")
    elif kind == "heading":
        yield from ("\n\n## ", *parts, "\n\n")
    elif kind == "listItem":
        yield from ("\n- ", "".join(parts).strip())
    else:
        yield from (*parts, "\n\n" if kind in ("paragraph", "blockquote", "bulletList", "orderedList") else "")
