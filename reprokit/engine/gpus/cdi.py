"""CDI, the Container Device Interface: files on the host that describe devices to container engines.

The format: github.com/cncf-tags/container-device-interface, SPEC.md. ``nvidia-ctk cdi generate`` writes those of GPUs,
by default under their index and, in newer releases, their UUID too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from reprokit.core.errors import Unsupported

KIND = "nvidia.com/gpu"
FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where engines look unless they are configured otherwise."""

INSTALL = (
    "install nvidia-container-toolkit and run 'sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml' "
    "(again after every change of the driver)"
)


def described(folders: Iterable[Path] = FOLDERS) -> frozenset[str]:
    """The names under which the files in ``folders`` describe GPUs: indices, UUIDs, "all". Broken files are skipped."""
    names: set[str] = set()
    for path in (path for folder in folders for path in folder.glob("*") if path.suffix in (".yaml", ".yml", ".json")):
        try:
            found = yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            if found["kind"] == KIND:
                names |= {str(device["name"]) for device in found["devices"]}
        except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
            continue
    return frozenset(names)


def devices(uuids: Sequence[str], indices: Sequence[int], names: frozenset[str]) -> list[str]:
    """The full names of these GPUs. Raises Unsupported for one that no file describes.

    By UUID where the files have it: an index can name another GPU after a change of the hardware.
    """
    found = []
    for number, uuid in enumerate(uuids):
        index = str(indices[number]) if number < len(indices) else ""
        name = next((name for name in (uuid, index) if name in names), None)
        if name is None:
            raise Unsupported(f"no CDI specification describes {KIND}={uuid}: {INSTALL}")
        found.append(f"{KIND}={name}")
    return found
