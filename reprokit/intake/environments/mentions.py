"""Versions in sentences, and whether the sentence says that it works or fails with them. Pure.

``It worked with numpy 1.26 and crashes since 2.0``, ``降级到 1.26 正常``: the names are those of axes, of known
packages, and of what the report itself imports, installs or shows in a path.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from reprokit.environment import wording
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.pairs import ROLES

_NOT_FAILING = (
    r"\b(?:does|do|did)(?:n['’]?t| not) (?:happen|occur|fail|crash|appear|show|reproduce|have)\b|\bnot affected\b"
    r"|\b(?:can(?:no|['’])t|could(?: not|n['’]t)|unable to) (?:be )?reproduced?\b"
    r"|\bno (?:errors?|problems?|issues?|crash)\b"
    r"|\b(?:never|without) (?:failed|failing|crashed|(?:any )?(?:errors?|problems?|issues?))\b"
    r"|不会?(?:报错|出错|出现|崩溃)|没有?(?:报错|出错|出现|错误|问题|异常)|无(?:报错|错误|异常|问题)"
    r"|未(?:报错|出错|出现)|(?:无法|未能?)复现|复现失败"
    r"|(?:问题|错误|报错)(?:就?消失|解决)|(?:fix|solv|resolv)(?:e[sd]?|ing) (?:it|this|the|my)\b|\b(?:goes|went) away\b"
    r"|\b(?:is|was|got) (?:fixed|solved|resolved)\b"
)
_NOT_WORKING = (
    r"\b(?:does|do|did|is|are)(?:n['’]?t| not) (?:work(?:ing)?|run|ok|compile|build|support(?:ed)?)\b"
    r"|\bno longer (?:works?|runs?|compiles?|builds?)\b"
    r"|\b(?:stopped|stops) working\b|\bnot (?:working|with|in|on)\b|不正常|不工作|跑不(?:通|起来)|不行|不可以"
    r"|(?:不能|无法)(?:正常)?(?:运行|使用|工作|训练)"
)
_WORKING = (
    r"\b(?:work(?:s|ed|ing)?|(?:runs?|ran|is|was|were|are|all|builds?|compiles?) (?:just |perfectly |totally )?"
    r"(?:fine|ok|okay|good|well|correctly|successful(?:ly)?|smooth(?:ly)?))\b|\bfine (?:with|on|in)\b|\blast good\b"
    r"|\b(?:down ?grad(?:e|ed|ing)|revert(?:ed|ing)?|roll(?:ed|ing)? back|going back|switch(?:ed|ing)? back)\b"
    r"|正常|可以(?:运行|跑|使用)?|没事|降(?:级|低)?(?:到|为|至|回)|回退|换(?:成|回|到)"
)
_FAILING = (
    r"\bfail(?:s|ed|ing|ures?)?\b|\bcrash(?:es|ed|ing)?\b|\bbroken?\b|\bbreaks?\b|\berrors?\b|\bhangs?\b"
    r"|\bsegfaults?\b|\bsegmentation fault\b|\bregress(?:ion|ed|es)?\b"
    r"|\b(?:happens|occurs|affects|affected|appears|reproducible)\b"
    r"|\bafter \S{1,30} (?:was |got )?released\b"
    r"|\b(?:since|starting (?:with|from|in)|as of|introduced in|after (?:the )?(?:upgrade|update) to)\b"
    r"|\b(?:upgrad|updat)(?:e|ed|ing) to\b|\bslow(?:er)?\b"
    r"|报错|出错|失败|崩溃|有问题|出现(?:问题|错误)|升级|更新到|段错误|卡(?:住|死)"
)
HOLDS = ((False, _NOT_FAILING), (True, _NOT_WORKING), (False, _WORKING), (True, _FAILING))
"""Phrases that say whether it fails; longer phrases before those that they contain."""
_PHRASES = tuple((fails, re.compile(pattern, re.IGNORECASE)) for fails, pattern in HOLDS)

_CLAUSE = re.compile(
    r"(?:[,;:()，；：。！？、（）!?]|\.(?=\s|$)|\s[-–—]+\s"
    r"|\b(?:but|and|while|whereas|however|although|though|yet|then|so)\b"
    r"|但是|但|而|不过|却|然而)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[。！？!?]|\.(?=\s|$)")
_VERSION = r"v?\d{1,4}(?:\.(?:\d+\w*|[x*]))+(?:[-.]?(?:post|rc|dev|a|b|alpha|beta)\d*)?(?:\+[\w.]+)?"
_NAMED = re.compile(
    r"(?<![\w./@-])(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,40}?)(?:\[[\w,]{1,40}\]|\s{1,2}toolkit)?"
    r"(?:\s{0,2}(?:[=@]{1,2}|：|:)\s{0,2}"
    r"|[\s-]{0,2}(?:versions?(?: is)?|版本(?:为|是|号)?|release|to|is|(?:升级|降级|更新)?[到为至]|是)?\s{0,2})"
    rf"(?P<version>{_VERSION})(?![A-Za-z0-9/]|[-_]\w)",
    re.ASCII,
)
_BARE = re.compile(rf"(?<![\w./=<>~!@-])(?P<version>{_VERSION})(?![A-Za-z0-9/]|[-_]\w)", re.ASCII)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,40}", re.ASCII)
_FROM_TO = re.compile(
    rf"\bfrom (?:version )?({_VERSION}) (?:to|->|→) (?:version )?({_VERSION})"
    rf"|从 ?({_VERSION}) ?(?:升级|更新)?到 ?({_VERSION})",
    re.ASCII,
)
_OWN_NAMES = re.compile(
    r"^\s{0,12}(?:>>> |\.\.\. )?(?:import|from)\s+([A-Za-z_]\w{1,40})|(?:site|dist)-packages[/\\]([A-Za-z_]\w{1,40})"
    r"|\b(?:pip3?|conda|mamba|uv) (?:pip )?install (?:-\S+ ){0,3}([A-Za-z][\w.-]{1,40})|\b(\w{2,40})\.__version__",
    re.MULTILINE,
)
_BEFORE = frozenset(
    re.split(
        r"\s+",
        "with in to on from version versions since after before v release was is works worked work fails failed using "
        "use and or until by at than under the be for only not also even still",
    )
)
"""Words before a version whose name is elsewhere in the sentence; behind any other word, it is of that word."""
_TITLED = re.compile(r"(?<![\w./@-])([A-Za-z][A-Za-z0-9_-]{1,40})[ =]{1,2}v?\d+\.\d+\.\d+\b", re.ASCII)
_SYSTEMS = frozenset({"macos", "windows", "linux", "kernel", "os", "driver", "big", "ventura", "sonoma", "pr", "issue"})
_LINK = re.compile(r"https?://\S{1,500}|`[^`\n]{80,}`|\S{120,}|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?")


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A version in a sentence. ``role``: as of a key (``cuda``, ``package numpy``), "" where no name stands by it.

    ``fails``: whether the sentence says that it fails or works with it; None for neither. ``named``: the name stands
    right before the version, rather than elsewhere in the text.
    """

    role: str
    version: str
    line: int
    words: str
    fails: bool | None = None
    named: bool = False


