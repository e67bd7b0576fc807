"""Versions in sentences, and whether the sentence says that it works or fails with them. Pure.

``It worked with numpy 1.26 and crashes since 2.0``, ``降级到 1.26 正常``: the names are those of axes, of known
packages, and of what the report itself imports, installs or shows in a path. What sentences say of a version is in
``data/statements.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from reprokit.environment import wording
from reprokit.environment.axes import BY_NAME
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.pairs import ROLES
from reprokit.intake.table import table

_CLAUSE = re.compile(
    r"(?:[,;:()，；：。！？、（）!?]|\.(?=\s|$)|\s[-–—]+\s"
    r"|\b(?:but|and(?! (?:above|later|newer|higher|up)\b)|while|where|whereas|however|although|though|yet|then|so"
    r"|until)\b"
    r"|但是|但|而|(?<![译跑行])不过|却|然而)",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"\b(?:but|while|whereas|however|yet)\b|但|而(?!且)|(?<![译跑行])不过|却", re.IGNORECASE | re.ASCII
)
_SENTENCE = re.compile(r"[。！？!?]|\.(?=\s|$)")
_VERSION = (
    r"v?\d{1,4}(?:\.(?:\d+[^\W_]*|[x*]))+(?:[-.]?(?:post|rc|dev|a|b|alpha|beta|nightly|SNAPSHOT)\d*)?(?:\+[\w.]+)?"
)
_ANY = re.compile(
    rf"(?<![\d.])(?:{_VERSION}|(?<![A-Za-z.\d/])\d{{1,2}}(?![\d.]))(?![A-Za-z0-9/]|\.\d|[-_][A-Za-z])", re.ASCII
)
_SEVERAL = re.compile(
    rf"(?<![\w.]){_VERSION}(?:(?:\s?[,、]\s?(?:and |or )?|\s(?:and|or|&)\s|\s?[和与及]\s?){_VERSION})+"
    r"(?![A-Za-z0-9/]|\.\d)",
    re.ASCII,
)
"""Versions of one thing, one behind the other: ``2.3.0, 2.4.1 and 2.5.0``."""
_NAME = r"[A-Za-z][A-Za-z0-9_.+-]{0,40}?"
_BEFORE = re.compile(
    rf"(?<![\w./@<>-])(?P<name>{_NAME})(?:\[[\w,]{{1,40}}\])?(?P<mark>(?:[\s\-=@:：(（`'\"*]|的"
    r"|(?:versions?|ver\.?|release|is|was|at|to|toolkit|最新版?|当前|目前"
    r"|版本号?|为|是|(?:升级|降级|更新|回退|升|降)?[到为至成])(?![A-Za-z]))*)$",
    re.IGNORECASE | re.ASCII,
)
"""A name, and what may stand between it and its version."""
_MARKED = re.compile(
    r"(?:\bversions?|\brelease|\bver\.?|版本号?)[\s:：=(（`'\"*]*(?:is |was |为|是)?\s*$|[(（]\s*$", re.IGNORECASE
)
"""Text before a version that belongs to the last thing that was named."""
_VERSION_WORD = re.compile(r"(?:\bversion|\brelease|版本)[\s:：(`'\"]*$", re.IGNORECASE)
_VERSION_BEHIND = re.compile(r"\s?(?:版本|versions?\b|release\b)", re.IGNORECASE)
"""The word that makes a number without a name a version: of what the text is about."""
_WANTED = re.compile(r"\b(?:minim(?:um|al)|recommended|required|suitable)(?: \w+){0,2}[\s:=<>]*$", re.IGNORECASE)
"""Text before a version that something asks for."""
_ADDRESS = re.compile(r"v?(?=\S*\d{3})\d{1,3}(?:\.\d{1,3}){3}")
"""Four numbers, one of them with three digits: an address of a network."""
_COMPACT = re.compile(r"(?<![\w./-])py(?:thon)?[ -]?([23])(\d{1,2})(?![\w.])", re.IGNORECASE | re.ASCII)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,40}", re.ASCII)
_FROM_TO = re.compile(
    rf"\bfrom (?:versions? )?({_VERSION}) (?:to|->|→) (?:versions? )?({_VERSION})"
    rf"|[从由] ?({_VERSION}) ?(?:版本)?(?:升级|更新|升)?[到为至成] ?({_VERSION})"
    rf"|({_VERSION}) ?(?:->|→|=>) ?({_VERSION})",
    re.ASCII,
)
_HAS = re.compile(
    r"\b(?:had|have|am|is|are|was|use|using|used|installed|currently|current|now|running|my)\b"
    r"|目前|当前|现在|之前|原来|我的|安装|使用|用的",
    re.IGNORECASE,
)
"""A clause that says what is installed, rather than goes on about what worked."""
ASKED_FOR = re.compile(
    r"[<>~]=|\b(?:requires?|required|requirements?|needs?|needed|supports?|supported|minimum|at least|recommend\w*"
    r"|compatible|should|(?:and|or) (?:newer|later|above|higher|greater|older|earlier|up)|available|deprecated"
    r"|(?:removed|fixed|introduced|merged) in|will|plan(?:s|ned|ning)?|changelog|docs?|documentation|readme)\b"
    r"|以上|以下|至少|最低|需要|要求|建议|推荐|支持|文档|计划|有没有|修复|[?？]$",
    re.IGNORECASE,
)
"""A clause about versions that something asks for, plans or tells of, rather than has."""
_OWN = re.compile(r"\b(?:I|we|my|have|has|installed|am|using)\b|我|目前|当前|现在|已?安装|使用", re.IGNORECASE)
"""A clause behind it that is about what is there again."""
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
_TITLED = re.compile(
    r"(?<![\w./@-])([A-Za-z][A-Za-z0-9_-]{1,40})(?:(?: version)?[ =]{1,2}(?:[<>]=? ?)?v?|(?<=[a-z]{4}))\d+\.\d+\.\d+\b",
    re.ASCII,
)
_SYSTEMS = frozenset({"macos", "windows", "linux", "kernel", "os", "driver", "big", "ventura", "sonoma", "pr", "issue"})
_LINK = re.compile(
    r"\[(?:GCC|Clang|MSC)\b[^\]\n]{0,80}\]|\[-?\d[\d.,eE+\s-]{0,200}\]|(?<![\w.])[\w.-]{1,60}/[\w./-]{1,80}:[\w.-]{1,80}"
    r"|The '[^'\n]{1,80}' distribution was not found|https?://\S{1,500}|`[^`\n]{80,}`|\S{120,}|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?"
    r"|(?<![\w.-])\d{1,9}(?:\.\d{1,6})?\s?(?:[kKMGT]i?[Bb]|[mµnu]?s|secs?|seconds?|mins?|minutes?|hours?|fps|[MG]Hz|%|[秒倍])(?![\w-])"
)
"""What names no version of the environment: addresses, sizes, times, lists of numbers, what compiled Python."""
_BOTH = re.compile(r"\b(CUDA)\s?[/&]\s?cuDNN", re.IGNORECASE)
"""The key of a form for two versions: a single one there is CUDA's."""
_TAG = re.compile(r"(?<![\w./])[a-z]{2,20}\d{1,3}\.\d{1,3}(?:_[a-z]{1,20}_?\d{1,3}(?:\.\d{1,3}){1,2}){1,6}", re.ASCII)
"""The tag of an image: ``rocm5.7_ubuntu22.04_py3.10_pytorch_2.0.1``."""
_WHOLE = re.compile(rf"(?P<name>{_NAME})(?:,? version|[:=,]{{1,2}})?[ \t]{{0,40}}(?P<version>{_VERSION})", re.ASCII)
"""A line of a program that prints its version."""
_FILE = re.compile(
    rf"(?<![\w.-])(?P<name>[A-Za-z][\w.]{{0,60}}?)-(?P<version>{_VERSION})"
    r"(?:\.dist-info|\.egg-info|-py[23]\S{0,40}(?:\.egg|\.whl)|(?:-cu\d{2,3})?-cp\S{1,80}\.whl|\.tar\.gz|\.zip)",
    re.ASCII,
)
"""Files and folders of an installed package."""
_NUMBERED = re.compile(r"\d\.[\dx*]|(?:g\+\+|gcc|clang|cuda|cudnn|py|python)[ -]?\d", re.IGNORECASE)
_FORM = re.compile(r"\bversions?\b[^.]{0,30}$|^tested (?:on|with)\W{0,3}$|版本\S{0,4}$", re.IGNORECASE)
_OPPOSITE = re.compile(
    r"(?:\binstead of|\brather than|\bin place of|(?:slow|wors|fast|bett|larg|small)\w* than"
    r"|\b(?:compared|relative) (?:to|with)|\bvs\.?|\bversus|而不是|代替|相比|比)\s*(?:the |version )?"
    r"(?:[\w.-]{1,40}(?:==| ))?$",
    re.IGNORECASE,
)
"""Text before a version of which the sentence says the opposite."""
_INSTALLED = re.compile(
    r"\b(?:installed|currently|i (?:have|had|use|am)|i[’']?m (?:using|on|running))\b|目前|当前|现在用|我用的",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"[(（][^()（）\n]{1,200}[)）]")
