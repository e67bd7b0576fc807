"""What an image measured from inside: parsed from the probe's output, worded as in a bug report. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from reprokit.environment.axes import AXES, AXIS_NAMES
from reprokit.environment.axes.cuda import build, libraries
from reprokit.environment.axes.python import describe_python
from reprokit.environment.host import parse

OWN = ("os", "python", "gcc", "cuda", "cudnn")
"""The axes that :class:`Measured` has fields of its own for."""


FURTHER = tuple(axis for axis in AXES if axis.name not in OWN)
"""The other axes, whose versions are in its field ``further``."""


class ProbeError(ValueError):
    """The probe's output is not what the probe prints: it was cut, or something else answered."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """An image as its own tools describe it; None or empty where it has no such thing.

    ``cuda`` is the release (``12.0``) that nvcc, else ptxas, else the toolkit's version file or runtime library names;
    ``cuda_build`` the compiler's build (``12.0.140``), else that of the library; ``nvcc`` the compiler's own last line.
    ``cuda_libraries``: the plain name of each library of CUDA -> whether a program opens it by that name.
    ``frameworks`` holds the constants of ``paddle.version``, ``torch.version`` and ``cv2.version``. ``gpu`` lists
    names, ``os`` is ``debian-12``. ``source_trees``: the packages of pip that are installed from a folder, as by
    ``pip install -e``. ``further``: the version of every other axis, by its name; as JSON they are beside these.
    """

    python: str | None = None
    gcc: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    glibc: str | None = None
    platform: str | None = None
    nvcc: str | None = None
    gpu: tuple[str, ...] = ()
    driver: str | None = None
    packages: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {"pip": {}, "apt": {}})
    frameworks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    os: str | None = None
    python_words: str | None = None
    gcc_words: str | None = None
    cuda_build: str | None = None
    cuda_libraries: Mapping[str, bool] = field(default_factory=dict)
    ptxas: str | None = None
    visible_devices: str | None = None
    source_trees: tuple[str, ...] = ()
    further: Mapping[str, str | None] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The contract's ``environment`` object, with our own additions."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "further"}
        values |= {"gpu": list(self.gpu), "source_trees": list(self.source_trees)}
        return values | dict(self.further)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Measured:
        """The reverse of ``to_json``; keys that this version does not know are left out."""
        known = {item.name for item in fields(cls)} - {"further"}
        values = {key: value for key, value in record.items() if key in known}
        values |= {name: tuple(values.get(name) or ()) for name in ("gpu", "source_trees")}
        values["further"] = {name: record[name] for name in AXIS_NAMES if name in record and name not in known}
        return cls(**values)

    @property
    def versions(self) -> Mapping[str, str | None]:
        """The version of each axis that was looked at, by its name, and of what comes with one."""
        return {name: getattr(self, name) for name in (*OWN, "cuda_build", "glibc", "driver")} | dict(self.further)

    @classmethod
    def parse(cls, text: str) -> Measured:
        """Read the probe's output. Raises ProbeError when it is incomplete."""
        sections = _sections(text)
        if "end" not in sections:
            tail = text.strip().splitlines()[-3:]
            raise ProbeError("the probe did not reach its end; its last lines: " + " | ".join(tail))
        versions = {axis.name: axis.measure.read(sections) for axis in AXES}
        python = describe_python(sections)
        gpus, driver = parse(sections.get("gpu", ""))
        gcc = sections.get("gcc", "").splitlines()
        return cls(
            **{name: versions.pop(name) for name in OWN},
            further=versions,
            glibc=_search(r"(\d+\.\d+)\s*$", sections.get("glibc", "")),
            platform=python.get("platform") or _platform(sections),
            nvcc=_last_line(sections.get("nvcc", "")),
            gpu=tuple(f"GPU {gpu.index}: {gpu.name}" for gpu in gpus),
            driver=driver,
            packages={"pip": python.get("packages", {}), "apt": _apt(sections.get("apt", "")), **_rpm(sections)},
            frameworks=python.get("frameworks", {}),
            python_words=python.get("words"),
            gcc_words=gcc[0] if gcc else None,
            cuda_build=build(sections),
            cuda_libraries=libraries(sections),
            ptxas=_last_line(sections.get("ptxas", "")),
            visible_devices=_last_line(sections.get("visible", "")),
            source_trees=tuple(python.get("source_trees", ())),
        )

    def report(self) -> str:
        """The environment block of a bug report: the lines and words that PaddlePaddle's own reports use."""
        pip = self.packages.get("pip", {})
        lines = {"platform": self.platform, "Python": self.python_words or self.python}
        paddle, torch, cv2 = (self.frameworks.get(name, {}) for name in ("paddle", "torch", "cv2"))
        if paddle:
            lines["Paddle compiled with cuda"] = str(str(paddle.get("cuda_version", "False")) != "False")
        if torch:
            lines["Torch compiled with cuda"] = str(torch.get("cuda") is not None)
        lines |= {
            "NVCC": self.nvcc or (f"none (ptxas: {self.ptxas})" if self.ptxas else "none"),
            "cudnn": ".".join(self.cudnn.split(".")[:2]) if self.cudnn else "none",
            "GPUs used": str(len(self.gpu)),
            "CUDA_VISIBLE_DEVICES": self.visible_devices or "None",
            "GPU": str(list(self.gpu)),
            "GCC": self.gcc_words or "none",
            **{axis.title: self.further.get(axis.name) for axis in FURTHER},
        }
        if self.driver:
            lines["Driver"] = self.driver
        if "paddleseg" in pip:
            lines["PaddleSeg"] = pip["paddleseg"]
        if paddle:
            lines["PaddlePaddle"] = str(paddle.get("full_version", ""))
        if torch:
            lines["PyTorch"] = str(torch.get("__version__", ""))
        if cv2:
            lines["OpenCV"] = ".".join(str(cv2.get("opencv_version", "")).split(".")[:3])
        return "".join(f"{name}: {value}\n" for name, value in lines.items() if value)


def _sections(text: str) -> dict[str, str]:
    """Section name -> its text. What comes before the first section (a shell's warning) is dropped."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if re.fullmatch(r"##[a-z-]+", line):
            current = found.setdefault(line[2:], [])
        else:
            current.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def _search(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1) if found else None


def _last_line(text: str) -> str | None:
    return text.splitlines()[-1] if text else None


def _platform(sections: Mapping[str, str]) -> str | None:
    kernel = sections.get("kernel", "")
    return "-".join(kernel.split()) or None


def _rpm(sections: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The RPM packages; no such list where the image has no RPM."""
    rows = (line.split(" ") for line in sections.get("rpm", "").splitlines())
    found = {row[0]: row[1] for row in rows if len(row) == 2 and row[0] != "gpg-pubkey"}
    return {"rpm": found} if found else {}


def _apt(text: str) -> dict[str, str]:
    rows = (line.split(" ") for line in text.splitlines())
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "installed"}
