"""Blocks of ``key: value`` lines: what the programs of frameworks print, and what people type into forms. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.utils import canonicalize_name

from reprokit.environment import frameworks, versions, wording
from reprokit.environment.axes import AXES, BY_NAME, READERS
from reprokit.intake.environment_model import EnvironmentBlock, Rank, ReportedValue
from reprokit.intake.pieces import LONGEST, ReportLine, table

# -- keys ----------------------------------------------------------------------------------------------------------

PACKAGES = frozenset([*table()["packages"], *(name for row in table("packages").values() for name in row["pip"])])
"""Names of Python packages, among others."""

ROLES: dict[str, str] = {name: role for role, names in table()["roles"].items() for name in names}
ROLES |= {name: axis.name for axis in AXES if axis.name != "os" for name in axis.wording.keys}
ROLES |= {name: "platform" for name in BY_NAME["os"].wording.keys if name not in ROLES}
ROLES |= {module.lower(): f"package {row['pip'][0]}" for module, row in table("packages").items()}
ROLES |= {name: f"package {name}" for name in PACKAGES}
ROLES |= {name: f"package {package}" for name, package in table()["called"].items()}

_PAIR = re.compile(r"([^:：=]{1,90}?)\s*(?:[:：]|={1,2}>?|-{1,2}\s?>|\s\.{4,}\s)\s*(.*)")
_COLUMNS = re.compile(r"(\S{1,40}(?: \S{1,60}){0,5})(?: {2,}|\t+)(\S.*)")
_SUFFIX = re.compile(
    r"[\s_]*(?:['’]s )?(?:\.(?:__)?version(?:__)?|versions?(?: used| or commit(?: id)?)?"
    r"|版本号?|信息|型号|info|information)$"
)
_ASIDE = re.compile(r"[(（][^()（）]{0,200}[)）]|\[ ?(?:e\.g|optional|如|例如)[^\[\]]{0,200}\]")
"""Text of a form rather than of the reporter: ``(e.g., 1.0)``, ``[e.g. Windows]``."""
_ASKED = re.compile(r"\[? ?(?:e\.g\.?|请您?(?:提供|描述|注明|填写))", re.IGNORECASE)
"""A value that is still the form's own text."""
_DRIVER = re.compile(r"driver|驱动|nvidia-smi|supported|最高支持")
_SYSTEM = re.compile(
    r"(?:ubuntu|debian|centos|windows|macos|mac os x?|rocky|fedora|red hat)[ -]{0,2}"
    r"(?:server |desktop |linux |release |lts )?v?\d[\w. ]{0,10}",
    re.IGNORECASE,
)
_ITEM = re.compile(
    r"(?P<name>[A-Za-z\u4e00-\u9fff][\w .+-]{0,40}?)\s?(?:versions?|版本号?)?\s?(?:[:：]|={1,2}|-)?\s?"
    r"(?P<version>v?\d+(?:\.(?a:[\w*]+)){0,5}(?:\+[\w.]+)?)"
)


@dataclass(frozen=True)
class KeyValue:
    """A key and its value on a line."""

    key: str
    value: str
    role: str
    """What the key describes (``cuda``, ``package torch``; '' = not known)."""
    line: int


def role(key: str) -> str:
    """What a key describes: an axis, ``platform``, ``gpu``, ``package NAME``, ``known`` ... or ""."""
    key = re.sub(r"(gpu|显卡)\s?\d+(?:,\d+)*$", r"\1", key.replace("`", "").lower().strip())  # as detectron2 lists them
    bare = _SUFFIX.sub("", _ASIDE.sub("", key).strip(" -–—*_?.,，、`")).strip()
    if bare in ROLES:
        return ROLES[bare]
    if bare == "nvidia-smi" or (_DRIVER.search(bare) and "cuda" in bare):
        return "driver cuda"
    bare = _SUFFIX.sub("", bare)
    # Bilingual keys: 系统环境/System Environment, 操作系统 | Operating System.
    parts = [_SUFFIX.sub("", part.strip()) for part in re.split(r"[/|｜]", bare)] if re.match(r"[^/\\]", bare) else []
    parts = parts if len(parts) <= 3 and "" not in parts else []
    return next((ROLES[part] for part in (bare, re.sub(r"[\s_]+", "-", bare), *parts) if part in ROLES), "")