_ANSWER = re.compile(rf"({_VERSION})(?:[\s,;(（].{{0,40}})?$", re.ASCII)
"""The answer below a question of a form for a version."""
_NAMED = frozenset({"package", *BY_NAME}) - {"os"}


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A version in a sentence. ``role``: as of a key (``cuda``, ``package numpy``), "" where no name stands by it.

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


def clause_of(text: str, at: int) -> str:
    """The clause of a text in which a place lies."""
    ends = [0, *(place for found in _CLAUSE.finditer(text) for place in found.span()), len(text)]
    return next((text[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True) if a <= at <= b), text)


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


def titled(title: str) -> frozenset[str]:
    """What a title names with a version of three numbers, in small letters: ``wobble 0.9.14 does not install``."""
    names = (found[1].lower() for found in _TITLED.finditer(title))
    return frozenset(name for name in names if not wording.family(name) and name not in _SYSTEMS)


def find(lines: Sequence[ReportLine], own: Collection[str], title: str = "", project: str = "") -> Iterator[Mention]:
    """Every version that a sentence of the lines names. ``own``: more names of packages; ``title``: the report's.

    ``project``: the name of what the report is about.
    """
    about = subject = role_of(project, own) or _first_named(title, own)
    asked, of_form = "", ""
    for line in lines:
        if line.blank or line.edge:
            subject = about
            asked = asked if line.blank else ""
            continue
        text = re.sub(r"^\s*[-*+](?=\w)", "", _LINK.sub(" ", line.text))
        text = _TAG.sub(lambda tag: tag[0].replace("_", " "), _BOTH.sub(r"\1", text))
        if asked and (answer := _ANSWER.match(text)):
            words = f"{of_form} {text}"
            yield Mention(
                role=asked, version=_bare(answer[1]), line=line.number, words=words, named=True, fails=fails(of_form)
            )
        if re.search(r"\d\.\d", text):
            yield from printed([line], own)
        asked, of_form = (_first_named(text, own) or about, text) if _FORM.search(text) else ("", "")
        for sentence in _split(_SENTENCE, text):
            about = about or subject
            subject = _first_named(sentence, own) or subject
            if _NUMBERED.search(sentence):
                yield from _of_sentence(sentence, line.number, own, subject)


