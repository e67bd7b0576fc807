"""Blocks of ``key: value`` lines: what the programs of frameworks print, and what people type. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from packaging.utils import canonicalize_name

from reprokit.environment import wording
from reprokit.intake.environments import images, mentions, packages
from reprokit.intake.environments.lines import LONGEST, ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank
from reprokit.intake.environments.pairs import KeyValue, covered, items, listed, pair, role
from reprokit.intake.environments.reading import NOTHING, TOOLS, BlockReader, read
from reprokit.intake.table import table

_KINDS = tuple((row["kind"], frozenset(row["keys"])) for row in table()["blocks"])
"""(kind, keys in lower case that only that program prints together)."""

_LISTED = re.compile(
    r"\[(?P<by>pip3?|conda)\]\s+(?P<name>[A-Za-z][\w.-]*)(?:==|\s+\(?)(?P<version>\d[^\s)]*)(?:\s+(?P<build>\w\S*))?"
)
_RULE = re.compile(r"[-=*_#~+─ ]+")
_HOST = re.compile(r"node='[^']*'")
"""The host in the output of jax.print_environment_info(): a scrubber could not recognise its name."""

_IMAGE = re.compile(r"[\w.-]{1,100}(?::\d+)?(?:/[\w.-]{1,100}){0,5}:[\w.-]{1,120}")
_PRIVATE = re.compile(r"^\d{4}-|host ?name|machine id|boot id|主机名|用户名|user ?name", re.IGNORECASE)
"""Keys that identify the owner of the machine, and the time of a log's line."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,60}")
_RELEASE = re.compile(r"v?(\d+(?:\.\w+)+(?:\+[\w.]+)?)(?: .{0,60})?")
_ROW = re.compile(r"([A-Za-z][\w.-]{1,40})(?:[ :]|==) ?v?(\d+\.\d+\.\d+\w*)\+?", re.ASCII)
_PRECISE = re.compile(r"v?\d+\.\d+\.\w+")
_VERSION_OF = re.compile(r" (?:version|\(.{1,30}\))$", re.IGNORECASE)
_ABOUT = re.compile(r"[^。，,.;；]{0,40}(?:版本|环境|environment)[^。，,.;；]{0,12}$", re.IGNORECASE)
_COMMAND = re.compile(r"(?:pip3?|conda|mamba) install|docker run")
"""Lines with a command are read as commands."""

_STOP = re.compile(r"Traceback \(most recent|\$ |>>> ")
BLANKS = 2
UNKNOWN = 3
UNKNOWN_OF_PROGRAM = 12
"""Most consecutive lines within a block that are blank, or have nothing about an environment."""

SHORT = 60
"""Most characters of a value that can be an environment on its own; longer text is a sentence."""

_OPEN = {
    "details": re.compile(r"- |\S+="),
    "cudnn": re.compile(r"/|[A-Z]:\\|libcudnn|cudnn"),
    "gpu": re.compile(r"GPU \d+: "),
    "virtual": re.compile(r"__\w+="),
}
"""Role -> how lines look that continue its value."""