def fails(text: str) -> bool | None:
    """Whether a text says that it fails; None where it says neither or both, or asks."""
    if text.endswith(("?", "？")):
        return None
    said = {one for one, _ in _verdicts(text)}
    return said.pop() if len(said) == 1 else None


def _verdicts(text: str) -> Iterator[tuple[bool, int]]:
    for verdict, pattern in _PHRASES:
        for found in pattern.finditer(text):
            yield verdict, found.start()
        text = pattern.sub(lambda found: " " * len(found[0]), text)


def own_names(text: str) -> frozenset[str]:
    """What a report imports, installs or shows in paths of installed packages, in small letters."""
    hits = (next(filter(None, found.groups())) for found in _OWN_NAMES.finditer(text))
    return frozenset(name.lower().split(".")[0] for name in hits)


def titled(title: str) -> frozenset[str]:
    """What a title names with a version of three numbers, in small letters: ``wobble 0.9.14 does not install``."""
    names = (found[1].lower() for found in _TITLED.finditer(title))
    return frozenset(name for name in names if not wording.family(name) and name not in _SYSTEMS)


def find(lines: Sequence[ReportLine], own: Collection[str], title: str = "") -> Iterator[Mention]:
    """Every version that a sentence of the lines names. ``own``: more names of packages; ``title``: the report's."""
    about = subject = next((role for word in _WORD.findall(title) if (role := _role(word, own))), "")
    for line in lines:
        if line.blank or line.edge or line.fence or len(line.cells) > 1:
            subject = about
            continue
        text = re.sub(r"^\s*[-*+](?=\w)", "", _LINK.sub(" ", line.text))
        for sentence in _split(_SENTENCE, text):
            about = about or subject
            subject = next((role for word in _WORD.findall(sentence) if (role := _role(word, own))), subject)
            if re.search(r"\d\.[\dx*]", sentence):
                yield from _of_sentence(sentence, line.number, own, subject)


