"""The output of single programs: nvidia-smi, nvcc, gcc, python, ldd, uname, os-release, PaddlePaddle's log. Pure.

The values have the keys that environment blocks use for the same thing (``NVCC``, ``GCC``, ``Python``, ``OS``), so
that readers of ``report.environments`` treat them alike. The highest version that a driver supports is never ``CUDA``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from reprokit.environment import wording
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank
from reprokit.intake.environments.pairs import role
from reprokit.intake.environments.reading import BlockReader

_GPU_ROW = re.compile(
    r"\|\s{1,6}\d{1,3}\s{1,4}(\S.{0,40}?)\s{1,30}(On|Off|N/A|WDDM|TCC|ERR!)\s{0,10}\|\s*[0-9A-Fa-f]{4,8}:"
)
_GPU_LISTED = re.compile(r"GPU \d{1,3}: (.{1,80}?) \(UUID: ")
_MEMORY = re.compile(r"/\s{0,8}(\d{1,7})\s?MiB\s*\|")


@dataclass(frozen=True)
class _Tool:
    """A program: how its output begins (``starts``), how its other lines look (``goes_on``), and what reads them."""

    kind: str
    starts: re.Pattern[str]
    goes_on: re.Pattern[str]
    read: Callable[[Sequence[ReportLine], BlockReader], dict[str, str]]
    blanks: int = 0


def find(lines: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    """Every output of a known program in the lines, in order."""
    at = 0
    while at < len(lines):
        tool = next((one for one in _TOOLS if _may_be_output(lines[at]) and one.starts.match(lines[at].text)), None)
        if tool is None:
            at += 1
            continue
        end = _end(tool, lines, at)
        taken = lines[at:end]
        into = BlockReader(Rank.MEASURED)
        if values := tool.read(taken, into):
            yield into.found(tool.kind, taken[0].number, taken[-1].number, values)
        at = end


def _may_be_output(line: ReportLine) -> bool:
    """Whether a line may be the output of a program: items and headings are written by people."""
    return not line.blank and not line.item and not line.heading


def _end(tool: _Tool, lines: Sequence[ReportLine], start: int) -> int:
    end, blanks = start + 1, 0
    for at in range(start + 1, len(lines)):
        line = lines[at]
        if line.edge or (line.blank and blanks >= tool.blanks):
            break
        if line.blank:
            blanks += 1
        elif tool.goes_on.match(line.text):
            end, blanks = at + 1, 0
        else:
            break
    return end


def _smi(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    text = "\n".join(line.text for line in lines)
    for key, pattern in (
        ("driver", r"Driver Version\s{0,20}: ?(\d+(?:\.\d+)+)"),
        ("driver_cuda", r"CUDA Version\s{0,20}: ?(\d+\.\d+)"),
    ):
        if found := re.search(pattern, text):
            into.texts[key] = found[1]
    for line in lines:
        if row := _GPU_ROW.match(line.raw.strip()):
            into.gpus.append(row[1])
            if row[2] in ("WDDM", "TCC"):
                into.texts["system"] = "windows"
        elif listed := _GPU_LISTED.match(line.text):
            into.gpus.append(listed[1])
        elif (memory := _MEMORY.search(line.raw)) and into.gpus and "(" not in into.gpus[-1]:
            into.gpus[-1] += f" ({memory[1]} MiB)"
    shown = [f"Driver Version: {into.texts['driver']}"] if "driver" in into.texts else []
    shown += [f"CUDA Version: {into.texts['driver_cuda']}"] if "driver_cuda" in into.texts else []
    values = {"nvidia-smi": ", ".join(shown)} if shown else {}
    return values | ({"GPU": ", ".join(into.gpus)} if into.gpus else {})


def _nvcc(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    text = next((line.text for line in lines if "release" in line.text), lines[-1].text)
    into.claim("cuda", wording.cuda(text), f"NVCC: {text}")
    return {"NVCC": text} if into.claims else {}


def _gcc(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    text = lines[0].text
    into.claim("gcc", wording.gcc(text.removeprefix("gcc version ")), text)
    into.claim("os", wording.packaged(text), text, Rank.BUILT)
    return {"GCC": text} if into.claims else {}


def _python(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    text = lines[0].text
    into.claim("python", wording.python(text), text)
    platform = next((line.text.rpartition(" on ")[2] for line in lines[1:] if " on " in line.text), "")
    into.system({"linux": "Linux", "win32": "Windows", "darwin": "macOS"}.get(platform.strip(), ""))
    return {"Python": text.removeprefix("Python ")}


def _release(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    fields = dict(
        re.findall(r"^([A-Za-z_ ]{2,20})(?:=|:\s*)\"?([^\"\n]*)", "\n".join(line.text for line in lines), re.MULTILINE)
    )
    text = fields.get("PRETTY_NAME") or fields.get("DISTRIB_DESCRIPTION") or fields.get("Description")
    text = text or " ".join(
        filter(
            None,
            (fields.get("NAME") or fields.get("Distributor ID"), fields.get("VERSION_ID") or fields.get("Release")),
        )
    )
    text = text or lines[0].text.replace("\\n", "").replace("\\l", "")
    if "Raspbian" in text:
        into.remarks.append("the system is Raspberry Pi OS")
    into.system(f"Linux {text}")
    into.claim("os", wording.os(text), f"OS: {text}")
    return {"OS": text.strip()}


def _uname(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    """The name of the host is left out: a scrubber could not recognise it."""
    into.system(lines[0].text)
    name, _, *rest = lines[0].text.split(" ")
    return {"uname": " ".join((name, *rest))}


def _ldd(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    into.system("Linux")
    into.texts["glibc"] = lines[0].text.rpartition(" ")[2]
    into.claim("os", wording.packaged(lines[0].text), lines[0].text, Rank.BUILT)
    return {"glibc": lines[0].text}


def _toolkit(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    version = re.findall(wording.VERSION, lines[0].text)[0]
    into.claim("cuda", version, lines[0].text)
    return {"CUDA": version} if into.claims else {}


def _cudnn(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    numbers = dict(re.findall(r"define CUDNN_(\w+)\s+(\d+)", "\n".join(line.text for line in lines)))
    parts = [numbers[name] for name in ("MAJOR", "MINOR", "PATCHLEVEL") if name in numbers]
    into.claim("cudnn", ".".join(parts), "cudnn.h: " + ".".join(parts))
    return {"cudnn": ".".join(parts)} if into.claims else {}


def _paddle_log(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    """The runtime version is the one that PaddlePaddle was built for; the cuDNN is the one that it loaded."""
    values = {}
    for line in lines:
        if found := re.search(r"Driver API Version: (\d+\.\d+), Runtime API Version: (\d+\.\d+)", line.text):
            into.texts["driver_cuda"] = found[1]
            into.claim("cuda", found[2], f"Runtime API Version: {found[2]}", Rank.BUILT)
            values["Runtime API Version"] = found[2]
        if found := re.search(r"cuDNN Version: (\d+\.\d+)", line.text):
            into.claim("cudnn", found[1], f"cuDNN Version: {found[1]}")
            values["cudnn"] = found[1]
    return values


def _show(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    fields = dict(line.text.split(": ", 1) for line in lines if ": " in line.text)
    if "Name" in fields and "Version" in fields:
        into.package(fields["Name"], fields["Version"], f"pip show {fields['Name']}: {fields['Version']}")
    return {fields["Name"]: fields["Version"]} if into.packages else {}


def _printed(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    """``>>> numpy.__version__`` and what it printed."""
    name = re.findall(r"(\w+)\.__version__", lines[0].text)[0]
    version = re.search(r"\d+\.\d[\w.+]*", lines[-1].text) if len(lines) > 1 else None
    called = role({"np": "numpy", "pd": "pandas", "tf": "tensorflow"}.get(name, name))
    if version and called.startswith("package "):
        into.package(called.removeprefix("package "), version[0], f"{name}.__version__: {version[0]}")
    return dict(into.packages)


def _scipy(lines: Sequence[ReportLine], into: BlockReader) -> dict[str, str]:
    """What SciPy's issue form asks for: ``scipy.__version__, numpy.__version__, sys.version_info``."""
    text = lines[0].text
    found = re.findall(r"\d+(?:\.\w+)+|(?<==)\d+", text)
    into.package("scipy", found[0], text)
    into.package("numpy", found[1], text)
    into.claim("python", ".".join(found[2:5]), text)
    return {"versions": text}