@dataclass
class _Run:
    """Lines that are read as one block, in order."""

    start: ReportLine
    pairs: list[KeyValue] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    versions: dict[str, str] = field(default_factory=dict)
    listed: list[tuple[re.Match[str], str]] = field(default_factory=list)
    last: int = 0
    blanks: int = 0
    unknown: int = 0
    kind: str = ""
    processor: bool = False

    def add(self, line: ReportLine, pairs: Sequence[KeyValue]) -> None:
        """Take a line into the block."""
        if listed := _LISTED.match(line.text):
            self.listed.append((listed, line.text))
        elif self.goes_on(line):
            before = self.pairs.pop()
            self.pairs.append(replace(before, value=f"{before.value}\n{line.text}".strip()))
        elif any(one.role or self.lists(one) for one in pairs):
            self._take(pairs)
        else:
            self.unknown += not _RULE.fullmatch(line.text)
            self.blanks = 0
            # The thirty lines about a processor describe the host, not the environment.
            self.pairs += () if self.processor else pairs
            return
        self.last, self.unknown, self.blanks = line.number, 0, 0

    def lists(self, one: KeyValue) -> bool:
        """Whether a pair is a package and its version: any name in a program's output, where people type x.y.z only."""
        if one.role or not _NAME.fullmatch(_package(one)) or not _RELEASE.fullmatch(one.value):
            return False
        if re.fullmatch(r"[A-Z0-9]+(?:_[A-Z0-9]+)+", one.key):  # a variable
            return False
        return bool(self.kind or _PRECISE.match(one.value))

    def goes_on(self, line: ReportLine) -> bool:
        """Whether a line belongs to the value of the line before it."""
        looks = _OPEN.get(self.pairs[-1].role) if self.pairs else None
        near = len(self.pairs[-1].value) < LONGEST if self.pairs else False
        near = near and self.blanks == 0 and self.unknown == 0 and line.fence == self.start.fence
        return bool(looks and near and looks.match(line.raw.lstrip()))

    def _take(self, pairs: Sequence[KeyValue]) -> None:
        self.pairs += pairs
        self.processor = (pairs[-1].key == "CPU" and not pairs[-1].value) or (
            self.processor and pairs[-1].role == "known"
        )
        self.keys |= {_key(one) for one in pairs if one.role}
        for one in pairs:
            self.versions.setdefault(one.role, _version(one))
        if not self.kind:
            self.kind = next((name for name, needed in _KINDS if needed <= self.keys), "")

    def ends(self, line: ReportLine, pairs: Sequence[KeyValue]) -> bool:
        """Whether a line is not part of the block any more: another fence, prose, or a repeated key."""
        if line.fence != self.start.fence or _STOP.match(line.text):
            return True
        if self.unknown >= (UNKNOWN if not self.kind else UNKNOWN_OF_PROGRAM * (1 + 4 * (self.kind == "collect_env"))):
            return True
        return any(self._again(one) for one in pairs if one.value)

    def _again(self, one: KeyValue) -> bool:
        """Whether a pair repeats an earlier one: under the same key or, where people write, under another key."""
        if one.role not in _REPEATED and _key(one) in self.keys:
            return True
        before, now = self.versions.get(one.role, ""), _version(one)
        return bool(not self.kind and before and now and not (before.startswith(now) or now.startswith(before)))


_REPEATED = ("", "known", "gpu", "several")


def _version(one: KeyValue) -> str:
    """The version of the system or of Python in a pair, or ""."""
    if one.role == "platform":
        return wording.os(one.value)
    return wording.python(one.value) if one.role == "python" else ""


def _package(one: KeyValue) -> str:
    """The name in a key such as ``Flax version (CPU?)`` or ``tokenizers version``."""
    return _VERSION_OF.sub("", _VERSION_OF.sub("", one.key.replace("`", ""))).strip()


def _key(one: KeyValue) -> str:
    return re.sub(r"\s+", " ", one.key.lower().replace("`", ""))


