"""Lines of ``key: value`` and of ``name version``: which keys describe an environment, and which part of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from reprokit.environment.axes import AXES, BY_NAME, READERS
from reprokit.intake.environments.lines import LONGEST, ReportLine
from reprokit.intake.table import table

_WORDS = table()
_INSTALLED = table("packages")
PACKAGES = frozenset([*_WORDS["packages"], *(name for row in _INSTALLED.values() for name in row["pip"])])
"""Names of Python packages, among others."""

ROLES: dict[str, str] = {name: role for role, names in _WORDS["roles"].items() for name in names}
ROLES |= {name: axis.name for axis in AXES if axis.name != "os" for name in axis.wording.keys}
ROLES |= {name: "platform" for name in BY_NAME["os"].wording.keys if name not in ROLES}
ROLES |= {module.lower(): f"package {row['pip'][0]}" for module, row in _INSTALLED.items()}
ROLES |= {name: f"package {name}" for name in PACKAGES}
ROLES |= {name: f"package {name.replace(' ', '-')}" for name in _WORDS["tools"] if name not in ROLES}
ROLES |= {name: f"package {package}" for name, package in _WORDS["called"].items()}

_PAIR = re.compile(r"([^:：=]{1,90}?)\s*(?:[:：]|={1,2}>?|-{1,2}\s?>|\s\.{4,}\s)\s*(.*)")
_BRACKETED = re.compile(r"([^:：=\[\]]{2,60}?)\s?\[\s?([^\[\]\n]{1,200}?)\s?\]$")
"""A key whose form has brackets for the value: ``GCC Version [gcc (GCC) 8.2.0]``."""
_COLUMNS = re.compile(r"(\S{1,40}(?: \S{1,60}){0,5})(?: {2,}|\t+)(\S.*)")
_SUFFIX = re.compile(
    r"[\s_]*(?:['’]s )?(?:\.(?:__)?version(?:__)?|versions?(?: used| or commit(?: id)?)?"
    r"|版本号?|信息|型号|info|information)$"
)
_ASIDE = re.compile(
    r"[(（][^()（）]{0,200}[)）]|\[ ?(?:e\.g|optional|如|例如)[^\[\]]{0,200}\]|"
    r"(?:请|例如|比如|如|e\.g\.?)(?=[^:：]{0,80}$).{0,80}$|(?<=\w)，如.{0,80}$"
)
"""Text of a form rather than of the reporter: ``(e.g., 1.0)``, ``如 Windows``."""
_ASKS = re.compile(r"(?<=[a-z0-9]) +(?:--version|-v)$")
"""The option that asks a program for its version: ``gcc --version``."""
_DRIVER = re.compile(r"driver|驱动|nvidia-smi|supported|最高支持")
_COMPILED = re.compile(r"\[(?:GCC|Clang|MSC)\b[^\]]{0,80}\]")
"""What compiled Python, rather than a compiler of the environment."""
_ASKED = re.compile(r"\[? ?(?:e\.g\.?|请您?(?:提供|描述|注明|填写))", re.IGNORECASE)
"""A value that is still the form's own text."""
_LOCATED = re.compile(r"v?\d[\w.+-]{0,40} \([^()\n]{0,300}[/\\](?:site|dist)-packages[/\\](\w{1,60})\)$")
"""A version with the folder of its package, whatever the key."""
_ITEM_NAMES = sorted(
    (name for name, role in ROLES.items() if role.startswith("package") or role in READERS),
    key=len,
    reverse=True,
)
_ITEM = re.compile(
    r"(?<![A-Za-z0-9_.-])(?<![A-Za-z]/)(?P<name>" + "|".join(map(re.escape, _ITEM_NAMES)) + r")"
    r"\s{0,3}(?:versions?|版本号?)?\s{0,3}(?:[:：]|={1,2}|为|是|-|is)?\s{0,3}(?P<version>v?\d+(?:\.(?a:[\w*]+))+(?:-nightly|-SNAPSHOT)?(?:\+(?a:[\w.]+))?|\d{1,2}(?![\w.]|[-,]\d))",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"(?:and )?([A-Za-z][\w.-]{1,40}?)(?: version|\s?==?|:|@|-)?\s?\(?v?(\d+(?:\.\w+){1,5}(?:\+[\w.]+)?)\)?", re.ASCII
)
_SYSTEM = re.compile(
    r"(?<![A-Za-z])(?:ubuntu|ubantu|debian|centos|windows|win|macos|mac os x?|rocky|fedora|red hat)[ -]{0,2}"
    r"(?:server |desktop |linux |release |lts )?v?\d[\w.]{0,10}",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class KeyValue:
    """A key and its value on a line. ``role``: what the key describes (``cuda``, ``package torch``; "" = not known)."""

    key: str
    value: str
    role: str
    line: int


def role(key: str) -> str:
    """What a key describes: an axis, ``platform``, ``glibc``, ``gpu``, ``package NAME``, ``known`` ... or ""."""
    key = key.replace("`", "")
    key = re.sub(r"(gpu|显卡)\s?\d+(?:,\d+)*$", r"\1", key.lower().strip())  # GPU 0, GPU 0,1: as detectron2 lists them
    bare = _SUFFIX.sub("", _ASIDE.sub("", _ASKS.sub("", key)).strip(" -–—*_?.,，、`")).strip()
    if key.endswith("git_version"):  # of a framework
        return "known"
    if bare in ROLES:
        return ROLES[bare]
    if bare == "nvidia-smi" or (_DRIVER.search(bare) and "cuda" in bare):
        return "driver cuda"
    bare = _SUFFIX.sub("", bare)
    # Bilingual keys: 系统环境/System Environment, 操作系统 | Operating System.
    parts = [_SUFFIX.sub("", part.strip()) for part in re.split(r"[/|｜]", bare)] if re.match(r"[^/\\]", bare) else []
    parts = parts if len(parts) <= 3 and "" not in parts else []
    joined = [re.sub(r"[\s_]+", mark, bare) for mark in ("-", "")]
    return next((ROLES[part] for part in (bare, *joined, *parts) if part in ROLES), "")


def pair(line: ReportLine) -> KeyValue | None:
    """The key and value of a line, even if the key is not known; None for other lines."""
    if len(line.cells) == 2:
        return KeyValue(line.cells[0], line.cells[1], role(line.cells[0]), line.number)
    found = _PAIR.match(line.text)
    bracketed = _BRACKETED.match(line.text)
    found = bracketed if bracketed and role(bracketed[1]) else found
    columns = _COLUMNS.match(line.text)
    versioned = columns and re.match(r"v?\d+\.\d", columns[2])
    if columns and (not found or not role(found[1])) and (role(columns[1]) or (versioned and not found)):
        found = columns
    if not found or not found[1].strip():
        return None
    key, value = found[1].strip(), found[2].strip()
    if not role(key) and (located := _LOCATED.match(value)):  # statsmodels prints "Installed: 0.14.4 (...)"
        key = located[1]
    return KeyValue(key, "" if _ASKED.match(value) else value, role(key), line.number)


def items(text: str, line: int) -> Iterator[KeyValue]:
    """The names with versions in a text: ``Ubuntu 20.04，Python 3.8, CUDA 11.2 / cuDNN 8.1``."""
    text = re.sub(
        r"[ \t]{3,}|(?<=([。，,；;.]))\1+", lambda hit: hit[0][:2], text
    )  # runs, in which patterns try each place
    text = text if "nvidia-smi" in text.lower() else _ASIDE.sub("", text)
    text = _COMPILED.sub("", text)
    if system := _SYSTEM.search(text):
        yield KeyValue("OS", system[0], "platform", line)
    for found in _ITEM.finditer(text):
        called = ROLES[found["name"].lower()]
        if called == "cuda" and "nvidia-smi" in text.lower():
            called = "driver cuda"
        yield KeyValue(found["name"], found["version"], called, line)


def listed(text: str, line: int) -> list[KeyValue]:
    """The items of ``torch 2.9.0, wibble 0.1.2, RTX 4090``, whatever they are called; [] for other texts."""
    parts = [part.strip(" .。") for part in re.split(r"[,，;；、|]", text[:LONGEST])]
    hits = [hit for part in parts if (hit := _LISTED.fullmatch(part))]
    if len(hits) < 3 or len(hits) * 2 < len(parts):
        return []
    return [
        KeyValue(hit[1], hit[2], role(hit[1]) or f"package {hit[1]}", line)
        for hit in hits
        if role(hit[1]).partition(" ")[0] in ("", "package")
    ]


def covered(text: str) -> float:
    """The share of the letters and digits of a text that belongs to its items."""
    bare = _ASIDE.sub("", text)
    rest = _ITEM.sub("", _SYSTEM.sub("", bare))
    total = len(re.findall(r"\w", bare))
    return 1 - len(re.findall(r"\w", rest)) / total if total else 0.0
