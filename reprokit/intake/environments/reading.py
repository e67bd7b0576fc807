"""From the pairs of a block to the facts about an environment. Pure; it adds nothing that the pairs do not say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name

from reprokit.environment import frameworks, versions, wording
from reprokit.environment.axes import READERS
from reprokit.intake.environments.model import EnvironmentBlock, Rank, ReportedValue
from reprokit.intake.environments.pairs import KeyValue, items
from reprokit.intake.table import table

NOTHING = re.compile(
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

WHEEL = re.compile(r"([A-Za-z][\w.]{0,60})-(\d[\w.]{0,30}(?:\+[\w.]{1,30})?)-(?:cp|py)\d[\w.-]{1,80}\.whl")
"""The file name of a wheel: what is installed, and its version."""
_RELEASE = re.compile(r"v?(\d+(?:\.(?:[A-Za-z0-9*]|_(?=\d))+)+(?:-(?:rc\d+|nightly|SNAPSHOT))?(?:\+[\w.]+)?)")
_KIND = "default|latest|release|version|built|pip|conda|master|stable"
"""What people write before a version."""
_GPU_NAME = re.compile(
    r"nvidia|tesla|geforce|titan|quadro|[gr]tx|radeon|amd|[a-z]{1,2}\d{2,4}(?![\d.])|(?<![\d.])\d{4}(?![\d.])",
    re.IGNORECASE,
)
_CANDIDATE = re.compile(r"^(\d+(?:\.\d+)+)[-.](rc\.?\d+)$")
"""How tags call what Python's index has as ``2.2.0rc3``."""
TOOLS = frozenset(name.replace(" ", "-") for name in table()["tools"])
_WSL = re.compile(r"WSL|-[Mm]icrosoft\b")
_SUPPORTED = re.compile(r"driver|驱动|nvidia-smi|support|支持|最高", re.IGNORECASE)