def pair(line: ReportLine) -> KeyValue | None:
    """The key and value of a line, even if the key is not known; None for other lines."""
    if len(line.cells) == 2:
        return KeyValue(line.cells[0], line.cells[1], role(line.cells[0]), line.number)
    found = _PAIR.match(line.text)
    columns = _COLUMNS.match(line.text)
    versioned = columns and re.match(r"v?\d+\.\d", columns[2])
    if columns and (not found or not role(found[1])) and (role(columns[1]) or (versioned and not found)):
        found = columns
    if not found or not found[1].strip():
        return None
    key, value = found[1].strip(), found[2].strip()
    return KeyValue(key, "" if _ASKED.match(value) else value, role(key), line.number)


def items(text: str, line: int) -> tuple[list[KeyValue], bool]:
    """(the names with versions in a list such as ``Ubuntu 20.04, Python 3.8``, whether the text is nothing else)."""
    found: list[KeyValue] = []
    whole = True
    for part in re.split(r"\s*[,，、;；/|]\s*|\s{2,}|\s+(?:\+|and|和)\s+", text[:LONGEST].strip(" .。")):
        hit = _ITEM.fullmatch(part)
        of = role(hit["name"]) if hit else ""
        if _SYSTEM.fullmatch(part):
            found.append(KeyValue("OS", part, "platform", line))
        elif hit and (of in BY_NAME or of.startswith("package ")):
            found.append(KeyValue(hit["name"], hit["version"], of, line))
        else:
            whole = False
    return found, whole


# -- values --------------------------------------------------------------------------------------------------------

_NOTHING = re.compile(
    r"[\W_]*(?:n/?a|none|null|nil|not (?:found|available|installed|applicable|set)|unknown|could not collect|no cuda|"
    r"no response|未知|无|没有|不可用|未安装|-+|no|\?)?[\W_]*",
    re.IGNORECASE,
)
"""A value that means none or not known."""
_PLAUSIBLE = {
    "python": re.compile(r"[23]\.\d"),
    "cuda": re.compile(r"(?:[4-9]|[12]\d)(?:\.|$)|none$"),
    "cudnn": re.compile(r"[1-9]\d?(?:\.|$)"),
    "gcc": re.compile(r"(?:[3-9]|[12]\d)(?:\.|$)"),
    "os": re.compile(""),
    "cmake": re.compile(r"[2-4]\.\d"),
    "clang": re.compile(r"(?:[3-9]|[12]\d)(?:\.|$)"),
    "nccl": re.compile(r"2\.\d"),
}
"""What a version of each axis looks like: ``cuda: 0`` is the number of a device."""
_RELEASE = re.compile(r"v?(\d+(?:\.(?:[A-Za-z0-9*]|_(?=\d))+)+(?:-(?:rc\d+|nightly))?(?:\+[\w.]+)?)")
_GPU_NAME = re.compile(
    r"nvidia|tesla|geforce|titan|quadro|[gr]tx|radeon|amd|[a-z]{1,2}\d{2,4}(?![\d.])|(?<![\d.])\d{4}(?![\d.])",
    re.IGNORECASE,
)
_WSL = re.compile(r"WSL|-[Mm]icrosoft\b")
_SYSTEMS = {
    "windows": re.compile(r"windows|(?<![a-z])win(?:[ -]?(?:7|8|10|11)\b|32|_amd64)", re.IGNORECASE),
    "macos": re.compile(r"\bmac ?os|\bdarwin\b|\bos x\b|\bapple (?:silicon|m\d)\b", re.IGNORECASE),
    "another": re.compile(r"bsd\b|solaris|illumos|\baix\b", re.IGNORECASE),
    "linux": re.compile(r"\blinux", re.IGNORECASE),
}
_SUPPORTED = re.compile(r"driver|驱动|nvidia-smi|support|支持|最高", re.IGNORECASE)


