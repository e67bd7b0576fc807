"""How a container gets its GPUs: by CDI where the engine has it, else by the NVIDIA Container Toolkit's runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reprokit.case.cellspec import Limits
from reprokit.core.errors import Unsupported
from reprokit.engine.gpus import cdi
from reprokit.engine.protocol import Trial

VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def cdi_names(
    trial: Trial, about: Mapping[str, Any], *, podman: bool, local: bool, folders: Iterable[Path] = cdi.FOLDERS
) -> list[str]:
    """The CDI names of a trial's GPUs, [] where the engine's own way of giving them is to be used.

    ``about``: the engine's answer to ``GET /info``, in which Docker tells since release 25 where it looks for
    descriptions (if CDI is switched on) and since 28.2 what it found. ``local``: whether the engine is on this host.
    Raises Unsupported where there is no way.
    """
    if not trial.gpus:
        return []
    if podman:
        names = cdi.described(folders) if local else frozenset(trial.gpus)
        if not names:
            raise Unsupported(f"Podman gives GPUs to containers by CDI, and nothing describes them: {cdi.INSTALL}")
        return cdi.devices(trial.gpus, trial.gpu_indices, names)
    found = [str(device.get("ID", "")) for device in about.get("DiscoveredDevices") or []]
    names = frozenset(name.removeprefix(f"{cdi.KIND}=") for name in found if name.startswith(f"{cdi.KIND}="))
    if not names and local:
        names = cdi.described(Path(folder) for folder in about.get("CDISpecDirs") or [])
    return cdi.devices(trial.gpus, trial.gpu_indices, names) if names else []


def capabilities(limits: Limits) -> tuple[str, ...]:
    """What a trial gets of the driver by NVIDIA's runtime. By CDI it gets all that is described."""
    return tuple(dict.fromkeys(("compute", "utility", *limits.gpu_capabilities)))


def requests(trial: Trial, names: list[str]) -> list[dict[str, Any]]:
    """The ``HostConfig.DeviceRequests`` of a trial (Engine API); ``names``: its :func:`cdi_names`."""
    if names:
        return [{"Driver": "cdi", "DeviceIDs": names}]
    if not trial.gpus and not trial.limits.gpus:
        return []
    wanted = ["gpu", *capabilities(trial.limits)]
    request: dict[str, Any] = {"Driver": "", "Capabilities": [wanted], "Options": {}}
    return [request | ({"DeviceIDs": list(trial.gpus)} if trial.gpus else {"Count": trial.limits.gpus})]


def hidden(trial: Trial, names: list[str], about: Mapping[str, Any]) -> dict[str, str]:
    """Environment that keeps NVIDIA's runtime from giving more GPUs than were leased.

    CUDA images say ``NVIDIA_VISIBLE_DEVICES=all``, which that runtime obeys where it is the engine's default, unless
    the GPUs come in its own way. So may a case, and Podman's hook obeys it with any runtime: what a case asks for is
    ``resources.gpus``, so that its own value counts only where it gives none.
    """
    if trial.gpus and not names:
        return {}
    own = trial.env.get(VISIBLE)
    if own is None:
        return {VISIBLE: "void"} if about.get("DefaultRuntime") == "nvidia" else {}
    return {} if own in ("", "none", "void") else {VISIBLE: "void"}