@dataclass
class BlockReader:
    """The facts read so far; :meth:`found` makes the block from them."""

    rank: Rank
    claims: list[ReportedValue] = field(default_factory=list)
    packages: dict[str, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    gpus: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def claim(self, axis: str, version: str, quote: str, rank: Rank | None = None) -> None:
        """Add a claim about an axis, if ``version`` is a plausible one. ``quote``: the text it comes from."""
        if version and _PLAUSIBLE[axis].match(version):
            shown = quote if len(quote) <= 100 else quote[:97] + "..."
            self.claims.append(ReportedValue(axis=axis, version=version, rank=rank or self.rank, quote=shown))

    def package(self, name: str, version: str, quote: str) -> None:
        """Add a package, and the CUDA version for which it is built. ``quote``: the text it comes from."""
        name = canonicalize_name(name)
        if name in self.packages:
            return
        version = _CANDIDATE.sub(r"\1\2", version)
        self.packages[name] = version
        self.built(name, version, quote)

    def built(self, name: str, version: str, quote: str) -> None:
        """Add the CUDA and cuDNN that a framework's version (``2.1.0+cu118``) or NVIDIA's own packages imply."""
        if found := re.fullmatch(r"nvidia-(cuda-runtime|cuda-nvcc|cudnn)-cu\d+", name):
            self.claim("cudnn" if found[1] == "cudnn" else "cuda", version, quote, Rank.BUILT)
            return
        local = version.partition("+")[2]
        if name.startswith("torch") and name not in frameworks.GPU_PACKAGES:  # torchvision is built like its torch
            name = "torch"
        requirement = f"{name}=={version.partition('+')[0]}" + (f"+{local}" if local else "")
        for asked in frameworks.asked([requirement], []):
            if asked.cuda and not asked.indexed:
                self.claim("cuda", asked.cuda, quote, Rank.BUILT)

    def system(self, text: str) -> None:
        """Add the kind of system that a text names; the first text that names one wins."""
        if found := system(text):
            self.texts.setdefault("system", found)
        if _WSL.search(text):
            self.remarks.append("Linux under Windows (WSL)")
        if re.search(r"\b(?:aarch64|arm64)\b", text) and self.texts.get("system") != "macos":
            self.remarks.append("the processor is ARM (aarch64)")

    def found(self, kind: str, first: int, last: int, values: Mapping[str, str]) -> EnvironmentBlock:
        """The block with these facts. ``first``, ``last``: its lines; ``values``: its own keys."""
        if self.texts.get("system") in ("windows", "macos"):
            self.claims = [one for one in self.claims if one.axis != "os"]
        return EnvironmentBlock(
            kind=kind,
            first=first,
            last=last,
            values=dict(values),
            claims=tuple(dict.fromkeys(self.claims)),
            packages=dict(self.packages),
            written=tuple(self.written),
            gpus=tuple(self.gpus),
            remarks=tuple(dict.fromkeys(self.remarks)),
            **self.texts,  # type: ignore[arg-type]  # names of fields that are texts
        )


def system(text: str) -> str:
    """``linux``, ``windows`` or ``macos``, where a text names one; Windows' own Linux is Linux."""
    if _WSL.search(text):
        return "linux"
    if re.search(r"windows|(?<![a-z])win(?:[ -]?(?:7|8|10|11)\b|32|_amd64)", text, re.IGNORECASE):
        return "windows"
    if re.search(
        r"\bmac ?os|\bdarwin\b|\bos x\b|\bmac(?:book)?(?![a-z\d])|\bapple (?:silicon|m\d)\b", text, re.IGNORECASE
    ):
        return "macos"
    if re.search(r"bsd\b|solaris|sunos|illumos|\baix\b|hp-ux", text, re.IGNORECASE):
        return ""
    return "linux" if wording.os(text) or re.search(r"\blinux", text, re.IGNORECASE) else ""


def read(pairs: Iterable[KeyValue], rank: Rank) -> BlockReader:
    """The facts in pairs, in order. ``rank``: whether a program or a person wrote them."""
    into = BlockReader(rank)
    for one in pairs:
        text = one.value
        if NOTHING.fullmatch(text) and one.role != "built" and one.role != "compiled":
            continue
        name, _, package = one.role.partition(" ")
        name = name if name == "package" else one.role
        for wheel in WHEEL.finditer(text):
            into.package(wheel[1], wheel[2], f"{one.key}: {text}")
        if re.match(r"(?:Linux|Windows|macOS|Darwin)-\d", text):  # platform.platform(), whatever it is called
            name = "platform"
        if name == "package":
            _package(into, package, one)
        elif name in _READERS:
            _READERS[name](into, one)
    _variants(into)
    return into


def _axis(into: BlockReader, one: KeyValue) -> None:
    if one.role == "cuda" and _SUPPORTED.search(f"{one.key} {one.value}"):
        into.texts.setdefault("driver_cuda", next(iter(re.findall(r"\d+\.\d+", one.value)), ""))
        return
    if one.key == "Compiler" and one.value.startswith("GCC ") and into.rank is Rank.MEASURED:
        return  # in detectron2, the compiler of its extension; the installed compiler is in the output of gcc
    version = READERS[one.role](one.value)
    into.claim(one.role, version, f"{one.key}: {one.value}")
    if one.role == "gcc" and version:
        into.claim("os", wording.packaged(one.value), f"{one.key}: {one.value}", Rank.BUILT)
    if one.role == "cudnn" and not version and "libcudnn" in one.value:
        into.remarks.append(f"{one.key}: several libraries of cuDNN, of different versions")
    elif not version:
        _more(into, one)


def _more(into: BlockReader, one: KeyValue) -> None:
    """Read names and versions within a value: ``CUDA 11.2, cuDNN 8.1`` after ``GPU``."""
    for item in items(one.value, one.line):
        if item.role != one.role:
            read_item = _READERS.get(item.role)
            if item.role.startswith("package "):
                _package(into, item.role.partition(" ")[2], item)
            elif read_item:
                read_item(into, item)


def _platform(into: BlockReader, one: KeyValue) -> None:
    text = one.value if system(one.value) else f"{one.key} {one.value}"  # ubuntu: 16.04
    into.system(text)
    if glibc := wording.glibc(text):
        into.texts.setdefault("glibc", glibc)
    into.claim("os", wording.os(text), f"{one.key}: {one.value}")
    if "os" not in {claim.axis for claim in into.claims} and (family := wording.family(text)):
        into.claim("os", family, f"{one.key}: {one.value}", Rank.BUILT)
    if re.search(r"(?:cuda|python|cudnn|gcc|torch|paddle)", one.value, re.IGNORECASE):
        _more(into, one)


def _glibc(into: BlockReader, one: KeyValue) -> None:
    if version := wording.glibc(one.value) or next(iter(re.findall(r"\d+\.\d+", one.value)), ""):
        into.texts.setdefault("glibc", version)


def _gpu(into: BlockReader, one: KeyValue) -> None:
    first = next((item for item in items(one.value, one.line) if not item.role.startswith("package")), None)
    bare = one.value.partition(first.key)[0] if first else one.value
    bare = re.sub(r"[,，;；]?\s*(?:nvidia )?driver.*", "", bare, flags=re.IGNORECASE)
    listed = re.findall(r"['\"]([^'\"]+)['\"]", bare) or bare.split("\n")[:64]
    count = len(re.findall(r"\d+", one.key)) or 1  # GPU 0,1: the same model twice
    if times := re.search(r"\s?[*x×]\s?(\d{1,2})$", bare.strip()):
        listed, count = [bare.strip()[: times.start()]], int(times[1])
    for text in [text for text in listed for _ in range(min(count, 16))]:
        text = re.sub(r"^GPU \d+[:：]\s*", "", text).strip(" ,，、")
        if _GPU_NAME.search(text) and "==" not in text:
            into.gpus.append(text)
    _more(into, one)


def _driver(into: BlockReader, one: KeyValue) -> None:
    if found := re.search(r"\d{3}(?:\.\d+)+", one.value):
        into.texts.setdefault("driver", found[0])


def _driver_cuda(into: BlockReader, one: KeyValue) -> None:
    """The highest version that the driver supports: never the axis."""
    _driver(into, one)
    if found := re.search(r"(?:cuda\D{0,20})?(?<![\d.])(\d{1,2}\.\d)(?![\d.])", one.value, re.IGNORECASE):
        into.texts.setdefault("driver_cuda", found[1])


def _built(into: BlockReader, one: KeyValue) -> None:
    if re.fullmatch(r"none|n/a|not compiled.*|cpu", one.value.strip(), re.IGNORECASE):
        if not re.fullmatch(r"n/a", one.value.strip(), re.IGNORECASE):
            into.claim("cuda", versions.NONE, f"{one.key}: {one.value}", Rank.BUILT)
        return
    into.claim("cuda", wording.cuda(one.value), f"{one.key}: {one.value}", Rank.BUILT)


def _cuda_compiler(into: BlockReader, one: KeyValue) -> None:
    """detectron2: the output of nvcc, or the CUDA with which its extension was built."""
    asked = re.search(r"release|Build cuda_", one.value)
    into.claim("cuda", wording.cuda(one.value), f"{one.key}: {one.value}", into.rank if asked else Rank.BUILT)


def _compiled(into: BlockReader, one: KeyValue) -> None:
    if one.value.strip().lower() == "true":
        into.texts.setdefault("compiled", "gpu")
    elif one.value.strip().lower() == "false":
        into.claim("cuda", versions.NONE, f"{one.key}: {one.value}", Rank.BUILT)


def _home(into: BlockReader, one: KeyValue) -> None:
    """The version in a folder's name is only stated, not measured."""
    if found := re.search(rf"cuda[-/]v?({wording.VERSION})", one.value, re.IGNORECASE):
        into.claim("cuda", found[1], f"{one.key}: {one.value}", Rank.STATED)


def _composite(into: BlockReader, one: KeyValue) -> None:
    before = len(into.claims)
    _more(into, one)
    if len(into.claims) > before:
        return
    parts = [part.strip() for part in re.split(r"[/,，、&;；]|\s+and\s+|\s+", one.value) if part.strip()]
    for axis, text in zip(("cuda", "cudnn"), parts, strict=False):
        into.claim(axis, READERS[axis](text), f"{one.key}: {one.value}")


def _details(into: BlockReader, one: KeyValue) -> None:
    """``PyTorch compiling details`` of OpenMMLab, and ``PyTorch built with`` of detectron2."""
    for axis, pattern in (("cuda", r"CUDA Runtime (\d+\.\d+)"), ("cudnn", r"CuDNN (\d+(?:\.\d+)+)")):
        if found := re.search(pattern, one.value):
            into.claim(axis, found[1], f"{one.key}: {found[0]}", Rank.BUILT)


def _package(into: BlockReader, name: str, one: KeyValue) -> None:
    if name == "paddlepaddle" and re.match(r"v?[\d.]+-gpu\b", one.value):
        name = "paddlepaddle-gpu"
    called = "|".join(map(re.escape, (one.key, name)))
    whole = re.fullmatch(r"v?(\d{1,2})", one.value.strip()) if name in TOOLS else None  # Java: 17
    found = (
        whole
        or _RELEASE.match(one.value.strip())
        or re.match(
            rf"(?:{called}|{_KIND})?[ =:(（-]{{1,3}}v?(\d+\.(?:[A-Za-z0-9.+]|_(?=\d))*)", one.value, re.IGNORECASE
        )
    )
    if found:
        into.package(name, found[1], f"{one.key}: {one.value}")
    else:
        _more(into, one)


def _virtual(into: BlockReader, one: KeyValue) -> None:
    """``conda info``: ``__cuda`` is the highest version that the driver supports."""
    for name, key in (("cuda", "driver_cuda"), ("glibc", "glibc")):
        if found := re.search(rf"__{name}=(\d+\.\d+)", one.value):
            into.texts.setdefault(key, found[1])


def _variants(into: BlockReader) -> None:
    """PaddlePaddle's GPU build is a separate package."""
    compiled = into.texts.pop("compiled", "")
    release = into.packages.get("paddlepaddle", "")
    if release and (compiled == "gpu" or ".post" in release):
        into.packages = {
            "paddlepaddle-gpu" if name == "paddlepaddle" else name: version for name, version in into.packages.items()
        }
        into.built("paddlepaddle-gpu", release, f"PaddlePaddle {release}")


_READERS: Mapping[str, Callable[[BlockReader, KeyValue], None]] = {
    **{axis: _axis for axis in READERS if axis in _PLAUSIBLE and axis != "os"},
    "platform": _platform,
    "glibc": _glibc,
    "gpu": _gpu,
    "driver": _driver,
    "driver cuda": _driver_cuda,
    "built": _built,
    "compiled": _compiled,
    "home": _home,
    "cuda compiler": _cuda_compiler,
    "cuda+cudnn": _composite,
    "details": _details,
    "virtual": _virtual,
    "several": _more,
}