@dataclass
class BlockReader:
    """The facts read so far; :meth:`block` makes the block from them."""

    rank: Rank
    claims: list[ReportedValue] = field(default_factory=list)
    packages: dict[str, str] = field(default_factory=dict)
    gpus: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def claim(self, axis: str, version: str, quote: str, rank: Rank | None = None) -> None:
        """Add a claim about an axis, if ``version`` is a plausible one. ``quote``: the text it comes from."""
        if version and _PLAUSIBLE[axis].match(version):
            shown = quote if len(quote) <= 100 else quote[:97] + "..."
            self.claims.append(ReportedValue(axis=axis, version=version, rank=rank or self.rank, quote=shown))

    def package(self, name: str, version: str, quote: str) -> None:
        """Add a package, and the CUDA and cuDNN for which it is built. ``quote``: the text it comes from."""
        name = canonicalize_name(name)
        if name in self.packages:
            return
        version = re.sub(r"^(\d+(?:\.\d+)+)[-.](rc\.?\d+)$", r"\1\2", version)  # as Python's index has a tag's name
        self.packages[name] = version
        if found := re.fullmatch(r"nvidia-(cuda-runtime|cuda-nvcc|cudnn)-cu\d+", name):
            self.claim("cudnn" if found[1] == "cudnn" else "cuda", version, quote, Rank.BUILT)
            return
        release, _, local = version.partition("+")
        for asked in frameworks.asked([f"{name}=={release}" + (f"+{local}" if local else "")], []):
            if asked.cuda and not asked.indexed:
                self.claim("cuda", asked.cuda, quote, Rank.BUILT)

    def system(self, text: str) -> None:
        """Add the kind of system that a text names; the first text that names one wins."""
        if found := system_of(text):
            self.texts.setdefault("system", found)
        if _WSL.search(text):
            self.remarks.append("Linux under Windows (WSL)")
        if re.search(r"\b(?:aarch64|arm64)\b", text) and self.texts.get("system") != "macos":
            self.remarks.append("the processor is ARM (aarch64)")

    def block(self, kind: str, first: int, last: int, values: Mapping[str, str]) -> EnvironmentBlock:
        """The block with these facts. ``first``, ``last``: its lines; ``values``: its own keys."""
        if self.texts.get("system") in ("windows", "macos"):
            self.claims = [one for one in self.claims if one.axis != "os"]
        texts = {name: self.texts.get(name, "") for name in ("driver", "driver_cuda", "system")}
        return EnvironmentBlock(
            kind=kind, first=first, last=last, values=dict(values), claims=tuple(dict.fromkeys(self.claims)),
            packages=dict(self.packages), gpus=tuple(self.gpus), remarks=tuple(dict.fromkeys(self.remarks)),
            driver=texts["driver"], driver_cuda=texts["driver_cuda"], system=texts["system"],
        )  # fmt: skip


def system_of(text: str) -> str:
    """``linux``, ``windows`` or ``macos``, where a text names one; Windows' own Linux is Linux."""
    if _WSL.search(text):
        return "linux"
    named = next((system for system, pattern in _SYSTEMS.items() if pattern.search(text)), "")
    if named:
        return named.removeprefix("another")
    return "linux" if wording.os(text) else ""


def read_pairs(pairs: Sequence[KeyValue], rank: Rank) -> BlockReader:
    """The facts in pairs, in order. ``rank``: whether a program or a person wrote them."""
    into = BlockReader(rank)
    for one in pairs:
        if not _NOTHING.fullmatch(one.value) or one.role in ("built", "compiled"):
            # platform.platform(), whatever it is called
            platform = re.match(r"(?:Linux|Windows|macOS|Darwin)-\d", one.value)
            _read_pair(into, replace(one, role="platform") if platform else one)
    return into


def _read_pair(into: BlockReader, one: KeyValue) -> None:
    name, _, package = one.role.partition(" ")
    if name == "package":
        _package(into, package, one)
    elif one.role in _READERS:
        _READERS[one.role](into, one)


