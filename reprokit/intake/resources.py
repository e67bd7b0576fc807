"""The resources of a drafted case: network, GPUs, and the options of the report's container. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reprokit.case import units
from reprokit.environment import versions
from reprokit.intake.environments import EnvironmentBlock

_NETWORK = re.compile(
    r"\bpip\S{0,9} install\b|from_pretrained\(|load_dataset\(|torch\.hub|download=True|snapshot_download|requests\.(?:get|post)|urlopen|urlretrieve|https?://"
)
_GPU = re.compile(
    r"\.cuda\(|\bto\(\s?[\"']cuda|\bcuda:\d\b|CUDAPlace|\bcuda\.jit\b|\buse_gpu\s?=\s?True|--(?:use[-_])?gpus?\b|--n[-_]gpu"
    r"|--(?:num|n)[-_]gpus?[ =][1-9]|-ngl \d|\bnvidia-smi\b|import (?:cupy|cudf|cuml|pycuda)\b|set_device\([\"']gpu"
    r"|\b(?:device|backend|execution provider|accelerator)s?\b[^\n:：=(]{0,40}(?:[:：=(]|\n{1,2})"
    r"\s?[\"'`\[(]{0,3}(?:cuda|gpu)\b"
    r"|--device[ =](?:cuda|gpu)|\bCUDA_VISIBLE_DEVICES=[\"']?\d"
    r"|\b(?:WITH|USE)_(?:CUDA|GPU)\s?[:：]\s?(?:ON|1|TRUE|YES)\b"
    r"|\b(?:CUDA|NCCL|CUBLAS|CUDNN)\w{0,40} (?:runtime )?error|CUDA out of memory|no kernel image is available"
    r"|\bmulti(?:ple)?[- ]?GPUs?\b|\b\w{1,20}\.(?:to_)?gpu\("
    r"|\bGpuMat\b|\bcudacodec\b|\bVolta\b|illegal memory access|invalid device function"
    r"|Compute Engine (?:后端|backend) ?\(GPU\)"
    r"|\b(?:on|with|using) (?:a |the |one |two |multiple |my |\d )?GPUs?\b"
    r"|\bGPU (?:memory|utili[sz]ation|usage)\b"
    r"|\A[^\n]{0,200}?(?<!no )(?<!without )(?<![A-Za-z])GPUs?(?! disabled|[A-Za-z])"  # in the title
    r"|[使用在跑] ?GPU|GPU ?(?:上|训练|预测|推理|显存)|显存|[单多双两] ?卡|\d ?张 ?卡",
    re.IGNORECASE,
)
"""What plainly uses a GPU: code, options, errors of the driver, words."""
_SIZE = re.compile(r"(?<![\w.])(\d{1,3}) ?(?:GB|GiB|G)\b", re.IGNORECASE)


def needed(
    environments: Sequence[EnvironmentBlock], texts: str, report: str, devices: int
) -> tuple[dict[str, str], dict[str, str]]:
    """The ``resources`` of a case, and key -> why.

    ``environments``: as reported; ``texts``: the case's command and programs; ``report``: all of its text;
    ``devices``: how many GPUs the command was given, 0 = not known.
    """
    data: dict[str, str] = {}
    notes: dict[str, str] = {}
    if _NETWORK.search(texts):
        data["network"] = "bridge"
        notes["network"] = "the command or its program loads something from the network"
    # The options of docker run that the format has, too.
    for key, parse in (("shm_size", units.size), ("memory", units.memory), ("cpus", units.cores)):
        text = next((found.options[key] for found in environments if found.options.get(key)), "")
        try:
            parse(text)
        except ValueError:
            continue
        data[key] = text
        notes[key] = "as in the report's docker run"
    gpus = [name for found in environments for name in found.gpus]
    used = next((found.options["gpus"] for found in environments if found.options.get("gpus", "").isdigit()), "")
    without = any(found.axes.get("cuda") == versions.NONE for found in environments)
    uses = bool(gpus or used or any(found.options.get("gpus") for found in environments))
    if not (devices or uses or (not without and _GPU.search(report))):
        return data, notes
    data["gpus"] = str(devices or used or 1)
    notes["gpus"] = f"reported: {', '.join(dict.fromkeys(gpus))}" if gpus else "as the report uses them"
    sizes = [int(size) for name in gpus[:1] for size in _SIZE.findall(name)]
    if sizes and sizes[0] > 1:
        data["gpu_memory"] = f"{sizes[0] - 1}g"
        notes["gpu_memory"] = f"of {sizes[0]} GB a little less is usable"
    return data, notes