def printed(lines: Sequence[ReportLine], own: Collection[str]) -> Iterator[Mention]:
    """What pasted lines say: a name and its version alone, and names of files such as ``wobble-1.2.3.dist-info``."""
    for line in lines:
        for hit in (_WHOLE.fullmatch(line.text), *_FILE.finditer(line.text)):
            if hit and (role := role_of(hit["name"], own)) and False not in judged(line.text):
                version = _bare(hit["version"])
                yield Mention(role=role, version=version, line=line.number, words=line.text, named=True)


def _first_named(text: str, own: Collection[str]) -> str:
    """What the first name of a text is of; two words that are one name count before the first of them."""
    before: re.Match[str] | None = None
    role = ""
    for word in _WORD.finditer(text):
        beside = before and before.end() + 1 == word.start() and text[before.end()] == " "
        of_two = role_of(f"{before[0]}-{word[0]}", own) if before and beside else ""
        if of_two or role:
            return of_two or role
        role = "" if word[0].lower() in _PLAIN else role_of(word[0], own)
        before = word
    return role


_PLAIN = frozenset({"compiler", "cc", "c++", "cpp", "make"})
"""Names that in a sentence may mean any compiler, or a verb."""


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


def _bare(version: str) -> str:
    return version.lstrip("vV")


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    return [part for part in pattern.split(text) if part and part.strip()]


