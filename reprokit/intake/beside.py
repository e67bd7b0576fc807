"""What sentences, devices and paths say of the environment that failed, where no block of it does. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reprokit.environment import wording
from reprokit.intake.environments import EnvironmentBlock, Rank, ReportedValue, images, lines, mentions
from reprokit.intake.environments.reading import BlockReader, system
from reprokit.intake.table import table

_NAMED_SYSTEM = re.compile(
    r"\b(?:on|in|under|using|with) (?:an? |my |the )?(\w+(?: linux)?)"
    r"|[在用] ?(\w+) ?(?:系统|环境|平台)?[上下里中]"
    r"|\b(\w+ linux)\b|\b(\w+) (?:machine|box|server|host|laptop|instance|vm)\b",
    re.IGNORECASE | re.ASCII,
)
_SYSTEM = re.compile(
    r"(?<![A-Za-z])(?:ubuntu|debian|centos|rhel|rocky|almalinux|fedora|opensuse"
    r"|red ?hat(?: ?enterprise)?(?: ?linux)?(?: ?server)?|suse linux enterprise server|alpine|amazon|windows|win"
    r"|mac ?os(?: x)?|os x)(?: (?:gnu/)?linux)?[ -]?(?:server |lts |rawhide/)?v?\d[\d.]{0,8}"
    r"|\b(?:ubuntu|debian)[ -](?:bionic|focal|jammy|noble|buster|bullseye|bookworm|trixie)\b"
    r"|\b(?:on|under|using) (?:my |a )?(?:windows|mac(?:os|book)?|os x)\b|\bmicrosoft windows\b"
    r"|^(?:windows|mac ?os(?: x)?|os x)$|\b(?:windows|mac ?os(?: x)?|os x|mac)(?:系统|平台|环境)?[下上]"
    r"|\b(?:windows (?:machine|server|pc|laptop|desktop|host)|macbook|darwin kernel"
    r"|mac ?os (?:big sur|catalina|high sierra|mojave|monterey|sequoia|sonoma|ventura)|mac (?:m[1-5]|mini|studio|pro)"
    r"|apple (?:silicon|m[1-5]))\b",
    re.IGNORECASE | re.ASCII,
)


def system_named(
    merged: Sequence[EnvironmentBlock], prose: Sequence[lines.ReportLine], paths: str, title: str
) -> EnvironmentBlock | None:
    """The one system that sentences name, or that paths show, where no block names one. ``paths``: as text has."""
    if any(found.system in ("windows", "macos") or "os" in found.axes for found in merged):
        return None
    linux = any(found.system for found in merged)  # as pandas says: "OS: Linux"
    named: dict[str, int] = {}
    for line in prose:
        for hit in _SYSTEM.finditer(line.text):
            if mentions.fails(mentions.clause_of(line.text, hit.start())) is not False:
                named.setdefault(hit[0].lower(), line.number)
    if any(wording.os(text) for text in named):  # of several systems, the one that a container can have
        named = {text: at for text, at in named.items() if system(text) == "linux"}
    kinds = {system(text) for text in named}
    if len(kinds) > 1 or (linux and kinds - {"linux"}):
        return None
    into = BlockReader(Rank.STATED)
    if named:
        text = max(named, key=len)
        into.system(text)
        releases = {release for one in named if (release := wording.os(one))}
        if len(releases) == 1:
            into.claim("os", releases.pop(), text)
        return into.found("stated", named[text], named[text], {})
    if paths in ("windows", "macos"):
        return None if linux else EnvironmentBlock(kind="paths", first=1, last=1, system=paths)
    return _family(prose, paths, title)


_RARE = re.compile(
    r"\b(?:gentoo|slackware|solaris(?: \d+)?|illumos|aix|hp-ux|nixos|manjaro|"
    r"open ?euler|euleros|kylin|raspbian|(?:free|open|net)bsd)\b"
    r"|麒麟\s?(?:v?\d+)?|统信|欧拉|龙蜥",
    re.IGNORECASE,
)
"""Systems whose names mean nothing else, wherever they are."""


def _family(prose: Sequence[lines.ReportLine], paths: str, title: str) -> EnvironmentBlock | None:
    """The one distribution that sentences name without a release."""
    words = [
        (" ".join(filter(None, hit.groups())), line.number)
        for line in prose
        for hit in _NAMED_SYSTEM.finditer(line.text)
    ]
    words += [(hit[0], line.number) for line in prose for hit in _RARE.finditer(line.text)]
    families = {name: at for text, at in (*words, (title, 1)) if (name := wording.family(text))}
    families = families or ({paths: 1} if paths else {})
    if len(families) != 1:
        return None
    ((name, at),) = families.items()
    into = BlockReader(Rank.STATED)
    release = next(
        (release for text, _ in (*words, (title, 1)) if (release := wording.os(text)).startswith(f"{name}-")), ""
    )
    into.claim("os", release or name, release or name, Rank.STATED if release else Rank.BUILT)
    return into.found("stated", at, at, {})


_DEVICE = re.compile(
    r"(?:(?:nvidia|geforce|tesla|amd|radeon|instinct) ?){0,3}(?<![A-Za-z0-9_.-])"
    r"(?:[RG]TX ?A?\d{3,4}(?: ?(?:ti|super))?|(?:tesla |nvidia )[A-Z]{1,2}\d{1,4}\w{0,3}|titan ?(?:x|xp|v|rtx)"
    r"|A100|A800|G?H[12]00|H20|H800|G?B200|V100|P100|P40|M40|K[48]0m?|A10G?|A[34]0|A[56]000|L20|L40S?|T4"
    r"|(?:[345]0[5-9]0|10[5-8]0|20[678]0) ?(?:ti|super|d)|jetson(?: \w+)?|(?:nvidia )?(?:xavier|orin) (?:nx|agx|nano)"
    r"|MI\d{2,3}[AX]?|radeon(?: \w+){1,2}|(?P<bare>[345]0[5-9]0))(?![A-Za-z0-9_]|\.\w)",
    re.IGNORECASE | re.ASCII,
)
"""A GPU by its model. ``bare``: a number that is one beside a word for GPUs."""
_OF_DEVICES = re.compile(r"gpu|cuda|nvidia|\bcards?\b|显[卡存]", re.IGNORECASE)


def device(merged: Sequence[EnvironmentBlock], split: Sequence[lines.ReportLine]) -> EnvironmentBlock | None:
    """The first GPU that any line names, where no block names one."""
    if any(found.gpus for found in merged):
        return None
    texts = ((line.number, unicodedata.normalize("NFKC", line.text)) for line in split)
    hits = ((at, text, hit) for at, text in texts for hit in _DEVICE.finditer(text))
    found = next(((at, hit[0].strip()) for at, text, hit in hits if not hit["bare"] or _OF_DEVICES.search(text)), None)
    return EnvironmentBlock(kind="stated", first=found[0], last=found[0], gpus=(found[1],)) if found else None


_NO_AXIS = re.compile(
    rf"(?<![\w./-])(?P<name>{'|'.join(table()['no_axis'])})"
    r"(?: version|版本号?)?(?: \([^()]{1,30}\))?[ :：=v_-]{0,4}"
    r"(?P<version>\d[\d.]*\d(?:\.?(?:rc|alpha|beta|t|b)\d+(?:\.[a-z]?\d+)*)?)(?![\w.]*\w)",
    re.IGNORECASE,
)
"""What belongs to an environment and has no axis in a case."""


def without_axis(here: EnvironmentBlock | None, prose: Sequence[lines.ReportLine]) -> EnvironmentBlock | None:
    """What else the report says of the environment, for which a case has no axis: a comment, and as reported."""
    found = {"driver": here.driver} if here and here.driver else {}
    found |= {"glibc": here.glibc} if here and here.glibc else {}
    listed = [f"{key}: {value}"[:_LINE] for key, value in (here.values.items() if here else ())][:_LINES]
    spoken = [line.text[:_LINE] for line in prose][:_LINES]
    stated: dict[str, str] = {}
    for text in (*listed, *spoken):
        for hit in _NO_AXIS.finditer(text):
            name = hit["name"].lower()
            if name not in (here.packages if here else ()) and name not in map(str.lower, found):
                found[hit["name"]] = hit["version"]
                stated |= {} if text in listed else {hit["name"]: hit["version"]}
    if rare := next(filter(None, map(_PROCESSOR.search, (*listed, *spoken))), None):
        found.setdefault("processor", rare[0])
    if not found:
        return None
    named = ", ".join(f"{name} {version}" for name, version in list(found.items())[:_LISTED])
    remark = f"also reported, and not an axis of a case: {named}"
    kind = here.kind if here else "stated"
    return EnvironmentBlock(kind=kind, first=1, last=1, remarks=(remark,), values=stated)


_PROCESSOR = re.compile(
    r"(?<![\w./])(?:aarch_?64|arm64(?:e|v8)?|armv\d\w?|armhf|ppc64(?:le)?|powerpc\w{0,4}|s390x|riscv(?:32|64)|loongarch64|mips\w{0,4}"
    r"|sparc(?:64|v9)?|i[36]86)(?![\w.])|(?<=darwin_)arm64\b"
    r"|\bM[1-5](?: Pro| Max| Ultra)?\b(?=.{0,20}(?:mac|apple|chip|arm))",
    re.IGNORECASE,
)
_LINE, _LINES, _LISTED = 400, 1000, 8
"""Characters of a line and lines that are searched for them, and most that are listed."""


_VARIABLE = re.compile(
    rf"(?<![\w$%{{./-])(?P<name>(?P<known>(?:{'|'.join(table()['variables'])})[A-Z0-9_a-z]*)|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"
    r"\s?=(?![=~])\s?(?P<value>\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[^\s,;，；。)）\"'|&]{1,200})"
)
_OF_VARIABLES = re.compile(r"\benv\b|environment|variable|\bexport|\bset(?:ting)?\b|环境变量|变量|设置", re.IGNORECASE)
_TRIED = re.compile(r"\bhelp|\btried\b|\beffect\b|\bdifference\b|尝试|试过|无效|没用", re.IGNORECASE)


def variables(prose: Sequence[lines.ReportLine]) -> EnvironmentBlock | None:
    """The environment variables that sentences and items name, unless it works with them, or they were only tried."""
    found: dict[str, str] = {}
    fine: list[str] = []
    first, above = 0, ""
    for line in prose:
        listed = line.text.count("LC_") > 1  # a locale as R and others print it
        for hit in _VARIABLE.finditer(line.text) if "=" in line.text and not listed else ():
            if not (hit["known"] or _OF_VARIABLES.search(line.text) or _OF_VARIABLES.search(above)):
                continue
            value, clause = hit["value"].strip("\"'").rstrip("."), mentions.clause_of(line.text, hit.start())
            if mentions.fails(clause) is False or _TRIED.search(line.text):
                fine.append(f"{hit['name']}={value}")
            else:
                first = first or line.number
                found.setdefault(hit["name"], value)
        above = line.text or above
    remarks = [f"the report also tried {', '.join(dict.fromkeys(fine))}: not in env"] if fine else []
    if not (found or remarks):
        return None
    return EnvironmentBlock(kind="stated", first=first or 1, last=first or 1, env=found, remarks=tuple(remarks))


_DUMPED = re.compile(rf"(?P<name>(?:{'|'.join(table()['variables'])})[A-Z0-9_]{{2,60}})=(?P<value>[\w.,:+-]{{1,80}})")
"""A line of a dump of variables: of a name that frameworks read, and of no value with a path."""


def dumped(split: Sequence[lines.ReportLine]) -> EnvironmentBlock | None:
    """The environment variables of a dump, two lines or more below each other, as ``collect_env`` of vLLM ends in."""
    found: dict[str, str] = {}
    first = 0
    for above, line in pairwise(split):
        hits = [_DUMPED.fullmatch(one.text.strip()) for one in (above, line)]
        names = [re.match(r"[A-Z][A-Z0-9_]{2,60}=", one.text.strip()) for one in (above, line)]
        if all(names):
            first = first or above.number
            found |= {hit["name"]: hit["value"] for hit in hits if hit}
    return EnvironmentBlock(kind="stated", first=first, last=first, env=found) if found else None


_IMAGE = re.compile(
    r"(?<![\w/.:@-])((?:nvcr\.io/|nvidia/cuda|(?:[\w.-]+/)?(?:pytorch/pytorch|tensorflow/tensorflow|paddlepaddle/paddle)|rocm/"
    r"|vllm/|huggingface/)[\w./-]{0,80}:[\w.-]{1,80}\w|(?:python|gcc|ubuntu|debian|centos|fedora|rockylinux):\d[\w.-]{0,60}\w)"
)
_OF_IMAGES = re.compile(r"docker|\bimage|container|podman|\bNGC\b|镜像|容器", re.IGNORECASE)


def image(merged: Sequence[EnvironmentBlock], prose: Sequence[lines.ReportLine]) -> EnvironmentBlock | None:
    """The one container image that sentences name."""
    if any(found.image for found in merged):
        return None
    hits = [
        (hit[1], line.number)
        for line in prose
        for hit in _IMAGE.finditer(line.text)
        if mentions.fails(line.text) is not False and ("/" in hit[1] or _OF_IMAGES.search(line.text))
    ]
    if len({name for name, _ in hits}) != 1:
        return None
    name, at = hits[0]
    into = BlockReader(Rank.STATED)
    images.read(name, into)
    return into.found("stated", at, at, {"image": name})


@dataclass(frozen=True)
class VersionPattern:
    """A row of the table ``shown``: what lines of logs, paths and commands show of an axis."""

    axis: str
    pattern: re.Pattern[str]
    form: str

    def values(self, text: str) -> dict[str, int]:
        """The values in a text, with the place of the first."""
        found: dict[str, int] = {}
        for hit in self.pattern.finditer(text):
            version = ".".join(group for group in hit.groups() if group)
            if self.form == "packaged":
                version = wording.packaged(version)
            elif self.axis == "os":
                version = self.form.format(version)
            if version:
                found.setdefault(version, hit.start())
        return found


SHOWN = tuple(VersionPattern(row["axis"], re.compile(row["pattern"]), row.get("as", "")) for row in table()["shown"])


def shown(merged: Sequence[EnvironmentBlock], text: str) -> Iterator[EnvironmentBlock]:
    """The one version that logs, paths, wheels, packages and commands show, where nothing else does."""
    taken = set()
    for row in SHOWN:
        axis = row.axis
        other = axis == "os" and any(found.system in ("windows", "macos") for found in merged)
        if other or axis in taken or any(re.search(r"[.-]\d", found.axes.get(axis, "")) for found in merged):
            continue
        hits = row.values(text)
        if len(hits) != 1:
            continue
        taken.add(axis)
        ((version, at),) = hits.items()
        line = text.count("\n", 0, at) + 1
        quote = f"line {line}"
        remark = f"{axis} {version} is from the output, paths or commands in the report (first in {quote})"
        claim = ReportedValue(axis=axis, version=version, rank=Rank.STATED, quote=quote)
        yield EnvironmentBlock(kind="paths", first=line, last=line, claims=(claim,), remarks=(remark,))
