"""What a report may name with a version, by weak evidence that adds up: pairs of a name and a version, and its subject.

A pair such as ``wobble v1.2.3`` counts by how it is written, what is called so and where it stands (:func:`find`). The
subject is the project that the report is about (:func:`subject`): ``since 2.0`` and a form's ``Version`` are of it.
Pure.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from reprokit.environment import wording
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.mentions import ASKED_FOR
from reprokit.intake.environments.pairs import ROLES
from reprokit.intake.table import table

ENOUGH = 5
"""The least score of a pair that counts."""
_NAME = r"@?[A-Za-z][A-Za-z0-9_+-]{0,40}(?:[./][A-Za-z][A-Za-z0-9_+-]{0,40}){0,3}"
_VERSION = (
    r"\d{1,4}(?:\.\d{1,6}){1,3}(?:[-.]?(?:rc|alpha|beta|dev|post|preview|nightly|SNAPSHOT|a|b|p|r)[.-]?\d*)?"
    r"(?:[+][\w.]{1,20})?"
)
_PAIR = re.compile(
    rf"(?<![\w./@\\-])(?<!\w:)(?P<name>{_NAME})"
    r"(?:[ -](?P<kind>server|client|cli|cluster|compiler|framework|library|package|plugin|runtime|toolkit))?"
    r"(?P<mark>[\"'`*)]{0,2}(?:\s?==\s?|@|\s?(?:[:：=]{1,2}|[=-]>)\s{0,20}|\s?[(（]|-|/|\s)(?:\([\w .-]{1,20}\)\s)?"
    r"(?:(?:versions?|ver\.?|release|版本号?)\s?[:：=]?\s?)?(?:stable@)?[\"'`\[]?[~^=]?v?=?)"
    rf"(?P<version>{_VERSION})(?![\w/@%]|[.:-]\d|°|\s?(?:[KMGT]i?B|[kMG]?Hz|[mun]?s|sec|seconds?|minutes?|hours?|fps|px|times?|x|%|FLOPS)\b)",
    re.ASCII,
)
_WORDS = frozenset(table()["no_names"])
"""What stands before a number without naming a project."""
_SECTION = re.compile(
    r"version|environment|platform|\bsystem\b|informations?\b|\binfo\b|setup|configuration|软件|版本|环境|系统|配置",
    re.IGNORECASE,
)
_BANNER = re.compile(r"(?:^|\s)(?:--version|-V|-v|-version|version)\s*$")
_CODE = re.compile(
    r"^\s*(?:File \"|at |\d+[:.)] |#\d+ |//|/\*|import |from |def |class |return |const |let |var |if |for )|[;{}]\s*$"
)
_INSTALLS = re.compile(r"\b(?:pip[\d.]*|uv|conda|mamba) (?:pip )?(?:install|add|create)\b")
_MOST = 4000
"""Most pairs of a report that are looked at."""


@dataclass(frozen=True, kw_only=True)
class NamedVersion:
    """A name and a version on a line, and how much says that it is what the report has installed."""

    name: str
    version: str
    line: int
    score: int


def find(
    lines: Sequence[ReportLine], pasted: Collection[int], known: Collection[str], title: str = ""
) -> list[NamedVersion]:
    """The pairs of a report that count: for each name that with the highest score, without a version where two have it.

    ``pasted``: numbers of lines that were pasted rather than written; ``known``: names of which the report is known to
    have a version, in small letters, its subject among them.
    """
    found = list(_scored(lines, pasted, known))
    often = Counter(one.name for one in found)
    titled = frozenset(re.findall(r"[a-z][\w.+-]*\w", title.lower()))
    best: dict[str, list[NamedVersion]] = {}
    for one in found:
        raised = replace(one, score=one.score + (often[one.name] > 1) + 3 * (one.name in titled))
        if raised.score >= ENOUGH:
            best.setdefault(one.name, []).append(raised)
    chosen = []
    for some in best.values():
        top = max(one.score for one in some)
        several = [one for one in some if one.score == top]
        alike = len({one.version for one in several}) == 1
        chosen.append(several[0] if alike else replace(several[0], version=""))
    return sorted(chosen, key=lambda one: one.line)


def _scored(lines: Sequence[ReportLine], pasted: Collection[int], known: Collection[str]) -> Iterator[NamedVersion]:
    section, banner, count = False, False, 0
    for line in lines:
        if line.heading:
            section = bool(_SECTION.search(line.text))
        skip = (
            line.blank or line.edge or count > _MOST or bool(_INSTALLS.search(line.text))
        )  # those are read as commands
        if skip or not re.search(r"\d\.\d", line.text):
            banner = banner if line.edge or (line.blank and banner) else bool(_BANNER.search(line.text))
            continue
        hits = list(_PAIR.finditer(_OF_KEY.sub("", line.text)))
        count += len(hits)
        for hit in hits:
            code = line.number in pasted
            name = _called(hit, known)
            score = _how(name, hit, line, known) + 2 * section + 3 * (banner and code)
            score += 2 * (len(hits) > 2) - 4 * bool(ASKED_FOR.search(line.text)) - 3 * bool(_CODE.search(line.raw))
            yield NamedVersion(name=name, version=hit["version"], line=line.number, score=score)
        banner = bool(_BANNER.search(line.text))


_OF_KEY = re.compile(
    r"\s?[(（](?:[^()（）\n]{1,200}[)）](?=[*_`]{0,3}\s?[:：])|(?:e\.g|例如|比如|如)[^()（）\n]{1,200}[)）])"
)
"""What a key of a form says in brackets: ``Wobble version (use the command below): 1.2``, and its example."""
_BEFORE = re.compile(r"(?:[A-Za-z][\w.+-]*\s){1,2}$", re.ASCII)


def _called(hit: re.Match[str], known: Collection[str]) -> str:
    """The name of a pair, in small letters: with the words around it where that is known or begins the line."""
    name = re.sub(r"^[\w-]+\.(?:com|org|io|in)/.*/", "", hit["name"].lower())  # a module of Go
    before = _BEFORE.search(hit.string[max(0, hit.start() - 80) : hit.start()])
    words = [*(before[0].lower().split() if before else ()), name]
    for longer in (*("-".join(words[at:]) for at in range(len(words) - 1)), f"{name}-{(hit['kind'] or '').lower()}"):
        if longer in known:
            return longer
    begins = before and before.start() == 0 and hit.start() == before.end() and not _WORDS.intersection(words)
    begins = begins and not re.match(r"\w+(?:ed|ing)\s", hit.string)
    return "-".join(words) if begins and len(words) == 2 and before and before[0][0].isupper() else name


def _how(name: str, hit: re.Match[str], line: ReportLine, known: Collection[str]) -> int:
    """How much the words of a pair say for it."""
    mark, version = hit["mark"].lower(), hit["version"]
    verb = name.endswith("ing") and name not in known and name not in ROLES  # building v2.14
    if name in _WORDS or len(name) < 2 or wording.family(name) or verb:
        return -99
    parts = version.split(".")
    score = 3 * (name in ROLES or name in known) + bool(re.search(r"[A-Z]", hit["name"]) and not hit["name"].isupper())
    score += 3 * bool(re.search(r"==|version|ver\.?|版本|release|[~^]", mark))
    score += 2 * bool(re.search(r"v=?$", mark)) + 3 * ("@" in mark) + (mark == " ")
    score += (len(parts) > 2) + bool(re.search(r"[a-z]", version)) - 2 * (mark.endswith("/"))
    if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", version):
        score -= 3
    if re.match(r"20\d\d\.", version) or re.match(r"0\d|\d+\.\d{3,}$", version):
        score -= 2
    if len(parts) == 2 and re.search(r"[:=(]", mark) and not re.search(r"==|ver|版|[~^]", mark):
        score -= 2  # a number rather than a version
    at = next((one.end() for one in reversed(list(_PARTED.finditer(hit.string, 0, hit.start())))), 0)
    end = next((one.start() for one in _PARTED.finditer(hit.string, hit.end())), len(hit.string))
    covered = (hit.end() - hit.start()) / max(len(hit.string[at:end].strip()), 1)
    return (
        score
        + (covered > 0.6)
        + (covered > 0.95 and len(parts) > 2)
        + (hit.start() == 0)
        + (hit.start() == 0 and line.item)
    )


_PARTED = re.compile(r"[,;，；。、()（）]\s?|\.(?:\s|$)")
"""What stands between the parts of a list."""
_LINK = re.compile(r"https?://(?:www\.)?git(?:hub|ee|lab)\.com/([\w.-]{1,60})/([\w.-]{1,60})(/[a-z]{2,12})?")
_ABOUT = re.compile(
    rf"^[#*\s-]{{0,8}}(?:(?:what|which|the|your)\s)?(?P<name>{_NAME}(?: [A-Z][a-z]\w+)?)[’']?s? versions?\b|"
    rf"^[#*\s-]{{0,8}}versions? of (?P<of>{_NAME}(?: [A-Z][a-z]\w+)?)\b",
    re.MULTILINE | re.IGNORECASE | re.ASCII,
)
_GENERIC = frozenset(table()["generic"])
"""What many repositories and lines of forms are called: alone it names no project."""
_SURE = 2
"""The least score of a subject."""
_RUN = re.compile(
    r"^\s{0,12}(?:(?:\w{1,30}@\S{1,60}[:~][^$#\n]{0,60})?[$#%>] )?"
    r"(?P<name>[a-z][a-z0-9_-]{2,30})(?: [\w./-]{1,60}){0,3} --?[a-z]"
    r"|`(?P<span>[a-z][a-z0-9_-]{2,30}) [^`\n]{1,200}`|^\s{0,12}\$ (?P<bare>[a-z][a-z0-9_-]{2,30}) ",
    re.MULTILINE,
)
"""How a line or a span of code begins that runs a program."""
_IMPORT = re.compile(r"^[ \t]{0,12}(?:(?:>>>|\.\.\.|\d{1,2}\.) )?(?:import|from) ([A-Za-z]\w{1,40})", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} .{1,200}$", re.MULTILINE)
_COMMON = frozenset(table()["common"]) | sys.stdlib_module_names
"""What many reports import or run, whatever they are about."""


def subject(text: str, title: str, url: str = "", own: Collection[str] = ()) -> str:
    """The name, in small letters, of the project that a report is about; '' where nothing says it clearly enough.

    It is a name of an address, of a key ``NAME version``, of what the report imports, installs or shows in paths,
    ``own``, or of a command; for it speak how it is named so, the title, headings and how often the text names it.
    """
    score: Counter[str] = Counter()
    read = text[:_READ]
    for links, weight in ((_LINK.finditer(url), 5), (_LINK.finditer(read), 2)):
        for hit in links:
            owner, name = hit[1].lower(), hit[2].lower().removesuffix(".git").removeprefix("incubator-")
            name = owner if name in _GENERIC else name
            score[name] += weight if owner != "user-attachments" and score[name] < 4 else 0
    for hit in _ABOUT.finditer(read):
        name = re.sub(r"\s+", "-", (hit["name"] or hit["of"]).lower())
        score[name] += 3
    imported = {hit[1].lower() for hit in _IMPORT.finditer(read)} - sys.stdlib_module_names
    imported = imported - _COMMON or imported
    others = frozenset(own) - imported - _COMMON
    for names, only in ((imported, len(imported) == 1), (others, len(others) == 1 and not imported)):
        score.update(dict.fromkeys(names, 3 if only else 1))
    started = Counter(hit["name"] or hit["span"] or hit["bare"] for hit in _RUN.finditer(read))
    score.update({name: min(count, 3) for name, count in started.items()})
    for version in re.findall(r"\d+\.\d+\.\d+", title)[:4]:
        files = rf"(?<![\w-])([a-z][a-z0-9_-]{{1,40}})[-_]v?{re.escape(version)}(?!\d)"
        score.update(dict.fromkeys(re.findall(files, read), 3))
    places = [_words(text) for text in (f"{title} {title} {read}", " ".join(_HEADING.findall(read)), title)]
    counted = [Counter(words) + Counter(map("-".join, pairwise(words))) for words in places]
    for name in [name for name in score if "-" in name]:
        for part in name.split("-"):
            if counted[0][part] <= 2 * counted[0][name]:  # it is called by the whole name
                score.pop(part, None)
    for name in list(score):
        if not _named(name):
            score.pop(name, None)
            continue
        said, above, in_title = (place[name] for place in counted)
        score[name] += min(said // 3, 2) + min(above, 2) + 2 * bool(in_title) - (name in _COMMON)
    best = [name for name, points in score.items() if points == max(score.values()) and points >= _SURE]
    longest = max(best, key=len, default="")
    return longest if all(longest == name or f"-{name}-" in f"-{longest}-" for name in best) else ""


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z][a-z0-9_.+-]*[a-z0-9+]", text.lower(), re.ASCII)


def _named(name: str) -> bool:
    """Whether a text can be the name of a project: not all of its parts are words of sentences and forms."""
    verb = name.endswith("ing") and name not in ROLES
    return not ("/" in name or verb or wording.family(name) or (_WORDS | _GENERIC).issuperset(name.split("-")))


_READ = 200_000
"""Characters of a report in which the name of its subject is looked for."""
