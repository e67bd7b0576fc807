"""The environments that a report describes: outputs of programs, lists of packages, `reprokit collect`, forms. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from reprokit.environment import versions, wording
from reprokit.environment.axes import BY_NAME, READERS
from reprokit.environment.frameworks import GPU_PACKAGES
from reprokit.intake import environment_forms
from reprokit.intake.environment_forms import PACKAGES, BlockReader, role
from reprokit.intake.environment_model import EnvironmentBlock, Rank
from reprokit.intake.pieces import ReportLine, split_lines, table

MOST = 64
"""Most blocks of one sort: what comes behind them is not read."""
_Lines = Sequence[ReportLine]


def find_blocks(text: str) -> list[EnvironmentBlock]:
    """Every environment block in a text (a whole report, or part of one), in the order of the text."""
    alias = {short: name for name, short in re.findall(r"\bimport (\w+) as (\w+)", text)}
    text = re.sub(r"\b\w+(?=\.__version__\b)", lambda one: alias.get(one[0], one[0]), text)
    rest: _Lines = split_lines(text)
    found: list[EnvironmentBlock] = []
    for finder in _FINDERS:
        new = list(islice(finder(rest), MOST))
        taken = {number for one in new for number in range(one.first, one.last + 1)}
        rest = [replace(line, text="", edge=True, taken=True) if line.number in taken else line for line in rest]
        found += new
    return sorted(found, key=lambda one: (one.first, one.last))


# -- programs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A row of the table, with its patterns compiled."""

    kind: str
    starts: re.Pattern[str]
    goes_on: re.Pattern[str]
    blanks: int
    facts: Mapping[str, re.Pattern[str]]
    values: Mapping[str, re.Pattern[str]]

    def read(self, text: str, into: BlockReader) -> dict[str, str]:
        """Add the facts of its output, and give its values."""
        key = next(iter(self.values), self.kind)
        for what, pattern in self.facts.items():
            for found in pattern.finditer(text):
                _add_fact(what, found, into, key)
                if what not in ("package", "gpu"):
                    break
        if "system" in into.texts:
            into.system(text)
        values: dict[str, str] = {}
        for key, pattern in self.values.items():
            shown = ["".join(part for part in hit.groups() if part) or hit[0] for hit in pattern.finditer(text)]
            values |= {key: ", ".join(shown).strip()} if shown else {}
        gpus = {"GPU": ", ".join(into.gpus)} if into.gpus else {}
        return (values if into.claims or into.texts else {}) | gpus | into.packages


def _add_fact(what: str, found: re.Match[str], into: BlockReader, key: str) -> None:
    name, _, more = what.partition(" ")
    groups = found.groupdict()
    version = ".".join(group for group in found.groups() if group) or found[0]
    text = found.string
    start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.start())
    quote = f"{key}: {text[start : end if end >= 0 else None].strip()}"
    if more == "if":
        into.texts.setdefault("system", name)
    elif name == "package":
        known = role(groups["name"].lower())
        package = known.removeprefix("package ") if known.startswith("package ") else groups["name"]
        into.package(package, groups["version"], quote)
    elif name == "gpu":
        into.gpus.append(groups["name"] + (f" ({groups['memory']} MiB)" if groups.get("memory") else ""))
    elif name == "os":
        release = wording.packaged(found[0]) if more else ""
        into.claim("os", release or wording.os(found[0].replace("\n", " ")), quote, Rank.BUILT if more else None)
    elif name in ("driver", "driver_cuda"):
        into.texts.setdefault(name, version)
    else:
        into.claim(name, version, quote, Rank[more.upper()] if more else None)


def _compile_program(row: Mapping[str, object]) -> Program:
    try:
        facts, values = (
            {key: re.compile(pattern, re.MULTILINE) for key, pattern in dict(row.get(name, {})).items()}  # type: ignore[call-overload]
            for name in ("facts", "values")
        )
        starts, goes_on = re.compile(str(row["starts"])), re.compile(str(row.get("goes_on", "(?!)")))
        return Program(str(row["kind"]), starts, goes_on, int(str(row.get("blanks", 0))), facts, values)
    except (re.error, KeyError, ValueError) as error:
        where = f"data/environments.yaml, programs, {row.get('kind', 'a row without kind')}"
        raise ValueError(f"{where}: {type(error).__name__}: {error}") from error


