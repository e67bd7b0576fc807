"""Which project a report is about, and its repository: from the report, or from a small table. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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


def names_other(text: str) -> bool:
    """Whether the key of a line is a package that no row of the table has: ``wibble version: master``."""
    found = pairs.pair(ReportLine(1, text, text=plain(text)))
    name = found.role.removeprefix("package ") if found and found.role.startswith("package ") else ""
    return bool(name and not known(name))


def known_in(text: str) -> list[Project]:
    """The projects of the table that a text names, in order."""
    words = (_plain(word) for word in re.findall(r"[A-Za-z][\w.+-]*(?: Runtime)?", text[:1000], re.A))
    found = [_called().get(word.rstrip(".")) for word in words]
    return list(dict.fromkeys(project for project in found if project))


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
