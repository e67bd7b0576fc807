"""What sentences, devices and paths say of the environment that failed, where no block of it does. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reprokit.environment import wording
from reprokit.intake.environments import EnvironmentBlock, Rank, ReportedValue, lines, mentions
from reprokit.intake.environments.reading import BlockReader, system
from reprokit.intake.table import table

_NAMED_SYSTEM = re.compile(r"\b(?:on|in|under|using|with) (?:an? |my |the )?(\w+(?: linux)?)", re.IGNORECASE | re.ASCII)
_SYSTEM = re.compile(
    r"(?<![A-Za-z])(?:ubuntu|debian|centos|rhel|rocky|almalinux|fedora|opensuse"
    r"|red ?hat(?: ?enterprise)?(?: ?linux)?(?: ?server)?|suse linux enterprise server|alpine|amazon|windows|win"
    r"|mac ?os(?: x)?|os x)(?: (?:gnu/)?linux)?[ -]?(?:server |lts |rawhide/)?v?\d[\d.]{0,8}"
    r"|\b(?:ubuntu|debian)[ -](?:bionic|focal|jammy|noble|buster|bullseye|bookworm|trixie)\b"
    r"|\b(?:on|under|using) (?:my |a )?(?:windows|mac(?:os|book)?|os x)\b|\bmicrosoft windows\b"
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


def _family(prose: Sequence[lines.ReportLine], paths: str, title: str) -> EnvironmentBlock | None:
    """The one distribution that sentences name without a release."""
    words = [(hit[1], line.number) for line in prose for hit in _NAMED_SYSTEM.finditer(line.text)]
    families = {name: at for text, at in (*words, (title, 1)) if (name := wording.family(text))}
    families = families or ({paths: 1} if paths else {})
    if len(families) != 1:
        return None
    ((name, at),) = families.items()
    into = BlockReader(Rank.STATED)
    into.claim("os", name, name, Rank.BUILT)
    return into.found("stated", at, at, {})


_DEVICE = re.compile(
    r"(?:(?:nvidia|geforce|tesla|quadro|amd|radeon|instinct) ?){0,3}\b(?:[RG]TX ?A?\d{3,4}(?: ?(?:ti|super|max-q))?"
    r"|(?:tesla |nvidia )[A-Z]{1,2}\d{1,4}\w{0,3}|titan ?(?:x|xp|v|rtx)\b|A100|A800|H100|H200|H800|B200|V100|P100|K80"
    r"|A10G?|A40|A6000|A5000|L40S?|T4|GB10|GB200|[345]0[5-9]0 ?(?:ti|super|d)?|jetson(?: \w+)?|MI\d{3}[AX]?"
    r"|radeon(?: \w+){1,2})(?![\w.])",
    re.IGNORECASE,
)


def device(merged: Sequence[EnvironmentBlock], split: Sequence[lines.ReportLine]) -> EnvironmentBlock | None:
    """The first GPU that any line names, where no block names one."""
    if any(found.gpus for found in merged):
        return None
    hits = ((line.number, _DEVICE.search(unicodedata.normalize("NFKC", line.text))) for line in split)
    found = next(((at, hit[0].strip()) for at, hit in hits if hit), None)
    return EnvironmentBlock(kind="stated", first=found[0], last=found[0], gpus=(found[1],)) if found else None


_NO_AXIS = re.compile(
    r"(?<![\w./-])(?P<name>driver|rocm|hip|jetpack|l4t|vulkan(?: ?sdk)?|msvc|visual studio|docker|kernel|open ?mpi|icc"
    r"|icpc|oneapi|node(?:\.?js)?|java|jdk|bazel|ninja|llvm|qt|boost|openssl|glslang|mkl|tensorrt|xcode|ndk)"
    r"(?: version)?(?: \([^()]{1,30}\))?[ :：=v-]{0,4}(?P<version>\d[\d.]*\d)(?![\w.]*\w)",
    re.IGNORECASE,
)
"""What belongs to an environment and has no axis in a case."""


def without_axis(here: EnvironmentBlock | None, prose: Sequence[lines.ReportLine]) -> EnvironmentBlock | None:
    """A comment that names what else the report says of the environment, for which a case has no axis."""
    found = {"driver": here.driver} if here and here.driver else {}
    texts = [f"{key}: {value}" for key, value in (here.values.items() if here else ())] + [line.text for line in prose]
    texts = [text[:_LINE] for text in texts[:_LINES]]
    for hit in (hit for text in texts for hit in _NO_AXIS.finditer(text)):
        name = hit["name"].lower()
        if name not in (here.packages if here else ()) and name not in map(str.lower, found):
            found[hit["name"]] = hit["version"]
    if rare := next((one for text in texts if (one := _PROCESSOR.search(text))), None):
        found.setdefault("processor", rare[0])
    if not found:
        return None
    named = ", ".join(f"{name} {version}" for name, version in list(found.items())[:_LISTED])
    remark = f"also reported, and not an axis of a case: {named}"
    return EnvironmentBlock(kind=here.kind if here else "stated", first=1, last=1, remarks=(remark,))


_PROCESSOR = re.compile(
    r"(?<![\w./-])(?:aarch64|arm64|armv\d\w?|ppc64le|s390x|riscv64|loongarch64|i[36]86)(?![\w.])"
    r"|\bM[1-5](?: Pro| Max| Ultra)?\b(?=.{0,20}(?:mac|apple|chip|arm))",
    re.IGNORECASE,
)
_LINE, _LINES, _LISTED = 400, 1000, 8
"""Characters of a line and lines that are searched for them, and most of them that are listed."""


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
                version = self.form.format(re.sub(r"^(\d\d)(\d\d)$", r"\1.\2", version))
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
        claim = ReportedValue(axis=axis, version=version, rank=Rank.STATED, quote=quote)
        remark = f"{axis} {version} is from the output, paths or commands in the report (first in {quote})"
        yield EnvironmentBlock(kind="paths", first=line, last=line, claims=(claim,), remarks=(remark,))
