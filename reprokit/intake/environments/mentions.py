"""Versions that pasted lines print by themselves, and whether a line says that something works or fails. Pure.

What lines say is in ``data/statements.yaml``. Versions in sentences are left to a reader of the report.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from reprokit.environment.axes import BY_NAME
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.pairs import ROLES
from reprokit.intake.table import table

_VERSION = (
    r"v?\d{1,4}(?:\.(?:\d+[^\W_]*|[x*]))+(?:[-.]?(?:post|rc|dev|a|b|alpha|beta|nightly|SNAPSHOT)\d*)?(?:\+[\w.]+)?"
)
_NAME = r"[A-Za-z][A-Za-z0-9_.+-]{0,40}?"
ASKED_FOR = re.compile(
    r"[<>~]=|\b(?:requires?|required|requirements?|needs?|needed|supports?|supported|minimum|at least|recommend\w*"
    r"|compatible|should|(?:and|or) (?:newer|later|above|higher|greater|older|earlier|up)|available|deprecated"
    r"|(?:removed|fixed|introduced|merged) in|will|plan(?:s|ned|ning)?|changelog|docs?|documentation|readme)\b"
    r"|以上|以下|至少|最低|需要|要求|建议|推荐|支持|文档|计划|有没有|修复|[?？]$",
    re.IGNORECASE,
)
"""A clause about versions that something asks for, plans or tells of, rather than has."""
_OWN_NAMES = re.compile(
    r"^\s{0,12}(?:>>> |\.\.\. )?(?:import|from)\s+([A-Za-z_]\w{1,40})|(?:site|dist)-packages[/\\]([A-Za-z_]\w{1,40})"
    r"|\b(?:pip3?|conda|mamba|uv) (?:pip )?(?:install|show) (?:-[ncfirt] \S+ |-\S+ ){0,4}([A-Za-z][\w.-]{1,40})"
    r"|\b(\w{2,40})\.__version__"
    r"|No module named ['\"]?(\w{2,40})"
    r"|\bmodule ['\"](\w{2,40})|\bgrep (?:-\w+ )?['\"]?([A-Za-z][\w-]{1,40})"
    r"|https?://git(?:hub|ee|lab)\.com/[\w.-]{1,60}/([\w.-]{2,60})/(?:issues|pull|releases)"
    r"|(?<![\w.-])([A-Za-z]\w{1,60})-\d[\w.]{0,30}(?:\+[\w.]{1,30})?-(?:cp|py)\d[\w.-]{1,80}\.whl"
    r"|\b(?:install|installed|use|using|running) ([a-z][a-z0-9_-]{1,40})(?:[ =]{1,2}|-| version )v?\d+\.\d+\.\d"
    r"|^[#*\s]{0,6}(?:the )?versions? of ([A-Za-z][\w-]{1,40})|^[#*\s]{0,6}([A-Za-z][\w-]{1,40}) ?(?:versions?\b|版本)",
    re.MULTILINE | re.IGNORECASE,
)
_PREPOSITIONS = frozenset(
    re.split(
        r"\s+",
        "with in to on from till through previous fine broken version versions since after before v release was is "
        "works worked work fails failed using use and or until by at than under the be for only not also even still "
        "back it that this my a an of via "
        "between installed tried tested latest current newest old new stable python-version framework library package "
        "as like say "
        "software tool app project code repo model server plugin system compiler driver tag branch commit file api",
    )
)
"""Words before a version whose name is elsewhere in the sentence; behind any other word, it is of that word."""
_NO_NAMES = frozenset({"", *table()["no_names"], *table()["generic"]})
_WHOLE = re.compile(rf"(?P<name>{_NAME})(?:,? version|[:=,]{{1,2}})?[ \t]{{0,40}}(?P<version>{_VERSION})", re.ASCII)
"""A line of a program that prints its version."""
_FILE = re.compile(
    rf"(?<![\w.-])(?P<name>[A-Za-z][\w.]{{0,60}}?)-(?P<version>{_VERSION})"
    r"(?:\.dist-info|\.egg-info|-py[23]\S{0,40}(?:\.egg|\.whl)|(?:-cu\d{2,3})?-cp\S{1,80}\.whl|\.tar\.gz|\.zip)",
    re.ASCII,
)
"""Files and folders of an installed package."""
_NAMED = frozenset({"package", *BY_NAME}) - {"os"}


_FORM = re.compile(
    rf"(?P<name>{_NAME}(?: {_NAME})?)[ -]?(?:versions?|版本号?)(?: ?[(（][^()（）]{{1,80}}[)）])?[\s*_`]{{0,9}}"
    rf"(?:[:：=]{{1,2}}[\s*_`]{{0,9}}(?P<version>v?{_VERSION})[\s*_`]{{0,9}})?",
    re.IGNORECASE | re.ASCII,
)
"""The line of a form that asks for the version of something, and may have the answer."""
_ANSWER = re.compile(rf"v?{_VERSION}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A version that a line names. ``role``: as of a key (``cuda``, ``package numpy``), "" where no name stands by it.

    ``fails``: whether the sentence says that it fails or works with it; None for neither. ``named``: the name stands
    by the version, rather than elsewhere in the text; ``sure``: much says that it is what the report has installed.
    """

    role: str
    version: str
    line: int
    words: str
    fails: bool | None = None
    named: bool = False
    sure: bool = False