def _of_sentence(text: str, line: int, own: Collection[str], subject: str) -> Iterator[Mention]:
    """The versions of a sentence; one without a verdict in its clause has that of the clause beside it."""
    words = text.strip()
    if moved := _moved(text):
        for version, bad in zip(moved, (False, True), strict=True):
            yield Mention(role=subject, version=version, line=line, words=words, fails=bad)
        return
    asked_for = _asked_for(text)
    every = [
        (at, Mention(role=role, version=version, line=line, words=words, named=named and not asked_for(at)))
        for at, role, version, named in _versions(text, own)
    ]
    if not every:
        return
    opposite = {one.version for at, one in every if _OPPOSITE.search(text[max(0, at - 80) : at])}
    waiting: list[Mention] = []
    last: bool | None = None
    turns = list(_CONTRAST.finditer(text))
    turn = turns[0].start() if turns else 0
    said, said_first = fails(text), fails(text[:turn])
    has, start = False, 0
    for stop, following in _clauses(text):
        clause, aside = text[start:stop], text[start - 1 : start] in ("(", "（")
        installed = bool(not asked_for(start) and _INSTALLED.search(clause))
        found = list(_of_subject([one for at, one in every if start <= at < stop], subject, installed))
        subject = found[-1].role if found else subject
        begin, start = start, following
        negated = bool(re.match(r"\W*not\b|.*\bis not\s*$", clause, re.IGNORECASE))
        if not negated and any(begin - len(one[0]) <= one.end() <= begin for one in turns):
            last = None  # what is behind a "but" is not said of what is before it
        if not clause.strip():
            continue
        verdict = fails(clause)
        if verdict is None and found and negated:
            verdict = last is not True
            waiting = [replace(one, fails=not verdict) for one in waiting]
        elif verdict is None and found and last is not None and _HAS.search(clause):
            yield from found  # ``I had 2.0 before`` says what is installed
            continue
        elif verdict is not None and waiting and ((found and has) or (0 < turn < begin and not verdict)):
            yield from waiting  # ``I use 1.13 and get nan, but on the CPU it works``
            waiting = []
        elif verdict is None and aside and last is not None:
            verdict = last
        has = bool(_HAS.search(clause)) and bool(found)
        verdict = (said if begin >= turn else said_first) if verdict is None else verdict
        found = [replace(one, fails=None if verdict is None else verdict ^ (one.version in opposite)) for one in found]
        if verdict is None:
            waiting += found
            continue
        yield from (*(replace(one, fails=verdict) for one in waiting), *found)
        waiting, last = [], verdict
    # Of several that a report has it does not say that one of them works.
    runs = _several(text)
    several = {one.version for at, one in every if one.named and any(first <= at < end for first, end in runs)}
    yield from (replace(one, fails=True if last is None and one.version in several else last) for one in waiting)


def _of_subject(found: Sequence[Mention], subject: str, installed: bool) -> Iterator[Mention]:
    """The versions of a clause; one without a name is of what was named before."""
    for one in found:
        subject = one.role or subject
        named = installed or (one.named and (one.role != "" or subject.startswith("package ")))
        yield replace(one, role=subject, named=named)


def _moved(text: str) -> tuple[str, ...]:
    """The version from which a sentence moves, and that with which it fails; () for other sentences."""
    moved = _FROM_TO.search(text)
    if not moved:
        return ()
    fails_then = fails(text[: moved.start()] + text[moved.end() :])
    if not (fails_then or re.search(r"升级|upgrad|updat", text, re.IGNORECASE)):
        return ()
    return tuple(_bare(group) for group in moved.groups() if group)


def _clauses(text: str) -> Iterator[tuple[int, int]]:
    """(end of each clause, start of the next); what is in brackets is one clause, and several versions are in one."""
    whole = [*(found.span() for found in _BRACKETS.finditer(text)), *_several(text)]
    for found in _CLAUSE.finditer(text):
        if not any(first < found.start() < end - 1 for first, end in whole):
            yield found.span()
    yield len(text), len(text)


