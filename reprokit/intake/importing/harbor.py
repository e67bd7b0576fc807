"""Harbor: a folder with ``task.toml``, ``environment/``, ``solution/`` and ``tests/``, or a folder of such folders.

Read from harbor 0.26.0 (``harbor/models/task``): ``solution/solve.sh`` is the fix, and ``tests/test.sh`` writes a
reward of 0 to 1. Tasks of several steps or containers are refused.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.intake.bug import BugEntry, DatasetKind, WrongBug, read_text
from reprokit.intake.draft import slug
from reprokit.intake.recipe import IMAGE, ImageSteps, read_files, translate
from reprokit.intake.task import ImageTask

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_RUN = 'rm -rf /{0}; cp -R "$task/{0}" /{0} && chmod +x /{0}/{1} && env {2} /{0}/{1}'
_INSTALLS = re.compile(
    r"(?m)^[^#\n]*\b(?:apt(?:-get)? install|apk add|uvx|uv (?:run|pip)|pip3? install|npm (?:ci|i))\b"
)
_LACKS = (
    "It installs packages in test.sh or solve.sh: a trial has neither a network nor what root needs for that. Until "
    "these steps are in `setup`, a reward of 0 may come from them."
)
_COMMAND = """\
mkdir -p /logs/verifier
({run}) || true
cd /logs/verifier
reward=$(cat reward.txt 2> /dev/null || sed 's/[^0-9.]*\\([0-9.]*\\).*/\\1/' reward.json)
echo "reward: $reward"
awk -v reward="$reward" 'BEGIN {{ exit reward == "" ? 3 : reward < 1 }}'"""


def entries(place: Path, chosen: Sequence[str], specs: Path | None) -> Iterator[BugEntry]:
    """The tasks with the chosen names, or all of them. Raises UsageError."""
    files = [place / "task.toml"] if (place / "task.toml").is_file() else sorted(place.glob("*/task.toml"))
    tasks = {file.resolve().parent.name: file.parent for file in files}
    if not tasks:
        raise UsageError(f"{place} is not a task of Harbor, nor a folder of them: task.toml is expected")
    for one in chosen or tasks:
        if one not in tasks:
            raise UsageError(f"{place} has no task {one!r}{near(one, tasks, prefix='; ')}")
        yield BugEntry(key=one, read=partial(_task, one, tasks[one]))


KIND = DatasetKind(name="harbor", takes="PATH is a task or a folder of tasks; BUG names one", entries=entries)


def _task(key: str, folder: Path) -> ImageTask:
    try:
        config = tomllib.loads(read_text(folder, folder / "task.toml"))
    except tomllib.TOMLDecodeError as error:
        raise WrongBug(f"{folder}/task.toml: it is not TOML: {error}") from None
    asked = config.get("environment") or {}
    place, image, workdir = folder / "environment", str(asked.get("docker_image", "")), str(asked.get("workdir") or "")
    if config.get("steps") or [*place.glob("docker-compose.y*ml")] or asked.get("os", "linux") != "linux":
        raise WrongBug(f"{folder}: only tasks of one step, in one container of Linux, are imported")
    if dockerfile := read_text(folder, place / "Dockerfile", missing=""):
        recipe = translate(dockerfile, place)
    elif IMAGE.fullmatch(image):
        recipe = ImageSteps(image=image)
    else:
        raise WrongBug(f"{folder}: it has neither environment/Dockerfile nor docker_image")
    recipe.start += [f"export {words}"] if (words := _variables(config, "environment", folder)) else []
    recipe.start += [f"cd {shlex.quote(workdir)}"] if workdir else []
    files: dict[str, Any] = {}
    for part in ("tests", "solution"):
        found, other = read_files(folder / part, part, folder / part)
        files |= found
        recipe.notes += [f"Left out: {part}/{one}: it is not a text." for one in other]
    if not {"tests/test.sh", "solution/solve.sh"} <= set(files):
        raise WrongBug(f"{folder}: it has no tests/test.sh, or no solution/solve.sh")
    scripts = (files["tests/test.sh"], files["solution/solve.sh"])
    if any(_INSTALLS.search(one["content"] if isinstance(one, dict) else one) for one in scripts):
        recipe.notes.append(_LACKS)
    text = read_text(folder, folder / "instruction.md", missing="").strip() or key
    return ImageTask(
        key=key,
        case_id=f"harbor-{slug(key) or 'task'}",
        title=text.partition("\n")[0].lstrip("# "),
        description=text + "\n",
        tags=("harbor",),
        url="",
        recipe=recipe,
        fix=_RUN.format("solution", "solve.sh", _variables(config, "solution", folder)),
        command=_COMMAND.format(run=_RUN.format("tests", "test.sh", _variables(config, "verifier", folder))),
        failure={"exit_code": "1", "output": "/^reward: 0/"},
        files=files,
        notes={(): (f"Imported from Harbor, {key[:100]}.",)},
    )


def _variables(config: Mapping[str, Any], part: str, folder: Path) -> str:
    """The variables of a part of task.toml, as words of a shell. Raises WrongBug."""
    asked = (config.get(part) or {}).get("env") or {}
    # A variable of the host is never taken: its default is.
    env = {one: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value)) for one, value in asked.items()}
    if not all(one.isidentifier() and "$" not in value for one, value in env.items()):
        raise WrongBug(f"{folder}/task.toml: {part}.env takes variables of the host, or has names that no variable has")
    return " ".join(f"{one}={shlex.quote(value)}" for one, value in env.items())