_SMI = r"[|+]|NVIDIA-SMI|Driver Version|CUDA Version|Attached GPUs|\w{3} \w{3} +\d+ [\d:]{8} \d{4}$"
_NEVER = re.compile(r"(?!)")
_TOOLS = (
    _Tool(
        "nvidia-smi",
        re.compile(
            r"(?:\|\s*)?NVIDIA-SMI\s+\d|\|\s?GPU\s+Name\s|\|\s+\d{1,3}\s+(?:NVIDIA|Tesla|GeForce|Quadro|A\d\d) "
        ),
        re.compile(_SMI),
        _smi,
        blanks=1,
    ),
    _Tool("nvidia-smi", _GPU_LISTED, _GPU_LISTED, _smi),
    _Tool(
        "nvcc",
        re.compile(r"nvcc: NVIDIA|Cuda compilation tools, release|Build cuda_\d"),
        re.compile(r"nvcc: NVIDIA|Copyright|Built on|Cuda compilation tools|Build "),
        _nvcc,
        blanks=1,
    ),
    _Tool(
        "gcc",
        re.compile(r"(?:[\w-]{0,30}-)?(?:gcc|g\+\+|cc|c\+\+)(?:-\d+)? \([^()]{1,80}\) \d+\.\d|gcc version \d+\.\d"),
        re.compile(r"Copyright \(C\)|This is free software|warranty"),
        _gcc,
    ),
    _Tool(
        "python", re.compile(r"Python [23]\.\d+\.\d+\S{0,12}(?:$| \(| \|)"), re.compile(r"\[(?:GCC|Clang|MSC)"), _python
    ),
    _Tool(
        "os-release",
        re.compile(
            r"(?:PRETTY_NAME|NAME|DISTRIB_ID)=|No LSB modules|Distributor ID:|"
            r"(?:CentOS|Red Hat|Rocky|Fedora|AlmaLinux)[\w ]{0,30} release \d|Ubuntu [\d.]{5,8}(?: LTS)? \\n"
        ),
        re.compile(r"[A-Z_]{2,20}=|(?:Distributor ID|Description|Release|Codename):"),
        _release,
    ),
    _Tool("uname", re.compile(r"(?:Linux|Darwin) \S{1,80} \d+\.\d+\S{0,60} (?:#|Darwin)"), _NEVER, _uname),
    _Tool("ldd", re.compile(r"ldd \([^()]{1,60}\) \d+\.\d+$"), _NEVER, _ldd),
    _Tool("cuda", re.compile(r"CUDA Version \d+\.\d+\.\d+$"), _NEVER, _toolkit),
    _Tool(
        "cudnn",
        re.compile(r"#define CUDNN_(?:MAJOR|MINOR|PATCHLEVEL) "),
        re.compile(r"#define CUDNN|--|#include"),
        _cudnn,
        blanks=1,
    ),
    _Tool(
        "paddle-log",
        re.compile(r"[WI]\d{4} [\d:.]{8,15} +\d+ \w+\.cc:\d+\] (?:Please NOTE: device|device: \d+, cuDNN)"),
        re.compile(r"[WI]\d{4} [\d:.]{8,15} +\d+ \w+\.cc:\d+\] device: "),
        _paddle_log,
    ),
    _Tool(
        "version",
        re.compile(r"(?:>>> |In \[\d+\]: ?)?(?:print\()?\w{2,30}\.__version__\)?$"),
        re.compile(r"(?:Out\[\d+\]: ?)?['\"]?\d+\.\d[\w.+]*['\"]?$"),
        _printed,
    ),
    _Tool("scipy", re.compile(r"\d+\.[\w.]+ \d+\.[\w.]+ sys\.version_info\(major=\d"), _NEVER, _scipy),
    _Tool("pip show", re.compile(r"Name: [A-Za-z][\w.-]{0,60}$"), re.compile(r"[A-Z][A-Za-z-]{1,20}:"), _show),
)