PROGRAMS = tuple(_compile_program(row) for row in table()["programs"])
_STARTS = re.compile("|".join(f"(?:{program.starts.pattern})" for program in PROGRAMS))


def _outputs(lines: _Lines) -> Iterator[EnvironmentBlock]:
    """Every output of a known program in the lines, in order."""
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        # Items and headings are written by people.
        if line.blank or line.item or line.heading or not _STARTS.match(line.text):
            continue
        program = next(one for one in PROGRAMS if one.starts.match(line.text))
        end = _end_of_output(program, lines, at - 1)
        taken = lines[at - 1 : end]
        into = BlockReader(Rank.MEASURED)
        if values := program.read("\n".join(one.text or one.raw.strip() for one in taken), into):
            yield into.block(program.kind, taken[0].number, taken[-1].number, values)
        at = end


def _end_of_output(program: Program, lines: _Lines, start: int) -> int:
    end, blanks = start + 1, 0
    for at in range(start + 1, len(lines)):
        line = lines[at]
        if line.edge or (line.blank and blanks >= program.blanks):
            break
        if line.blank:
            blanks += 1
        elif program.goes_on.match(line.text):
            end, blanks = at + 1, 0
        else:
            break
    return end


# -- lists of packages: pip list, pip freeze, requirements.txt, conda list ---------------------------------------------

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,80}[A-Za-z0-9])?"
_PINNED = re.compile(rf"({_NAME})(?:\[[\w, -]{{0,80}}\])?===?([\w.!+*-]{{1,60}})(?:\s*;.*|\s+#.*|\s+--hash.*|\s*\\)?$")
_SOURCE = re.compile(rf"(?:-e\s+\S+#egg=({_NAME})\S*|({_NAME})\s+@\s+\S+|-e\s+\S+)$")
_ASKED = re.compile(
    rf"({_NAME})(?:\[[\w, -]{{0,80}}\])?\s*(?:(?:[<>]=?|[=!~]==?)\s*[\w.*+!-]{{1,40}}\s*,?\s*){{0,4}}"
    r"(?:\s*;.*|\s+#.*)?$"
)
_LIST_HEAD = re.compile(r"Package\s+Version(?:\s+\S.*)?$")
_LIST_ROW = re.compile(rf"({_NAME})\s+(\d[\w.!+*-]{{0,60}})(?:\s+\S.*)?$|-{{3,}}[ -]*$")
_CONDA_HEAD = re.compile(r"# packages in environment at|#?\s*Name\s+Version\s+Build")
_CONDA_ROW = re.compile(r"([A-Za-z0-9_][\w.-]{0,80})\s+(\d\S{0,60})\s+(\w[\w.+-]{0,80})(?:\s+(\S{1,120}))?$")
_CONDA_BUILD = re.compile(r"(?:\w*_)?\d+$|\w*h[0-9a-f]{7}_\w+$|py")
_CONDA_PYTHON = re.compile(r"(?:^|_|cuda\d+|cpu)py(?:\d|h|_|$)|pyhd|pypi")
_CONDA_TO_PIP = {"pytorch": "torch", "py-opencv": "opencv-python", "opencv": "opencv-python"}
_CONDA_AXES = {
    **dict.fromkeys(
        ("cudatoolkit", "pytorch-cuda", "cuda-version", "cuda-runtime", "cuda-cudart"), ("cuda", Rank.BUILT)
    ),
    **dict.fromkeys(("cuda-nvcc", "cuda-toolkit", "cudatoolkit-dev", "cuda"), ("cuda", Rank.STATED)),
    **dict.fromkeys(("gcc", "gcc_linux-64", "gcc_impl_linux-64"), ("gcc", Rank.STATED)),
    "cudnn": ("cudnn", Rank.BUILT),
    "python": ("python", Rank.MEASURED),
}
_LEAST = 3
"""Fewest lines of a list without a heading."""


