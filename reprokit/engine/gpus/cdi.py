"""CDI, the Container Device Interface: files on the host that describe devices to container engines.

The format: github.com/cncf-tags/container-device-interface, SPEC.md, whose only library is in Go. Who owns `engine`
owns this reader of names and files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from reprokit.core.errors import Unsupported

KIND = "nvidia.com/gpu"
FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where engines look unless they are configured otherwise."""

DEFAULT = "/etc/cdi/nvidia.yaml"
GENERATE = f"sudo nvidia-ctk cdi generate --output={DEFAULT}"
INSTALL = f"install nvidia-container-toolkit and run '{GENERATE}' (again after every change of the driver)"

_DRIVER = re.compile(r"/libcuda\.so\.(\d+\.\d+(?:\.\d+)?)$")


@dataclass(frozen=True, kw_only=True)
class Description:
    """A file that describes GPUs. ``names``: indices, UUIDs, "all"; ``files``: the libraries that containers get."""

    path: Path
    names: frozenset[str]
    files: tuple[str, ...]

    def stale(self, driver: str) -> str:
        """Why containers cannot start by it, in words, '' where it fits: it is of another driver, or files are gone.

        ``driver``: the version of the driver that runs, '' = not known.
        """
        of = next((found[1] for file in self.files if (found := _DRIVER.search(file))), "")
        if driver and of and of != driver:
            return f"{self.path} describes driver {of}, and the driver is {driver}"
        gone = [file for file in self.files if not Path(file).exists()]
        return f"{self.path} names {gone[0]}, which does not exist" if gone else ""


def descriptions(folders: Iterable[Path] = FOLDERS) -> list[Description]:
    """The files in ``folders`` that describe GPUs. Broken ones are skipped."""
    paths = (path for folder in folders for path in sorted(folder.glob("*")))
    found = (_read(path) for path in paths if path.suffix in (".yaml", ".yml", ".json"))
    return [one for one in found if one]


def _read(path: Path) -> Description | None:
    try:
        text = yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if text["kind"] != KIND:
            return None
        edits = [one.get("containerEdits") or {} for one in (text, *text["devices"])]
        files = [str(mount["hostPath"]) for one in edits for mount in one.get("mounts") or ()]
        names = frozenset(str(device["name"]) for device in text["devices"])
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return None
    # What a program makes when it starts, such as the socket of nvidia-persistenced, may come later.
    return Description(path=path, names=names, files=tuple(file for file in files if ".so" in file))


def described(folders: Iterable[Path] = FOLDERS) -> frozenset[str]:
    """The names under which the files in ``folders`` describe GPUs."""
    return frozenset(name for one in descriptions(folders) for name in one.names)


def devices(uuids: Sequence[str], indices: Sequence[str], names: frozenset[str]) -> list[str]:
    """The full names of these GPUs. Raises Unsupported for one that no file describes.

    By UUID where the files have it: an index can name another GPU after a change of the hardware.
    """
    found = []
    for number, uuid in enumerate(uuids):
        index = indices[number] if number < len(indices) else ""
        name = next((name for name in (uuid, index) if name in names), None)
        if name is None:
            raise Unsupported(f"no CDI specification describes {KIND}={uuid}: {INSTALL}")
        found.append(f"{KIND}={name}")
    return found