def _role(name: str, own: Collection[str]) -> str:
    name = name.lower().strip("-._")
    role = ROLES.get(name, "known")
    role = f"package {name}" if role == "known" and name in own and name not in _BEFORE else role
    return role if role.partition(" ")[0] in ("package", "python", "cuda", "cudnn", "gcc") else ""


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    return [part for part in pattern.split(text) if part and part.strip()]


def _of_sentence(text: str, line: int, own: Collection[str], subject: str) -> Iterator[Mention]:
    """The versions of a sentence; one without a verdict in its clause has that of the clause beside it."""
    words = text.strip()
    if moved := _FROM_TO.search(text):
        before, after = (group.lstrip("v") for group in moved.groups() if group)
        if fails(text[: moved.start()] + text[moved.end() :]) or re.search(r"升级|upgrad|updat", text, re.IGNORECASE):
            yield Mention(role=subject, version=before, line=line, words=words, fails=False)
            yield Mention(role=subject, version=after, line=line, words=words, fails=True)
            return
    waiting: list[Mention] = []
    last: bool | None = None
    said = fails(text)
    for clause in _split(_CLAUSE, text):
        verdict = fails(clause) if said is None else said
        found = []
        for role, version in _versions(clause, own):
            subject = role or subject
            found.append(
                Mention(role=subject, version=version, line=line, words=words, fails=verdict, named=bool(role))
            )
        if verdict is None and found and re.match(r"\s*not\b", clause, re.IGNORECASE):
            verdict = last is not True
            waiting = [replace(one, fails=not verdict) for one in waiting]
            yield from waiting
            waiting, found = [], [replace(one, fails=verdict) for one in found]
        if verdict is None:
            waiting += found
            continue
        yield from (*(replace(one, fails=verdict) for one in waiting), *found)
        waiting, last = [], verdict
    yield from (replace(one, fails=last) for one in waiting)


def _versions(text: str, own: Collection[str]) -> Iterator[tuple[str, str]]:
    """(role, version) of what a clause names; "" for a version whose name is elsewhere."""
    of_others = set()
    for found in _NAMED.finditer(text):
        name = found["name"]
        role = _role(name, own)
        if not role and "==" in found[0] and name.lower() not in ROLES:
            role = f"package {name}"
        if role:
            yield role, found["version"].lstrip("v")
        if role or name.lower() not in _BEFORE:
            of_others.add(found.start("version"))
    for found in _BARE.finditer(text):
        if found.start() not in of_others:
            yield "", found["version"].lstrip("v")