def _lists(lines: _Lines) -> Iterator[EnvironmentBlock]:
    """Every list of packages in the lines, in order."""
    at = 0
    while at < len(lines):
        ends = [at + 1]
        for read_list in (_pip_list, _conda_list, _freeze):
            rows, found = read_list(lines, at)
            ends.append(at + max(len(rows), 1))
            if found and (found.packages or found.claims):
                ends = [next(place for place in range(at, len(lines)) if lines[place].number == rows[-1].number) + 1]
                yield found
                break
        at = max(ends)


def _rows_from(lines: _Lines, start: int, fits: Callable[[ReportLine], bool]) -> list[ReportLine]:
    """The lines from ``start`` on that fit, up to the end of their fenced block."""
    taken: list[ReportLine] = []
    for line in (lines[place] for place in range(start, len(lines))):
        if line.edge or line.blank or line.fence != lines[start].fence or not fits(line):
            break
        taken.append(line)
    return taken


_Found = tuple[Sequence[ReportLine], "EnvironmentBlock | None"]
"""The rows that were looked at, and the block that they are."""


def _pip_list(lines: _Lines, at: int) -> _Found:
    if not _LIST_HEAD.match(lines[at].text):
        return [], None
    rows = _rows_from(lines, at + 1, lambda line: bool(_LIST_ROW.match(line.text)))
    into = BlockReader(Rank.MEASURED)
    for line in rows:
        if (row := _LIST_ROW.match(line.text)) and row[1]:
            into.package(row[1], row[2], f"pip list: {row[1]} {row[2]}")
    return rows, into.block("pip", lines[at].number, rows[-1].number, {}) if rows else None


def _freeze(lines: _Lines, at: int) -> _Found:
    """The lines of ``pip freeze`` or of a file of requirements: most of them have a version."""
    if lines[at].edge or not _is_requirement(lines[at]) or lines[at].text.startswith("#"):
        return [], None
    rows = _rows_from(lines, at, _is_requirement)
    into = BlockReader(Rank.MEASURED)
    kept, bounded = [], 0
    for line in rows:
        if pinned := _PINNED.match(line.text):
            into.package(pinned[1], pinned[2], f"pip: {pinned[1]}=={pinned[2]}")
        elif not line.text.startswith("#"):
            kept.append(line.text)
            bounded += bool(_SOURCE.match(line.text) or re.search(r"[<>=~]", line.text))
    counts = not any("." in version for version in into.packages.values()) and not kept
    counts = counts or bool({"python", "cuda", "cudnn", "gcc"} & set(into.packages))
    if len(rows) < _LEAST or counts or (len(into.packages) + bounded) * 2 < len(rows):
        return rows, None
    asked = any(not _SOURCE.match(text) for text in kept)
    # Packages of pip freeze are installed; a requirements file, and packages from elsewhere, are kept as written.
    texts = [line.text for line in rows if not line.text.startswith("#")] if asked else kept
    block = into.block("requirements" if asked else "pip", lines[at].number, rows[-1].number, {})
    return rows, replace(block, requirements=tuple(texts))


def _is_requirement(line: ReportLine) -> bool:
    return line.text.startswith("# ") or any(one.match(line.text) for one in (_PINNED, _SOURCE, _ASKED))


def _conda_list(lines: _Lines, at: int) -> _Found:
    headed = bool(_CONDA_HEAD.match(lines[at].raw.strip()))
    row = _CONDA_ROW.match(lines[at].text)
    if not headed and not (row and _CONDA_BUILD.match(row[3])):
        return [], None
    rows = _rows_from(
        lines, at, lambda line: line.raw.strip().startswith(("#", "──")) or bool(_CONDA_ROW.match(line.text))
    )
    into = BlockReader(Rank.MEASURED)
    listed = 0
    for line in rows:
        if (row := _CONDA_ROW.match(line.text)) and not line.raw.strip().startswith("#"):
            listed += 1
            _add_conda(into, row[1], row[2], row[3], row[4] or "")
    whole = rows and (headed or listed > _LEAST)
    return rows, into.block("conda", lines[at].number, rows[-1].number, {}) if whole else None


