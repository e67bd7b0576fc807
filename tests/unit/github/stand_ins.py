"""Stand-ins for the third-party actions that a workflow uses: ``uses: actions/...``."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.github.steps import Job, Replay


@dataclass
class Call:
    """A ``uses:`` step that a function stands in for."""

    replay: Replay
    job: Job
    inputs: dict[str, str]
    outputs: dict[str, str]
    paths: list[str]
    environment: dict[str, str]

    def path(self, name: str, default: str = "") -> Path:
        """An input as a path in the workspace."""
        return self.job.workspace / Path(self.inputs.get(name, default)).expanduser()


StandIn = Callable[[Call], None]


class Failed(Exception):
    """What a stand-in raises when the action would fail."""


def checkout(call: Call) -> None:
    """actions/checkout: the repository's tracked and new files, as a tree without history."""
    assert call.inputs.get("persist-credentials") == "false", "the token would stay in the checkout"
    target = call.path("path")
    ls = ["git", "-C", str(call.replay.source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(ls, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        source = call.replay.source / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def upload_artifact(call: Call) -> None:
    """actions/upload-artifact: the files that its patterns name, below their common folder; a name is taken once."""
    target = call.replay.artifacts / call.inputs.get("name", "artifact")
    if target.exists() and call.inputs.get("overwrite") != "true":
        raise Failed(f"Error: an artifact with this name already exists: {target.name}")
    shutil.rmtree(target, ignore_errors=True)
    hidden = call.inputs.get("include-hidden-files") == "true"
    files: set[Path] = set()
    patterns = [line.strip() for line in call.inputs["path"].split("\n") if line.strip()]
    for pattern in patterns:
        if pattern.startswith("!"):
            continue
        path = Path(pattern) if pattern.startswith("/") else call.job.workspace / pattern
        if any(sign in path.name for sign in "*?["):
            matched = [one for one in path.parent.glob("*") if fnmatch.fnmatch(one.name, path.name)]
        else:
            matched = [path]
        for one in matched:
            files |= {file for file in (one.rglob("*") if one.is_dir() else [one]) if file.is_file()}
    base = Path(os.path.commonpath([file.parent for file in files])) if files else Path()
    files = {file for file in files if hidden or not any(p.startswith(".") for p in file.relative_to(base).parts)}
    left_out = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    files = {file for file in files if not any(fnmatch.fnmatch(str(file), pattern) for pattern in left_out)}
    for file in files:
        if set(str(file.relative_to(base))) & set('":<>|*?\r\n'):
            raise Failed(f"Error: The path for one of the files in artifact is not valid: {file}")
    if not files:
        if call.inputs.get("if-no-files-found") == "error":
            raise Failed("Error: No files were found with the provided path")
        return
    for file in files:
        (target / file.relative_to(base)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target / file.relative_to(base))
    call.outputs.update({"artifact-id": "1", "artifact-url": "https://github.example/artifact/1"})


def download_artifact(call: Call) -> None:
    """actions/download-artifact: one by name, else all that match, each in a folder of its own unless merged."""
    target, store = call.path("path"), call.replay.artifacts
    if name := call.inputs.get("name"):
        if not (store / name).is_dir():
            raise Failed(f"Error: Artifact not found for name: {name}")
        shutil.copytree(store / name, target, dirs_exist_ok=True)
        return
    pattern = call.inputs.get("pattern", "*")
    for one in sorted(store.iterdir()):
        if fnmatch.fnmatch(one.name, pattern):
            merged = call.inputs.get("merge-multiple") == "true"
            shutil.copytree(one, target if merged else target / one.name, dirs_exist_ok=True)


def nothing(call: Call) -> None:
    """An action that does nothing that can be seen here."""


STAND_INS: dict[str, StandIn] = {
    "actions/checkout": checkout,
    "actions/upload-artifact": upload_artifact,
    "actions/download-artifact": download_artifact,
    "actions/upload-pages-artifact": upload_artifact,
    "actions/deploy-pages": nothing,
}
