"""The versions in the name of a container image: ``nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04``. Pure."""

from __future__ import annotations

import re

from reprokit.environment import wording
from reprokit.environment.catalog import OURS
from reprokit.intake.environments.model import Rank
from reprokit.intake.environments.reading import BlockReader

_PACKAGES = {
    "pytorch/pytorch": "torch",
    "paddlepaddle/paddle": "paddlepaddle",
    "paddlecloud/paddleocr": "paddleocr",
    "tensorflow/tensorflow": "tensorflow",
    "vllm/vllm-openai": "vllm",
}
"""Images whose tag begins with the version of a package."""

_IN_TAG = (
    ("cuda", re.compile(rf"cuda-?({wording.VERSION})")),
    ("cudnn", re.compile(rf"cudnn-?({wording.VERSION})")),
    ("python", re.compile(r"(?:python|py)-?([23]\.\d+(?:\.\d+)?)")),
    ("gcc", re.compile(rf"gcc-?({wording.VERSION})")),
)

_SYSTEMS = ("ubuntu", "debian", "centos", "rockylinux", "fedora", "alpine")


def read(image: str, into: BlockReader) -> None:
    """Add to ``into`` the axes and the framework in an image's name; a digest and ``latest`` give nothing."""
    name = image.partition("@")[0]
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # the colon of a registry's port
        path, tag = name, ""
    repository = "/".join(path.split("/")[-2:])
    last = repository.rpartition("/")[2]
    quote = f"image {image}"
    version = next(iter(re.findall(rf"^v?({wording.VERSION})", tag)), "")
    for axis, called in (("cuda", ("cuda", "cudagl")), ("python", ("python",)), ("gcc", ("gcc",))):
        if last in called and version:
            into.claim(axis, version, quote, Rank.STATED)
    if "windows" in tag or "nanoserver" in tag:
        into.texts.setdefault("system", "windows")
    for axis, pattern in _IN_TAG:
        if found := pattern.search(tag):
            into.claim(axis, found[1], quote, Rank.STATED)
    into.claim("os", wording.os(_system(last, tag)), quote, Rank.STATED)
    if (package := _PACKAGES.get(repository)) and version:
        gpu = package == "paddlepaddle" and "gpu" in tag
        into.package("paddlepaddle-gpu" if gpu else package, version, quote)
    into.texts.setdefault("image", image)


def _system(last: str, tag: str) -> str:
    """The part of an image's name that names a release: ``ubuntu22.04``, ``debian:12-slim``, ``3.9-slim-bullseye``."""
    names = {row.codename: name.replace("-", " ") for name, row in OURS.releases().items() if row.codename}
    if known := next((names[word] for word in re.split(r"[-.]", tag) if word in names), ""):
        return known
    if last in _SYSTEMS:
        return f"{last} {tag}"
    found = re.search(rf"({'|'.join(_SYSTEMS)})-?(\d[\d.]*)", f"{last} {tag}")
    return f"{found[1]} {found[2]}" if found else ""
