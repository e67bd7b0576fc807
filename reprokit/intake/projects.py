"""Which project a report is about, and its repository: from the report, or from a small table. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from reprokit.evidence import frames as places
from reprokit.evidence.model import Frame
from reprokit.intake.environments import pairs
from reprokit.intake.environments.lines import ReportLine, plain
from reprokit.intake.table import table as read

_ISSUE = re.compile(
    r"https?://(?P<host>github\.com|gitlab\.com|gitee\.com)/(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+?)(?:\.git)?(?=/|$|[#?)\s])"
)


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project and its repository. ``name``: its folder; ``tag``: the format of release tags, '' = unknown.

    ``package``, ``pip``: its import name and pip package; ``also``: what else it is called; ``why``: how it was found.
    ``built``: it is built from its tree, and programs of reports are not in it. ``programs``: the folder of its own
    programs, where it is a library that those of other projects import, too.
    """

    name: str
    git: str
    tag: str = ""
    package: str = ""
    pip: str = ""
    also: tuple[str, ...] = ()
    why: str = ""
    built: bool = False
    programs: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What it is called: its own name, its import name, its pip package and others."""
        return tuple(filter(None, (self.name, self.package, self.pip, *self.also)))


@cache
def table() -> Mapping[str, Project]:
    """The known projects: lower-case name -> project."""
    rows = {name: {**row, "also": tuple(row.get("also", ()))} for name, row in read("projects").items()}
    return {name.lower(): Project(name=name, **row) for name, row in rows.items()}


def known(name: str) -> Project | None:
    """The known project that people call so; None for another name."""
    return _called().get(_plain(name))


def at(git: str) -> Project | None:
    """The known project with an address; None for another address."""
    wanted = git.rstrip("/").removesuffix(".git").lower()
    return next((one for one in table().values() if one.git.lower() == wanted), None)


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


def linked(text: str) -> list[Project]:
    """The repositories that a text links to."""
    return [found for hit in _ISSUE.finditer(text) if (found := of_url(hit[0]))]


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
    """The projects of the table whose name is among ``words``."""
    known = table()
    found = [known.get(word.lower()) for word in words]
    return list(dict.fromkeys(project for project in found if project and not project.built))


def in_frames(frames: Sequence[Frame]) -> Project | None:
    """The first project of the table whose checkout is in a traceback; None for none."""
    return next((one for one in table().values() if not one.built and folder_of(frames, one)), None)


_COMMIT = re.compile(
    r"(?:(?:commit|revision|\bsha1?|git (?:hash|rev)|HEAD(?: is now)? at|提交)(?: id| hash)?\W{1,5}"
    r"|\b(?:build|version)[:= ]{1,3}\d{1,6} ?\(|\bfrom source[^\n\w]{1,4}|版本\s?[:：]\s?"
    r"|(?<=[a-z])@(?=\w{7,40}(?:[\s),]|$))|\b(?:tried|both|or|git|master|main|version|HEAD|and) (?=[0-9a-f]{40}\b)"
    r"|\bv?\d+\.\d+[\w.]* \(?(?=[0-9a-f]{7,12}(?:[) ]|$))"
    r"|\b(?:master|main|develop|branch|HEAD|git)\b(?: version)?(?: of [\w.-]{1,40})? ?[(@](?:at |commit )?| @ )"
    r"(?=[a-f]*\d)(?=\d*[a-f])([0-9a-f]{7,40})\b",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"https?://(?:github\.com|gitlab\.com|gitee\.com)/[\w.-]{1,60}/(?P<repo>[\w.-]{1,80}?)(?:\.git)?"
    r"(?:(?:/commit/|/tree/|/blob/|@)(?:(?P<commit>[0-9a-f]{7,40})\b|(?P<ref>[\w.-]{1,80}))"
    r"|/?(?=[\s)>\]\"'，。,;]|\.\s|$))(?P<path>/[^\s#)]{0,300})?(?P<cited>#L\d)?",
    re.MULTILINE,
)
_OTHER_COMMIT = re.compile(
    r"\bfix|\bsince\b|\brecent\b|\bbroke|\bbreak|git\+http|introduc|\bcaus|regress|bisect|revert|culprit"
    r"|\brelated\b|\bsimilar\b|\bsee also\b|相关|类似|引入|修复|\bPR\b",
    re.IGNORECASE,
)
_TO_BUILD = re.compile(
    r"reproduc|\brepro\b|test ?case|\bdemo\b|\bminimal\b|\bbuil[dt](?:ing)?\b|\bcompil|\bclon(?:e|ed|ing)\b|source code"
    r"|\bexamples?\b|\brepo(?:sitory)?(?: is\b| ?:)"
    r"|\bcode (?:is|of|and|here)|复现|源码|代码|编译|示例",
    re.IGNORECASE,
)
"""Words around the address of a tree that the report is about."""
_TIP = r"master|main|trunk|develop"
_REF = re.compile(
    r"(?:\b(?:branch|tag)\b|分支|标签|\bcheck(?:ed|ing)?[- ]?out(?: to| at| of)?(?: the)?(?: branch| tag| version)?)"
    rf"[\s:：=`'\"是]{{1,4}}(?P<named>v?\d+\.[\dx][\w.-]{{0,40}}|[a-z][\w-]{{0,40}}/[\w./-]{{1,60}}|{_TIP})(?![\w/])"
    rf"|(?<![\w/-])(?P<branch>{_TIP}|v?\d+\.[\dx]+(?:\.[\dx]+)?|[a-z]{{2,20}}/v?\d[\w.]{{0,20}})"
    r"[`'\"]? ?(?:branch\b|分支)"
    rf"|\b(?:clon(?:e|ed|ing)|built?|building|compil\w+|us(?:e|ed|ing)|on|from|at|latest)"
    rf"(?: (?:the|latest|current|today's|git)){{0,3}} [`'\"]?(?P<tip>{_TIP})(?![\w/-])"
    rf"|(?:[:：=]>?|版本) ?[`'\"]?(?P<given>{_TIP})[`'\"]? ?(?:$|\()",
    re.IGNORECASE,
)
"""A branch or a tag, by the words around it."""
_FROM_SOURCE = re.compile(
    r"\b(?:built|build(?:ing)?|compil\w+|install\w*)\b[^.\n]{0,60}\b(?:from|via|with|using) (?:the )?(?:\w+ )?source\b"
    r"|\binstalled\b[^:\n]{0,60}: *(?:from )?source *$"
    r"|\b(?:custom|source|own) build of\b|源码(?:编译|安装|构建)|编译源码|从源码",
    re.IGNORECASE,
)
_NOT_RUN = re.compile(
    r"^\s*[-*] \[[ xX]?\]|\?\s*$|\b(?:works?|worked|fine|also"
    r"|should|could|would|please|instead|not|merged?|if"
    r"|check that|make sure|ensure|confirm\w*|up[- ]to[- ]date)\b"
    r"|n't\b|正常|建议",
    re.IGNORECASE,
)
"""What lines have that name a branch in which nothing failed."""


@dataclass(frozen=True)
class StatedTree:
    """What a report says of a tree in which it fails. ``project``: None where only a commit is named."""

    project: Project | None
    ref: str
    line: int


def stated(lines: Sequence[str], title: str = "") -> list[StatedTree]:
    """The trees that a report was built from, or that it names for its program: those with a commit first.

    The only repository that is linked for a program or a build counts, too, and a branch, a tag or "from source" that
    words name, where the line or the title has a project of the table.
    """
    sure: dict[str, StatedTree] = {}
    linked: dict[str, StatedTree] = {}
    said: dict[str, StatedTree] = {}
    titled, folder = known_in(title), _in_paths(lines)
    above = ""
    for number, line in enumerate(lines, 1):
        text = line[:1000]
        commit = _COMMIT.search(text) if re.search(r"[0-9a-f]{7}", text) else None
        commit = commit or (_ALONE.fullmatch(text) if _OF_GIT.search(above) else None)
        link = _LINK.search(text) if "://" in text else None
        says = link is None and bool(_MAY_SAY.search(text))
        if not (commit or link or says or titled or folder):
            above = text or above
            continue
        if _OTHER_COMMIT.search(text):
            continue
        project = of_url(link[0]) if link else None
        asked = (commit or link) and _TO_BUILD.search(f"{above} {text}")
        words = known_in(text) if commit or says else []
        near = [one for other in lines[max(0, number - 4) : number + 3] for one in known_in(other)] if commit else []
        rest = [] if names_other(text) else [*titled, *near, *folder]
        known = project or next(iter([*(one for one in words if one in titled), *words, *rest]), None)
        key = known.name.lower() if known else ""
        if commit or (link and link["commit"] and (asked or not link["cited"])):
            ref = (link and link["commit"]) or (commit[1] if commit else "")
            sure.setdefault(key, StatedTree(known, ref, number))
        elif link and project and asked and not link["cited"]:
            linked.setdefault(key, StatedTree(project, link["ref"] or _ref_in(text), number))
        elif known and not link and not _NOT_RUN.search(text):
            name, surely = _ref_in(text), known in (*words, *titled)
            if (name and (surely or re.search(r"\d", name))) or (surely and _FROM_SOURCE.search(text)):
                said.setdefault(key, StatedTree(known, name, number))
        above = text or above
    linked = linked if len(linked) == 1 else {}
    if linked and list(sure) == [""]:  # the one commit is of the one repository
        sure = {key: replace(tree, ref=sure[""].ref) for key, tree in linked.items()}
    found = said | linked | {key: tree for key, tree in sure.items() if key} or sure
    return sorted(found.values(), key=lambda tree: (tree not in sure.values(), tree.line))[:_TREES]


def names_other(text: str) -> bool:
    """Whether the key of a line is a package that no row of the table has: ``wibble version: master``."""
    found = pairs.pair(ReportLine(1, text, text=plain(text)))
    name = found.role.removeprefix("package ") if found and found.role.startswith("package ") else ""
    return bool(name and not known(name))


def _ref_in(text: str) -> str:
    """The branch or the tag that a line names; '' for none."""
    ref = _REF.search(text)
    name = (ref["named"] or ref["branch"] or ref["tip"] or ref["given"]).rstrip(".") if ref else ""
    return name.lower() if re.fullmatch(_TIP, name, re.IGNORECASE) else name


_ALONE = re.compile(r"\W{0,9}([0-9a-f]{40})\W{0,9}")
_OF_GIT = re.compile(r"\bcommit\b|\bHEAD\b|\brev(?:ision|-parse)?\b", re.IGNORECASE)
"""What stands above a commit that is all of a line."""
_TREES = 3
"""Most trees of one report."""
_MAY_SAY = re.compile(
    r"\b(?:branch|tag|check\w{0,4}[- ]?out|source|build of|master|main|trunk|develop)\b|分支|标签|源码", re.I
)


def known_in(text: str) -> list[Project]:
    """The projects of the table that a text names, in order."""
    words = (_plain(word) for word in re.findall(r"[A-Za-z][\w.+-]*(?: Runtime)?", text[:1000], re.A))
    found = [_called().get(word.rstrip(".")) for word in words]
    return list(dict.fromkeys(project for project in found if project))


def _in_paths(lines: Sequence[str]) -> list[Project]:
    """The only project of the table that has the name of a folder in the text; [] for none or more."""
    text = "\n".join(line[:1000] for line in lines if "/" in line and "-packages" not in line)
    names = {name.lower() for name in re.findall(r"(?<=/)[\w.-]{3,40}(?=/|[#$\]] ?)", text)}
    found = [project for name, project in table().items() if name in names]
    return found if len(found) == 1 else []


@cache
def _called() -> Mapping[str, Project]:
    """What texts call the known projects -> project."""
    names = {_plain(name): project for project in table().values() for name in (project.pip, *project.also) if name}
    return names | {_plain(name): project for name, project in table().items()}


def _plain(name: str) -> str:
    return re.sub(r"[ _-]", "", name.lower())


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