def _axis(into: BlockReader, one: KeyValue) -> None:
    quote = f"{one.key}: {one.value}"
    if one.role == "cuda" and _SUPPORTED.search(quote):
        _driver(into, one)
        return
    if one.key == "Compiler" and one.value.startswith("GCC ") and into.rank is Rank.MEASURED:
        return  # in detectron2, the compiler of its extension; the installed compiler is in the output of gcc
    version = READERS[one.role](one.value)
    into.claim(one.role, version, quote)
    if one.role == "gcc" and version:
        into.claim("os", wording.packaged(one.value), quote, Rank.BUILT)
    if not version:
        _more(into, one)


def _more(into: BlockReader, one: KeyValue) -> None:
    """Read names and versions within a value: ``Environment: CUDA 11.2, cuDNN 8.1``."""
    for item in items(one.value, one.line)[0]:
        if item.role != one.role:
            _read_pair(into, item)


def _platform(into: BlockReader, one: KeyValue) -> None:
    text = one.value if system_of(one.value) else f"{one.key} {one.value}"  # ubuntu: 16.04
    into.system(text)
    into.claim("os", wording.os(text), f"{one.key}: {one.value}")
    _more(into, one)


def _gpu(into: BlockReader, one: KeyValue) -> None:
    listed = re.findall(r"['\"]([^'\"]+)['\"]", one.value) or one.value.split("\n")[:64]
    for text in listed:
        text = re.sub(r"^GPU \d+[:：]\s*", "", text).strip(" ,，、")
        if _GPU_NAME.search(text) and "==" not in text:
            into.gpus.append(text)
    _more(into, one)


def _driver(into: BlockReader, one: KeyValue) -> None:
    """A driver, and the highest CUDA that it supports, which is never the axis."""
    if found := re.search(r"\d{3}(?:\.\d+)+", one.value):
        into.texts.setdefault("driver", found[0])
    if found := re.search(r"(?<![\d.])(\d{1,2}\.\d)(?![\d.])", one.value):
        into.texts.setdefault("driver_cuda", found[1])


def _built(into: BlockReader, one: KeyValue) -> None:
    none = re.fullmatch(r"none|not compiled.*|cpu", one.value.strip(), re.IGNORECASE)
    into.claim("cuda", versions.NONE if none else wording.cuda(one.value), f"{one.key}: {one.value}", Rank.BUILT)


def _compiled(into: BlockReader, one: KeyValue) -> None:
    """PaddlePaddle's GPU build is a package of its own."""
    if one.value.strip().lower() == "false":
        into.claim("cuda", versions.NONE, f"{one.key}: {one.value}", Rank.BUILT)
    elif one.value.strip().lower() == "true":
        into.texts["compiled"] = "gpu"


def _composite(into: BlockReader, one: KeyValue) -> None:
    """``CUDA/cuDNN: 11.2/8.1``."""
    parts = [part.strip() for part in re.split(r"[/,，、&;；]|\s+and\s+|\s+", one.value) if part.strip()]
    for axis, text in zip(("cuda", "cudnn"), parts, strict=False):
        into.claim(axis, READERS[axis](text), f"{one.key}: {one.value}")


def _reader_within(rank: Rank, **patterns: str) -> Callable[[BlockReader, KeyValue], None]:
    """A reader of versions somewhere in a value."""

    def read(into: BlockReader, one: KeyValue) -> None:
        for axis, pattern in patterns.items():
            if found := re.search(pattern, one.value, re.IGNORECASE):
                into.claim(axis, found[1], f"{one.key}: {found[0] if len(patterns) > 1 else one.value}", rank)

    return read


def _package(into: BlockReader, name: str, one: KeyValue) -> None:
    if name == "paddlepaddle" and re.match(r"v?[\d.]+-gpu\b", one.value):
        name = "paddlepaddle-gpu"
    if found := re.match(rf"(?:{re.escape(name)}[ =:-]{{1,3}})?{_RELEASE.pattern}", one.value.strip(), re.IGNORECASE):
        into.package(name, found[1], f"{one.key}: {one.value}")


