"""A fake NVML library for hosts without a GPU, loaded by the real ``nvidia-ml-py`` (or by anything else).

``FakeNvml(folder)`` compiles ``fake_nvml.c`` there; ``environment`` are the variables under which a process sees the
GPUs that ``gpus()`` wrote. It has to be another process: the dynamic loader reads LD_LIBRARY_PATH when one starts.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
V100 = "Tesla V100-SXM2-16GB|16384|7.0"
H200 = "NVIDIA H200|143771|9.0"


class FakeNvml:
    """A host with fake GPUs, described by a file that may be rewritten at any time."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("gcc") is None:
            pytest.skip("needs gcc, for the fake NVML library")
        self.folder = folder / "fake-nvml"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "host.txt"
        library = self.folder / "libnvidia-ml.so.1"
        command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
        subprocess.run([*command, "-o", library, SOURCE], check=True)
        self.gpus()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to see the GPUs."""
        return {"LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self.file)}

    def gpus(self, *gpus: str, driver: str = "550.54.15", cuda: int = 12040, init: int = 0) -> None:
        """From now on the host has these, such as ``"GPU-0|Tesla V100|16384|7.0|ok|123"``; see fake_nvml.c."""
        lines = [f"driver {driver}", f"cuda {cuda}", f"init {init}", *(f"gpu {gpu}" for gpu in gpus)]
        new = self.file.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.replace(self.file)  # at once: another process may be reading

    def xid(self, uuid: str, number: int) -> None:
        """The driver reports an Xid error of this GPU."""
        with self.file.with_name(f"{self.file.name}.xids").open("a") as file:
            file.write(f"{uuid} {number}\n")


def four_gpus(state: str = "ok") -> list[str]:
    """Four V100, the last one in ``state``."""
    return [f"GPU-{number}|{V100}|{'ok' if number < 3 else state}" for number in range(4)]
