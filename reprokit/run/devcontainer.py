"""Writes the image of one cell as a folder that editors open as a development container."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reprokit.case.limits import option_words
from reprokit.case.matrix import label
from reprokit.core.errors import UsageError
from reprokit.engine.protocol import Trial
from reprokit.run import rendering
from reprokit.run.request import Request
from reprokit.run.task import Task
from reprokit.run.trials import trial_of

PLACE = ".devcontainer"
_SUBSTITUTED = re.compile(r"\$\{\s*(?:\w*env|config|command|input|workspace|\w*workspacefolder|devcontainerid)", re.I)
"""What editors replace by something of the user's host. There is no way to write it as it is."""


def write(task: Task, request: Request, output: Path) -> None:
    """Write ``output``/.devcontainer, whole or not at all; makes a base image that no registry has.

    Raises UsageError where ``output`` is not empty, and Unsupported where the cell has no image.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is not an empty folder: name a new one with --output")
    image = rendering.whole_image(task, request)
    text = json.dumps(content(task), indent=2, ensure_ascii=False) + "\n"
    if found := _SUBSTITUTED.search(text):
        raise UsageError(
            f"{task.file.path}: its text has {found[0]}...}}, which an editor replaces by something of your host: "
            "it cannot be exported; reprokit shell opens the cell"
        )
    rendered = replace(image.rendered, context={**image.rendered.context, "devcontainer.json": text.encode()})
    rendering.write_folder(output / PLACE, replace(image, rendered=rendered))
    rendering.make_bases({image.environment.base.reference: image}, request)


def content(task: Task) -> Mapping[str, Any]:
    """What devcontainer.json says of a cell. Nothing of the host is mounted but data that the user named."""
    trial, limits = trial_of(task, "", ""), task.spec.limits
    options = option_words(limits, ("shm_size", "ipc", "ulimits"))
    return {
        "name": f"{task.case.id}: {label(task.cell)}{' (fix)' if task.variant == 'fix' else ''}",
        "build": {"dockerfile": "Dockerfile", "context": "."},
        "workspaceFolder": task.spec.workdir,
        "workspaceMount": "",
        "containerEnv": dict(trial.env),
        "remoteUser": limits.user,
        "updateRemoteUserUID": False,
        "init": True,
        **({"runArgs": options} if options else {}),
        **({"hostRequirements": {"gpu": True}} if limits.gpus else {}),
        **({"mounts": _mounts(trial)} if trial.mounts else {}),
    }


def _mounts(trial: Trial) -> list[str]:
    if wrong := next((one.source for one in trial.mounts if set('",') & set(f"{one.source}{one.target}")), None):
        raise UsageError(f"{wrong}: an editor cannot mount a path with a comma or a quote")
    return [f"type=bind,source={one.source},target={one.target},readonly" for one in trial.mounts]