def _add_conda(into: BlockReader, name: str, version: str, build: str, channel: str = "") -> None:
    """Read a conda package: a toolkit, a compiler, an interpreter, or a Python package."""
    quote = " ".join(("conda:", name, version, build)).strip()
    if name in _CONDA_AXES:
        axis, rank = _CONDA_AXES[name]
        into.claim(axis, version, quote, rank)
    elif name.startswith(("lib", "mkl")) or name.endswith("-base"):
        return  # Anaconda's own builds, which nothing from Python's index loads
    elif name in _CONDA_TO_PIP or name in PACKAGES or "pypi" in (channel, build) or _CONDA_PYTHON.search(build):
        into.package(_CONDA_TO_PIP.get(name, name), version, quote)
        if found := re.search(r"cuda(\d+\.\d+)[\d.]*(?:_cudnn(\d+(?:\.\d+)*))?", build):
            into.claim("cuda", found[1], quote, Rank.BUILT)
            into.claim("cudnn", found[2] or "", quote, Rank.BUILT)


# -- the output of `reprokit collect`: every line of it is kept --------------------------------------------------------

_COLLECT = "collect"
_HEAD = re.compile(r"reprokit collect (?P<format>\d{1,3})(?:: packages of (?P<of>Python|conda)\b.*)?$")
_ENDED = re.compile(
    r"The command (?P<how>ended with exit status: .{1,80}?|hangs: .{1,60}?|succeeded|was interrupted)\.(?: The |$)"
)
_FACT = re.compile(r"(?P<key>[A-Za-z+][^:]{0,80}): (?P<value>\S.*)$")
_COLLECTED = re.compile(r"(?P<name>[\w.-]{1,100})==(?P<version>[\w.!+-]{1,60})(?:  # from (?P<origin>\S.*))?$")
_CONDA = re.compile(r"(?P<name>[\w.-]{1,100})=(?P<version>[^=\s]{1,60})=(?P<build>\S{1,80})$")
_AXES = {
    "Python": ("python", Rank.MEASURED),
    "Python of the command": ("python", Rank.MEASURED),
    "GCC": ("gcc", Rank.MEASURED),
    "NVCC": ("cuda", Rank.MEASURED),
    "CUDA toolkit": ("cuda", Rank.STATED),
    "CUDA runtime": ("cuda", Rank.BUILT),
    "cuDNN": ("cudnn", Rank.MEASURED),
    "OS": ("os", Rank.MEASURED),
}
"""Keys whose values are versions of axes."""
_TEXTS = {"Driver": "driver", "Driver supports CUDA": "driver_cuda"}
_OF_THE_MACHINE = re.compile(r"LANG|LC_\w+|TZ|\w*(?:_VERSION|VISIBLE_DEVICES)|WORLD_SIZE|MASTER_PORT|CC|CXX|NVIDIA_\w+")
"""Variables that describe the machine, and would be wrong in a container."""
_USE_GPUS = frozenset(GPU_PACKAGES) | {
    *("vllm", "triton", "xformers", "flash-attn", "deepspeed", "bitsandbytes", "tensorrt", "cupy", "torchvision"),
    *("torchaudio", "keras", "mmcv", "mmengine", "onnxruntime-gpu", "apex", "detectron2", "transformers", "accelerate"),
}
"""Packages that compute on GPUs."""


def without_unused_gpus(block: EnvironmentBlock, texts: Sequence[str], requirements: Sequence[str]) -> EnvironmentBlock:
    """An environment without the CUDA and GPUs of its machine where nothing of the failure uses them.

    `reprokit collect` lists all that a machine has. ``texts``: of the failure; ``requirements``: of the case.
    """
    frameworks = any(re.split(r"[^\w-]", text)[0].lower() in _USE_GPUS for text in requirements)
    cuda = BY_NAME["cuda"].wording.mentioned
    left = [f"{axis} {version}" for axis, version in block.axes.items() if axis in ("cuda", "cudnn")]
    left += dict.fromkeys(block.gpus)
    uses = frameworks or any(cuda.search(text) for text in (*texts, *requirements))
    if block.kind != _COLLECT or uses or not left:
        return block
    claims = tuple(one for one in block.claims if one.axis not in ("cuda", "cudnn"))
    remark = f"{', '.join(left)}: in that machine, and nothing in the report uses it, so the case does not ask for it"
    return replace(block, claims=claims, gpus=(), driver_cuda="", remarks=(*block.remarks, remark))


