"""A container made over Podman's own API, for what its Docker-compatible one leaves out.

That one forgets requests for devices without a word (podman issue 22645; from 5.4 on it takes CDI). The fields are
those of ``SpecGenerator`` in Podman's API reference (docs.podman.io/en/latest/_static/api.html), as of 4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PERIOD = 100_000  # microseconds; the kernel's and both engines' default


def spec_of(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What ``POST /libpod/containers/create`` takes, from the Docker Engine API's description of a container. Pure."""
    host = body["HostConfig"]
    limits: dict[str, Any] = {"pids": {"limit": host["PidsLimit"]}}
    if "NanoCpus" in host:
        limits["cpu"] = {"quota": host["NanoCpus"] * _PERIOD // 10**9, "period": _PERIOD}
    if "Memory" in host:
        limits["memory"] = {"limit": host["Memory"], "swap": host["MemorySwap"]}
    spec = {
        "name": name,
        "image": body["Image"],
        "entrypoint": body["Entrypoint"],
        "command": body["Cmd"],
        "env": dict(entry.split("=", 1) for entry in body["Env"]),
        "work_dir": body["WorkingDir"],
        "user": body["User"],
        "hostname": body["Hostname"],
        "hostadd": host.get("ExtraHosts", []),
        "labels": dict(body["Labels"]),
        "healthconfig": {"Test": body["Healthcheck"]["Test"]},
        "init": host["Init"],
        "netns": {"nsmode": host["NetworkMode"]},
        "terminal": body["Tty"],
        "stdin": body["OpenStdin"],
        "cap_drop": host["CapDrop"],
        "cap_add": host["CapAdd"],
        "no_new_privileges": "no-new-privileges" in host["SecurityOpt"],
        "log_configuration": {"driver": host["LogConfig"]["Type"]},
        "resource_limits": limits,
        "r_limits": [
            # Unsigned here: "unlimited" is the greatest number, not -1.
            {"type": limit["Name"], "soft": limit["Soft"] % 2**64, "hard": limit["Hard"] % 2**64}
            for limit in host["Ulimits"]
        ],
        "mounts": [
            {
                "type": mount["Type"],
                "source": mount["Source"],
                "destination": mount["Target"],
                "options": ["rbind", "ro" if mount["ReadOnly"] else "rw"],
            }
            for mount in host["Mounts"]
        ],
        "devices": [{"path": device} for request in host["DeviceRequests"] for device in request["DeviceIDs"]],
    }
    spec |= {"ipcns": {"nsmode": host["IpcMode"]}} if "IpcMode" in host else {}
    return spec | ({"shm_size": host["ShmSize"]} if "ShmSize" in host else {})
