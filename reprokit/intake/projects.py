"""Which project a report is about, and its repository: from the report, or from a small table. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from reprokit.evidence import frames as places
from reprokit.evidence.model import Frame
from reprokit.intake.table import table as read

_ISSUE = re.compile(
    r"https?://(?P<host>github\.com|gitlab\.com|gitee\.com)/(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+?)(?:\.git)?(?=/|$|[#?)\s])"
)


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project and its repository. ``name``: its folder; ``tag``: the format of release tags, '' = unknown.

    ``package``, ``pip``: its import name and pip package; ``why``: how it was found. ``built``: it is built from its
    tree, and programs of reports are not in it.
    """

    name: str
    git: str
    tag: str = ""
    package: str = ""
    pip: str = ""
    why: str = ""
    built: bool = False


@cache
def table() -> Mapping[str, Project]:
    """The known projects: lower-case name -> project."""
    return {name.lower(): Project(name=name, **row) for name, row in read("projects").items()}


def of_url(url: str) -> Project | None:
    """The project of an address within its repository, such as that of an issue; None for other addresses."""
    found = _ISSUE.match(url)
    if found is None:
        return None
    git = f"https://{found['host']}/{found['owner']}/{found['repo']}"
    known = table().get(found["repo"].lower())
    if known and known.git.lower() == git.lower():
        return known
    return Project(name=found["repo"], git=git)


def folder_of(frames: Sequence[Frame], project: Project) -> str:
    """The folder of a project's checkout in the frames of a traceback, '' where there is none.

    It has the project's name, maybe with a branch after it as in GitHub's archives (``PaddleSeg-release-2.8``).
    """
    called = re.compile(rf"{re.escape(project.name)}(?:[-_][\w.]+)?", re.IGNORECASE)
    for frame in frames:
        path = frame.file.replace("\\", "/")
        if places.kind(Frame(file=path, line=0, function="")) != "own":
            continue
        parts = path.split("/")
        at = next((number for number, part in enumerate(parts[:-1]) if called.fullmatch(part)), None)
        if at is not None:
            return "/".join(parts[: at + 1])
    return ""


def named(words: Iterable[str]) -> list[Project]:
    """The projects of the table whose name or pip package is among ``words``."""
    known = table()
    by_pip = {project.pip: project for project in known.values() if project.pip}
    found = [known.get(word.lower()) or by_pip.get(word.lower()) for word in words]
    return list(dict.fromkeys(project for project in found if project and not project.built))


def in_frames(frames: Sequence[Frame]) -> Project | None:
    """The first project of the table whose checkout is in a traceback; None for none."""
    return next((one for one in table().values() if not one.built and folder_of(frames, one)), None)


_COMMIT = re.compile(
    r"(?:(?:commit|revision|\bsha1?|git (?:hash|rev)|HEAD(?: is now)? at|提交)(?: id| hash)?\W{1,5}"
    r"|\b(?:build|version)[:= ]{1,3}\d{1,6} ?\(|\bfrom source[^\n\w]{1,4}|版本\s?[:：]\s?"
    r"|(?<=[a-z])@(?=\w{7,40}(?:[\s),]|$))|\b(?:tried|both|or|git|master|main|version|HEAD|and) (?=[0-9a-f]{40}\b)"
    r"|\bv?\d+\.\d+[\w.]* \(?(?=[0-9a-f]{7,12}(?:[) ]|$)))"
    r"(?=[a-f]*\d)(?=\d*[a-f])([0-9a-f]{7,40})\b",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"https?://(?:github\.com|gitlab\.com|gitee\.com)/[\w.-]{1,60}/(?P<repo>[\w.-]{1,80}?)(?:\.git)?"
    r"(?:(?:/commit/|/tree/|@)(?P<commit>[0-9a-f]{7,40})\b|/?(?=[\s)>\]\"'，。,;]|\.\s|$))",
    re.MULTILINE,
)
_OTHER_COMMIT = re.compile(
    r"\bfix|\bsince\b|\brecent\b|\bbroke|\bbreak|git\+http|introduc|\bcaus|regress|bisect|revert|culprit"
    r"|\brelated\b|\bsimilar\b|\bsee also\b|相关|类似|引入|修复|\bPR\b",
    re.IGNORECASE,
)
_TO_BUILD = re.compile(
    r"reproduc|\brepro\b|test ?case|\bdemo\b|\bminimal\b|\bbuild(?:ing)?\b|\bcompil|\bclone|source code"
    r"|\bcode (?:is|and|here)|复现|源码|代码|编译",
    re.IGNORECASE,
)
"""Words around the address of a tree that the report is about."""


@dataclass(frozen=True)
class StatedTree:
    """What a report says of the tree in which it fails. ``project``: None where only a commit is named."""

    project: Project | None
    ref: str
    line: int


def stated(lines: Sequence[str]) -> StatedTree | None:
    """The commit that a report was built from, or the one repository that it names for its program or its build."""
    named: dict[str, StatedTree] = {}
    above = ""
    for number, line in enumerate(lines, 1):
        text = line[:1000]
        commit = _COMMIT.search(text) if re.search(r"[0-9a-f]{7}", text) else None
        link = _LINK.search(text) if "://" in text else None
        if _OTHER_COMMIT.search(text):
            continue
        project = of_url(link[0]) if link else None
        if commit or (link and link["commit"]):
            words = (re.sub(r"[ _-]", "", name) for name in re.findall(r"[A-Za-z][\w.+-]*(?: Runtime)?", text))
            known = next((table()[word.lower()] for word in words if word.lower() in table()), None)
            return StatedTree(project or known, (link and link["commit"]) or (commit[1] if commit else ""), number)
        if project and _TO_BUILD.search(f"{above} {text}"):
            named.setdefault(project.git.lower(), StatedTree(project, "", number))
        above = text or above
    return next(iter(named.values())) if len(named) == 1 else None


def ref_of(project: Project, version: str) -> tuple[str, str]:
    """(git ref, why) for a reported version: its tag, or ``HEAD`` where there is none."""
    text = version.strip()
    number = re.match(r"v?(\d+(?:\.\d+)+(?:(?:a|b|rc|\.post)\d+)?)", text)
    unreleased = re.search(r"dev|unknown", text.partition("+")[0]) or (number and set(number[1]) <= {"0", "."})
    if number and project.tag and not unreleased:
        ref = project.tag.format(version=number[1])
        commit = re.search(r"\+([0-9a-f]{7,40})\b", text)
        behind = f"; the commit was {commit[1]}" if commit else ""
        return ref, f"the tag of {text}, in the form of {project.name}'s release tags{behind}"
    reason = f"the report says {text}, which is not a release" if text else "the report names no version of it"
    return "HEAD", f"{reason}: this is today's default branch; replace it with the commit that was used"