_READERS: Mapping[str, Callable[[BlockReader, KeyValue], None]] = {
    **{axis: _axis for axis in READERS if axis in _PLAUSIBLE and axis != "os"},
    "platform": _platform,
    "gpu": _gpu,
    "driver": _driver,
    "driver cuda": _driver,
    "built": _built,
    "compiled": _compiled,
    # The version in a folder's name is only stated, not measured.
    "home": _reader_within(Rank.STATED, cuda=rf"cuda[-/]v?({wording.VERSION})"),
    # detectron2: the output of nvcc, or the CUDA with which its extension was built.
    "cuda compiler": lambda into, one: (_axis if re.search(r"release|Build cuda_", one.value) else _built)(
        into, replace(one, role="cuda")
    ),
    "cuda+cudnn": _composite,
    # PyTorch compiling details of OpenMMLab, and PyTorch built with of detectron2.
    "details": _reader_within(Rank.BUILT, cuda=r"CUDA Runtime (\d+\.\d+)", cudnn=r"CuDNN (\d+(?:\.\d+)+)"),
    "several": _more,
}

# -- blocks --------------------------------------------------------------------------------------------------------

_KINDS = tuple((row["kind"], frozenset(row["keys"])) for row in table()["blocks"])
"""(kind, keys in lower case that only that program prints together)."""
_LISTED = re.compile(r"\[(?P<by>pip3?|conda)\]\s+(?P<name>[A-Za-z][\w.-]*)(?:==|\s+\(?)(?P<version>\d[^\s)]*)")
_RULE = re.compile(r"[-=*_#~+─ ]+")
_HOST = re.compile(r"node='[^']*'")
"""The host in the output of jax.print_environment_info(): a scrubber could not recognise its name."""
_PRIVATE = re.compile(r"^\d{4}-|host ?name|machine id|boot id|主机名|用户名|user ?name", re.IGNORECASE)
"""Keys that identify the owner of the machine, and the time of a log's line."""
_VERSION_OF = re.compile(r" (?:version|\(.{1,30}\))$", re.IGNORECASE)
_STOP = re.compile(r"Traceback \(most recent|\$ |>>> ")
_BLANKS, _UNKNOWN, _UNKNOWN_OF_PROGRAM = 2, 3, 60
"""Most consecutive lines within a block that are blank, or have nothing about an environment."""
_OPEN = {
    "details": re.compile(r"- |\S+="),
    "cudnn": re.compile(r"/|[A-Z]:\\|libcudnn|cudnn"),
    "gpu": re.compile(r"GPU \d+: "),
}
"""Role -> how lines look that continue its value."""


@dataclass
class _Run:
    """Lines that are read as one block, in order."""

    start: ReportLine
    pairs: list[KeyValue] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    listed: list[tuple[str, str, str]] = field(default_factory=list)
    last: int = 0
    blanks: int = 0
    unknown: int = 0
    kind: str = ""

    def add(self, line: ReportLine, pairs: Sequence[KeyValue]) -> None:
        """Take a line into the block."""
        if listed := _LISTED.match(line.text):
            known = role(listed["name"]).removeprefix("package ")
            if known or listed["by"] != "conda":  # which lists libraries of the system, too
                self.listed.append((known or listed["name"], listed["version"], line.text))
        elif self.goes_on(line):
            before = self.pairs.pop()
            self.pairs.append(replace(before, value=f"{before.value}\n{line.text}".strip()))
        elif _RULE.fullmatch(line.text):
            return
        else:
            self.pairs += pairs
            if not any(one.role or self.lists(one) for one in pairs):
                self.unknown += 1
                return
            self.keys |= {_key(one) for one in pairs if one.role}
            self.kind = self.kind or next((name for name, needed in _KINDS if needed <= self.keys), "")
        self.last, self.unknown, self.blanks = line.number, 0, 0

    def lists(self, one: KeyValue) -> bool:
        """Whether a pair that a program prints is a package and its version; ``version`` alone is of a library."""
        named = re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{1,60}", _VERSION_OF.sub("", one.key))
        package = named and _SUFFIX.sub("", one.key.lower())
        return bool(self.kind and not one.role and package and _RELEASE.fullmatch(one.value))

    def goes_on(self, line: ReportLine) -> bool:
        """Whether a line belongs to the value of the line before it."""
        looks = _OPEN.get(self.pairs[-1].role) if self.pairs else None
        near = self.pairs and len(self.pairs[-1].value) < LONGEST and self.blanks == self.unknown == 0
        return bool(looks and near and line.fence == self.start.fence and looks.match(line.raw.lstrip()))

    def ends(self, line: ReportLine, pairs: Sequence[KeyValue]) -> bool:
        """Whether a line is not part of the block any more: another fence, prose, or a repeated key."""
        if line.fence != self.start.fence or _STOP.match(line.text):
            return True
        if self.unknown >= (_UNKNOWN_OF_PROGRAM if self.kind else _UNKNOWN):
            return True
        return any(
            one.value and one.role not in ("", "known", "gpu", "several") and _key(one) in self.keys for one in pairs
        )