def _collected(lines: _Lines) -> Iterator[EnvironmentBlock]:
    """Every block of the program in the lines, in order."""
    at = 0
    while at < len(lines):
        head, ended = _HEAD.match(lines[at].text), _ENDED.match(lines[at].text)
        if ended:
            number = lines[at].number
            yield EnvironmentBlock(kind=_COLLECT, first=number, last=number, values={"The command": ended["how"]})
        if head is None:
            at += 1
            continue
        end = at + 1
        while end < len(lines) and not (lines[end].blank or lines[end].edge):
            end += 1
        into = BlockReader(Rank.MEASURED)
        read = {"": _collected_facts, "Python": _collected_packages, "conda": _collected_conda}[head["of"] or ""]
        values, env = read([re.sub(r"^[\s>]*", "", line.raw).rstrip() for line in lines[at + 1 : end]], into)
        yield replace(into.block(_COLLECT, lines[at].number, lines[end - 1].number, values), env=env)
        at = end


_Values = tuple[dict[str, str], dict[str, str]]
"""The values of a block, and the variables in it."""


def _collected_facts(lines: Sequence[str], into: BlockReader) -> _Values:
    values: dict[str, str] = {}
    env: dict[str, str] = {}
    for found in filter(None, map(_FACT.match, lines)):
        key, value = found["key"], found["value"].strip()
        variable = key.removeprefix("env ")
        if variable != key and not (_OF_THE_MACHINE.fullmatch(variable) or re.search(r"[/~\\<]", value)):
            env[variable] = "" if value == '""' else value
        values[key] = value
        # The packages and the version are those of the Python in which the command runs.
        if not (key == "Python" and "Python of the command" in values):
            _add_collected(key, value, into)
    return values, env


def _add_collected(key: str, value: str, into: BlockReader) -> None:
    quote = f"{key}: {value}"
    if key in _AXES:
        axis, rank = _AXES[key]
        into.claim(axis, READERS[axis](value), quote, rank)
    if key in ("OS", "Kernel", "Architecture"):
        into.system(value)
    elif key in _TEXTS:
        into.texts[_TEXTS[key]] = value
    elif key.startswith("GPU "):
        into.gpus.append(value.partition(", sm_")[0])
    elif key.endswith(" build") and (built := re.search(r", (?:CUDA (\d[\d.]*)|no CUDA)", value)):
        into.claim("cuda", built[1] or versions.NONE, quote, Rank.BUILT)
        if dnn := re.search(r", cuDNN (\d[\d.]*)", value):
            into.claim("cudnn", dnn[1], quote, Rank.BUILT)


def _collected_packages(lines: Sequence[str], into: BlockReader) -> _Values:
    listed = []
    for found in filter(None, map(_COLLECTED.match, lines)):
        into.package(found["name"], found["version"], f"{found['name']}=={found['version']}")
        listed.append(f"{found['name']}=={found['version']}" + (f" ({found['origin']})" if found["origin"] else ""))
    return {"packages": ", ".join(listed)} if listed else {}, {}


def _collected_conda(lines: Sequence[str], into: BlockReader) -> _Values:
    rows = [found for found in map(_CONDA.match, lines) if found]
    for found in rows:
        if found["name"] in ("cudatoolkit", "cuda-version", "cudnn"):
            axis = "cudnn" if found["name"] == "cudnn" else "cuda"
            into.claim(axis, found["version"], f"conda: {found[0]}", Rank.BUILT)
    return {"conda packages": ", ".join(found[0] for found in rows)} if rows else {}, {}


_FINDERS: Sequence[Callable[[_Lines], Iterable[EnvironmentBlock]]] = (
    _collected,
    _outputs,
    _lists,
    environment_forms.find,
)
"""From the most to the least specific: a line that one has read is not read by the next ones."""