def find(lines: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    """Every block of pairs in the lines, in order."""
    run: _Run | None = None
    heading: ReportLine | None = None
    kinds: dict[str, str] = {}
    for line in [*lines, ReportLine(-1, "", edge=True)]:
        if line.blank or line.edge:
            heading = heading if heading and heading.heading else None
            if run and ((line.edge and not line.taken) or run.blanks >= BLANKS):
                yield from _block(run)
                run = None
            elif run:
                run.blanks += 1
            continue
        pairs = [_of_kind(one, kinds) for one in _pairs(line, heading)]
        asks = line.heading or (line.raw.rstrip().endswith((":", "：")) and any(one.role for one in pairs))
        heading = line if asks and not any(one.value for one in pairs) else None
        if run and not run.goes_on(line) and run.ends(line, pairs):
            yield from _block(run)
            run = None
        if run is None and any(one.role for one in pairs):
            run = _Run(line)
        if run:
            run.add(line, pairs)


def _of_kind(one: KeyValue, kinds: dict[str, str]) -> KeyValue:
    """A pair, of what the line before named: ``Framework: wobble``, ``Framework version: 1.2.3``."""
    key, value = one.key.lower(), one.value.rpartition(":")[2].strip()
    if (of := kinds.get(_VERSION_OF.sub("", key))) and not one.role:
        return replace(one, key=of, role=role(of))
    if role(value).startswith("package "):
        kinds[key] = value
    return one


def _pairs(line: ReportLine, heading: ReportLine | None) -> list[KeyValue]:
    """The pairs of a line; below a heading that is a key (GitHub's issue forms), the line is that key's value."""
    if len(several := _in_one_line(line)) > 1:
        return several
    one = pair(line)
    if line.heading:
        return [one] if one and one.role else []
    if heading and not (one and one.role):
        key = pair(ReportLine(heading.number, "", text=f"{heading.text}:"))
        if key and key.role not in ("", "several"):
            return [KeyValue(heading.text, line.text, key.role, line.number)]
    if one and (one.role == "several" or (not one.role and _ABOUT.match(one.key))):
        return [replace(one, role="several")]
    if one and one.role and (one.value or not one.role.startswith("package")):
        return [one]
    if line.item and (row := _ROW.fullmatch(line.text)) and (one is None or not one.role):
        return [KeyValue(row[1], row[2], role(row[1]) or f"package {row[1]}", line.number)]
    found = list(items(line.text, line.number))
    # A sentence that names three of them describes an environment, too.
    many = len({one.role for one in found}) > 2
    if found and not _COMMAND.search(line.text) and (many or covered(line.text) >= 0.5):
        said = mentions.judged(line.text) or mentions.ASKED_FOR.search(line.text)
        if mentions.fails(line.text) is not None or (not many and said):
            return []
        keys = {item.key.lower() for item in found}
        return found + [item for item in listed(line.text, line.number) if item.key.lower() not in keys]
    return [one] if one else []


def _in_one_line(line: ReportLine) -> list[KeyValue]:
    """The pairs of ``CUDA: 11.7, cuDNN: 8.4``; [] for a line whose other parts are not pairs with known keys."""
    if not _PAIRS.search(line.text[:LONGEST]):
        return []
    parts = [pair(replace(line, text=part, cells=())) for part in _COMMA.split(line.text[:LONGEST])]
    return [one for one in parts if one] if all(one and one.role and one.value for one in parts) else []


_PAIRS = re.compile(r"[:：=][^:：=，,；;]{1,80}[，,；;][^:：=，,；;]{1,40}[:：=]")
_COMMA = re.compile(r"\s*[，,；;]\s*")


def _own_cudnn(reading: BlockReader) -> None:
    """PyTorch's builds bring their cuDNN: the libraries that its program finds on the system are not what it uses."""
    of_build = [one for one in reading.claims if one.axis == "cudnn" and one.rank is Rank.BUILT]
    found = [one for one in reading.claims if one.axis == "cudnn" and "libcudnn" in one.quote]
    if of_build and found:
        reading.claims = [one for one in reading.claims if one not in found]
        reading.remarks.append(f"cudnn {found[0].version} is on the system; PyTorch uses its own {of_build[0].version}")


def _block(run: _Run) -> Iterator[EnvironmentBlock]:
    pairs = [one for one in run.pairs if one.line <= run.last]
    reading = read(pairs, Rank.MEASURED if run.kind else Rank.STATED)
    for one in pairs:
        if one.role == "image" and (image := _IMAGE.match(one.value)):
            images.read(image[0], reading)
    reading.written = [name for name in reading.packages if name in TOOLS]  # but for a list of packages
    for row, text in run.listed:
        if row["by"] == "conda":
            packages.of_conda(reading, row["name"], row["version"], row["build"] or "py")
        else:
            reading.package(row["name"], row["version"], text)
    _own_cudnn(reading)
    for one in pairs:
        if run.lists(one) and (release := _RELEASE.fullmatch(one.value)):
            name = canonicalize_name(_package(one))
            reading.written += [] if name in reading.packages else [name]
            reading.package(name, release[1], f"{one.key}: {one.value}")
    facts = len({one.axis for one in reading.claims}) + len(reading.packages) + len(reading.texts) + len(reading.gpus)
    known = reading.claims or reading.packages or "system" in reading.texts
    short = min((len(one.value) for one in pairs), default=0) <= SHORT
    if run.kind or facts > 1 or (facts and short and not run.start.fence and known):
        values: dict[str, str] = {}
        pairs = [replace(one, value=_HOST.sub("node=''", one.value)) for one in pairs]
        for one in pairs:
            if one.value and (one.role or not (NOTHING.fullmatch(one.value) or _PRIVATE.search(one.key))):
                values.setdefault(one.key, one.value)
        yield reading.found(run.kind or "typed", run.start.number, run.last, values)