def _asked_for(text: str) -> Callable[[int], bool]:
    """Whether at a place of a sentence it is about what something asks for."""
    if not ASKED_FOR.search(text):
        return lambda at: False
    begins, asks, start = [], False, 0
    for stop, following in _clauses(text):
        clause = text[start:stop]
        asks = bool(ASKED_FOR.search(clause)) or (asks and not _OWN.search(clause))
        begins.append((start, asks))
        start = following
    return lambda at: next(asks for first, asks in reversed(begins) if first <= at)


def _versions(text: str, own: Collection[str]) -> Iterator[tuple[int, str, str, bool]]:
    """(place, role, version, whether it is named) of what a sentence names; no role where its name is elsewhere."""
    found = [(hit.start(), "python", f"{hit[1]}.{hit[2]}", True) for hit in _COMPACT.finditer(text)]
    end, last = 0, ""
    together = _several(text)
    for hit in _ANY.finditer(text):
        if found and any(first < hit.start() < stop and found[-1][0] >= first for first, stop in together):
            found.append((hit.start(), found[-1][1], _bare(hit[0]), found[-1][3]))
            end = hit.end()
            continue
        before = text[max(end, hit.start() - 80) : hit.start()]
        if _WANTED.search(before) or _ADDRESS.fullmatch(hit[0]):
            continue
        whole = "." in hit[0]
        name = _BEFORE.search(before)
        role = role_of(name["name"], own) if name else ""
        if name and not role and "==" in name["mark"] and name["name"].lower() not in ROLES:
            role = f"package {name['name'].lower()}"
        if name and (of_two := role_of(_two_words(before[: name.end("name")]), own)):
            role = of_two
        last = role or _last_named(before, own) or last
        family = wording.family(name["name"]) if name else ""
        if release := wording.os(f"{family} {_bare(hit[0])}") if family and judged(text) else "":
            found.append((hit.start(), "os", release, True))
        elif role and (whole or role in BY_NAME):
            found.append((hit.start(), role, _bare(hit[0]), True))
        elif whole and (since := re.search(rf"(?P<name>{_NAME})\s?>=\s?$", before)) and role_of(since["name"], own):
            found.append((hit.start(), role_of(since["name"], own), _bare(hit[0]), False))
        elif whole and not re.search(r"[<>~!]=?\s*$|[\w.]/$|[/@-]$", before):
            if _MARKED.search(before) and last:
                found.append((hit.start(), last, _bare(hit[0]), True))
            elif not name or _no_name(name["name"]) or _MARKED.search(before):
                bare = not name or _no_name(name["name"])
                called = bool(_VERSION_WORD.search(before) or _VERSION_BEHIND.match(text, hit.end()))
                found.append((hit.start(), "", _bare(hit[0]), bare and called))
        end = hit.end()
    yield from sorted(found)


def _several(text: str) -> list[tuple[int, int]]:
    """Where a text has several versions of one thing, which are not the ends of a range."""
    return [
        run.span()
        for run in _SEVERAL.finditer(text)
        if not re.search(r"\b(?:between|from)\b", text[: run.start()][-60:])
    ]


def _two_words(text: str) -> str:
    """The last two words of a text as the name of a package: ``the Wibble Core`` is ``wibble-core``."""
    words = re.search(r"([A-Za-z]\w*) ([A-Za-z]\w*)$", text, re.ASCII)
    return f"{words[1]}-{words[2]}".lower() if words else ""


def _no_name(word: str) -> bool:
    """Whether a word before a version does not name it: ``with``, ``upgraded to``."""
    word = word.lower().strip("-._")
    return word in _PREPOSITIONS or bool(re.search(r"[a-z]{3}(?:ed|ing)$", word))


def _last_named(text: str, own: Collection[str]) -> str:
    words = (word for word in _WORD.findall(text) if word.lower() not in _PLAIN)
    roles: Mapping[str, None] = {role: None for word in words if (role := role_of(word, own))}
    return next(reversed(list(roles)), "")
