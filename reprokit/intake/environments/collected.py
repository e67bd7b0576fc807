"""The output of ``reprokit collect``: every line of it is kept. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from reprokit.environment import versions
from reprokit.environment.axes import BY_NAME, READERS
from reprokit.environment.frameworks import GPU_PACKAGES
from reprokit.intake.environments.forms import BlockReader
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank

KIND = "collect"
_HEAD = re.compile(r"reprokit collect (?P<format>\d{1,3})(?:: packages of (?P<of>Python|conda)\b.*)?$")
_ENDED = re.compile(
    r"The command (?P<how>ended with exit status: .{1,80}?|hangs: .{1,60}?|succeeded|was interrupted)\.(?: The |$)"
)
_FACT = re.compile(r"(?P<key>[A-Za-z+][^:]{0,80}): (?P<value>\S.*)$")
_PACKAGE = re.compile(r"(?P<name>[\w.-]{1,100})==(?P<version>[\w.!+-]{1,60})(?:  # from (?P<origin>\S.*))?$")
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


def used(found: EnvironmentBlock, texts: Sequence[str], requirements: Sequence[str]) -> EnvironmentBlock:
    """An environment without the CUDA and GPUs of its machine where nothing of the failure uses them.

    The program lists all that a machine has. ``texts``: of the failure; ``requirements``: what the case installs.
    """
    frameworks = any(re.split(r"[^\w-]", text)[0].lower() in _USE_GPUS for text in requirements)
    cuda = BY_NAME["cuda"].wording.mentioned
    if found.kind != KIND or frameworks or any(cuda.search(text) for text in (*texts, *requirements)):
        return found
    left = [f"{axis} {version}" for axis, version in found.axes.items() if axis in ("cuda", "cudnn")]
    left += dict.fromkeys(found.gpus)
    if not left:
        return found
    claims = tuple(one for one in found.claims if one.axis not in ("cuda", "cudnn"))
    remark = f"{', '.join(left)}: in that machine, and nothing in the report uses it, so the case does not ask for it"
    return replace(found, claims=claims, gpus=(), driver_cuda="", remarks=(*found.remarks, remark))


def find(lines: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    """Every block of the program in the lines, in order."""
    at = 0
    while at < len(lines):
        head, ended = _HEAD.match(lines[at].text), _ENDED.match(lines[at].text)
        if ended:
            number = lines[at].number
            yield EnvironmentBlock(kind=KIND, first=number, last=number, values={"The command": ended["how"]})
        if head is None:
            at += 1
            continue
        end = at + 1
        while end < len(lines) and not (lines[end].blank or lines[end].edge):
            end += 1
        yield _block(head["of"] or "", lines[at:end])
        at = end


def _block(of: str, lines: Sequence[ReportLine]) -> EnvironmentBlock:
    into = BlockReader(Rank.MEASURED)
    read = {"": _facts, "Python": _packages, "conda": _conda}[of]
    values, own = read([re.sub(r"^[\s>]*", "", line.raw) for line in lines[1:]], into)
    return replace(into.found(KIND, lines[0].number, lines[-1].number, values), env=own)


# Each gives the values of its block, and the variables in it.


def _facts(lines: Sequence[str], into: BlockReader) -> tuple[dict[str, str], dict[str, str]]:
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
            _fact(key, value, into)
    return values, env


def _fact(key: str, value: str, into: BlockReader) -> None:
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


def _packages(lines: Sequence[str], into: BlockReader) -> tuple[dict[str, str], dict[str, str]]:
    listed = []
    for found in filter(None, map(_PACKAGE.match, map(str.rstrip, lines))):
        into.package(found["name"], found["version"], f"{found['name']}=={found['version']}")
        listed.append(f"{found['name']}=={found['version']}" + (f" ({found['origin']})" if found["origin"] else ""))
    return {"packages": ", ".join(listed)} if listed else {}, {}


def _conda(lines: Sequence[str], into: BlockReader) -> tuple[dict[str, str], dict[str, str]]:
    rows = [found for found in map(_CONDA.match, map(str.rstrip, lines)) if found]
    for found in rows:
        if found["name"] in ("cudatoolkit", "cuda-version", "cudnn"):
            axis = "cudnn" if found["name"] == "cudnn" else "cuda"
            into.claim(axis, found["version"], f"conda: {found[0]}", Rank.BUILT)
    values = {"conda packages": ", ".join(found[0] for found in rows)} if rows else {}
    return values, {}