def _key(one: KeyValue) -> str:
    return re.sub(r"\s+", " ", one.key.lower().replace("`", ""))


def find(lines: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    """Every block of pairs in the lines, in order."""
    run: _Run | None = None
    heading: ReportLine | None = None
    for line in [*lines, ReportLine(-1, "", edge=True)]:
        if line.blank or line.edge:
            heading = heading if heading and heading.heading else None
            if run and ((line.edge and not line.taken) or run.blanks >= _BLANKS):
                yield from _block(run)
                run = None
            elif run:
                run.blanks += 1
            continue
        pairs = _pairs(line, heading)
        asks = line.heading or (line.raw.rstrip().endswith((":", "：")) and any(one.role for one in pairs))
        heading = line if asks and not any(one.value for one in pairs) else None
        if run and not run.goes_on(line) and run.ends(line, pairs):
            yield from _block(run)
            run = None
        if run is None and any(one.role for one in pairs):
            run = _Run(line)
        if run:
            run.add(line, pairs)


def _pairs(line: ReportLine, heading: ReportLine | None) -> list[KeyValue]:
    """The pairs of a line; below a heading that is a key (GitHub's issue forms), the line is that key's value."""
    parts = [pair(replace(line, text=part, cells=())) for part in re.split(r"\s*[，,；;]\s*", line.text[:LONGEST])]
    if len(parts) > 1 and all(one and one.role and one.value for one in parts):  # CUDA: 11.7, cuDNN: 8.4
        return [one for one in parts if one]
    one = pair(line)
    if line.heading:
        return [one] if one and one.role else []
    if heading and not (one and one.role):
        key = pair(ReportLine(heading.number, "", text=f"{heading.text}:"))
        if key and key.role not in ("", "several"):
            return [KeyValue(heading.text, line.text, key.role, line.number)]
    if one and one.role and (one.value or not one.role.startswith("package")):
        return [one]
    found, whole = items(line.text, line.number)
    if found and whole:
        return found
    return [one] if one else []


def _block(run: _Run) -> Iterator[EnvironmentBlock]:
    pairs = [replace(one, value=_HOST.sub("node=''", one.value)) for one in run.pairs if one.line <= run.last]
    into = read_pairs(pairs, Rank.MEASURED if run.kind else Rank.STATED)
    for name, version, text in run.listed:
        into.package(name, version, text)
    for one in pairs:
        if run.lists(one):
            into.package(_VERSION_OF.sub("", one.key), one.value.removeprefix("v"), f"{one.key}: {one.value}")
    if "compiled" in into.texts and (release := into.packages.pop("paddlepaddle", "")):
        into.package("paddlepaddle-gpu", release, f"PaddlePaddle {release}")
    if run.kind or into.claims or into.packages or into.gpus or "system" in into.texts:
        values: dict[str, str] = {}
        processor = False  # the lines about it describe the host
        for one in pairs:
            processor = not one.value if one.key == "CPU" else processor and one.role in ("", "known")
            if one.value and (one.role or not (processor or _NOTHING.fullmatch(one.value) or _PRIVATE.search(one.key))):
                values.setdefault(one.key, one.value)
        yield into.block(run.kind or "typed", run.start.number, run.last, values)