@cache
def _statements() -> Sequence[tuple[bool, bool, re.Pattern[str]]]:
    """(whether it fails, whether it is weak, pattern) of each row of the table."""
    return [
        (row["fails"], row.get("weak", False), re.compile("|".join(row["patterns"]), re.IGNORECASE))
        for row in table("statements")["statements"]
    ]


def fails(text: str) -> bool | None:
    """Whether a text says that it fails; None where it says neither or both, or asks."""
    said = frozenset() if text.endswith(("?", "？")) else judged(text)
    return next(iter(said)) if len(said) == 1 else None


@lru_cache(maxsize=4096)  # asked for a line, its sentences and clauses, by several readers
def judged(text: str) -> frozenset[bool]:
    """Whether a text says that something fails, that it works, or both."""
    said: dict[bool, set[bool]] = {False: set(), True: set()}
    for verdict, weak, pattern in _statements():
        rest = pattern.sub(lambda found: " " * len(found[0]), text)
        if rest != text:
            said[weak].add(verdict)
        text = rest
    return frozenset(said[False] or said[True])


def own_names(text: str) -> frozenset[str]:
    """What a report imports, installs or shows in paths of installed packages, in small letters."""
    hits = (next(filter(None, found.groups()), "") for found in _OWN_NAMES.finditer(text))
    names = {name.lower().split(".")[0] for name in hits}
    return frozenset(names | {name.replace("_", "-") for name in names}) - _PREPOSITIONS - _NO_NAMES


def answers(lines: Sequence[ReportLine]) -> Iterator[Mention]:
    """What a form says: ``Wobble version: 1.2.3``, and the version alone below such a line."""
    asked = ""
    for line in lines:
        if line.blank or line.edge:
            continue
        text = line.text.strip("#*_` ")[:200]
        hit = _FORM.fullmatch(text)
        name = re.sub(r"\s+", "-", hit["name"].strip().lower()) if hit else ""
        role = role_of(name, {name}) if not _NO_NAMES.intersection(name.split("-")) else ""
        version = hit["version"] if hit else text if asked and _ANSWER.fullmatch(text) else ""
        if version and (of := role if hit else asked):
            bare = version.lstrip("vV")
            yield Mention(role=of, version=bare, line=line.number, words=line.text, named=True, sure=True)
        asked = role if hit and not version else ""


def printed(lines: Sequence[ReportLine], own: Collection[str]) -> Iterator[Mention]:
    """What pasted lines say: a name and its version alone, and names of files such as ``wobble-1.2.3.dist-info``."""
    for line in lines:
        for hit in (_WHOLE.fullmatch(line.text), *_FILE.finditer(line.text)):
            if hit and (role := role_of(hit["name"], own)) and False not in judged(line.text):
                version = hit["version"].lstrip("vV")
                yield Mention(role=role, version=version, line=line.number, words=line.text, named=True)


def role_of(name: str, own: Collection[str]) -> str:
    """What a name in a sentence is of: an axis, ``package NAME``, or '' for no name of a version."""
    name = name.lower().strip("-._:")
    role = _listed(name)
    own_name = next((one for one in (name, name.replace("_", "-")) if one in own and one not in _PREPOSITIONS), "")
    role = f"package {own_name}" if not role and own_name else role
    return role if role.partition(" ")[0] in _NAMED else ""


@lru_cache(maxsize=4096)  # a report has few names, in many places
def _listed(name: str) -> str:
    """What a name is of by the tables, in small letters; '' for one that they do not have."""
    if re.fullmatch(r"python[23]?|py[23]?", name):
        return "python"
    return ROLES.get(name, "") or ROLES.get(name.replace("-", " "), "")
