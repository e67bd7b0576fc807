"""A cell as a task of other programs: of SWE-bench 5 (swebench 5.0.2), of Harbor (0.26.0), or a test of pytest.

The Dockerfile is the one of the cell. What its fix changes of files, sources, variables and the command is a patch of
the work folder, which is a git repository there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from reprokit.case.matrix import label
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo
from reprokit.environment.catalog import OURS
from reprokit.environment.dockerfile import render_one
from reprokit.run.by_hand import command_text
from reprokit.run.images import ImageSpec
from reprokit.run.rendering import folder_name, whole_image
from reprokit.run.request import Request
from reprokit.run.task import Task

KINDS = ("swe-bench", "harbor", "pytest")
_Files = dict[str, bytes | Path]


def export(task: Task, fixed: Task | None, request: Request, output: Path, kind: str) -> Path:
    """Write a cell below ``output``, whole or not at all; the place.

    ``fixed``: the cell with its fix. ``kind``: one of KINDS. Raises UsageError where it cannot be such a task.
    """
    failure, spec = task.case.expect.failure, task.spec
    pattern = "" if failure.exit_code or failure.exception or failure.signal else failure.output or ""
    if spec.limits.gpus or spec.datasets or failure.out_of_memory or task.reference or task.case.expect.leaks:
        raise UsageError(f"{task.file.path}: {kind} has no place for GPUs, data, measured memory, or a second cell")
    name = "reprokit__" + re.sub(r"[^a-z0-9.]+", "-", folder_name(task).lower()).strip("-.")
    values = {"name": name, "seconds": int(spec.limits.timeout), "workdir": spec.workdir, "user": spec.limits.user}
    limits = {key: getattr(spec.limits, key) for key in ("memory", "cpus", "shm_size", "pids", "ulimits")}
    lost = [f"resources.{key}" for key in list(limits)[2 if kind == "harbor" else 0 :] if limits[key]]
    lost += ["environment.setup"] if kind == "pytest" and spec.environment.setup else []
    if lost:
        echo(f"note: {name} is run without {', '.join(lost)}: {kind} has no place for it", err=True)
    if kind == "pytest":
        if spec.sources or pattern:
            raise UsageError(f"{task.file.path}: a test of pytest has no sources, and goes by the exit status alone")
        files = {path: (file.text, file.permissions) for path, file in spec.files.items()}
        texts = {"texts": repr(files), "env": repr(dict(spec.env)), "command": repr(command_text(spec.command))}
        test = render_one("task_pytest.j2", {}, **values, **texts, cell=label(task.cell)).dockerfile
        return _write(output / f"test_{re.sub('[^a-z0-9]', '_', task.case.id)}.py", {"": test.encode()})
    if fixed is None:
        raise UsageError(f"{task.file.path}: a task of {kind} is solved by a fix, which the case does not have")
    regular = re.fullmatch(r"/(.*)/", pattern, re.DOTALL)
    values |= {"option": "P" if regular else "F", "output": f"(?m){regular[1]}" if regular else pattern}
    patch, context = _context(task, fixed, request, render_one("task_tail.j2", {}, **values).dockerfile)
    run = render_one("task_run.j2", {}, **values, again=".task/setup.sh" in context)
    context[".task/run.sh"] = run.dockerfile.encode()
    about = f"{task.case.title}\n\n{task.case.description or ''}\n".encode()
    if kind == "harbor":
        start = f"#!/bin/bash\ncd {shlex.quote(spec.workdir)} && "
        solve = f"{start}git apply -v /solution/fix.patch\n"
        test = f"{start}bash .task/run.sh\necho $((1 - $?)) > /logs/verifier/reward.txt\n"
        config = 'schema_version = "1.4"\n[environment]\nbuild_timeout_sec = 3600.0\n'
        rows = {"memory_mb": -(-(spec.limits.memory or 0) // 2**20), "cpus": spec.limits.cpus}
        config += "".join(f"{key} = {value}\n" for key, value in rows.items() if value)
        made: _Files = {"task.toml": config.encode(), "instruction.md": about, "solution/fix.patch": patch}
        made |= {"solution/solve.sh": solve.encode(), "tests/test.sh": test.encode()}
        return _write(output / name, made | {f"environment/{path}": content for path, content in context.items()})
    known = {"instance_id": name, "repo": f"reprokit/{task.case.id}", "base_commit": task.file.digest[-40:]}
    known |= {"image": f"swebench/sweb.eval.x86_64.{name}:latest".replace("__", "_1776_"), "eval_type": "pass_and_fail"}
    known |= {"version": "1", "split": "test", "log_parser": "parse_log_pytest"}
    marks = [f": '>>>>> {word} Test Output'" for word in ("Start", "End")]
    script = "\n".join(["#!/bin/bash", "set -uxo pipefail", "cd /testbed", marks[0], "bash .task/run.sh", marks[1], ""])
    tests = {"FAIL_TO_PASS": [f"case::{name}"], "PASS_TO_PASS": []}
    made = {"task.yaml": json.dumps({**known, "datasets": ["reprokit/cases"]}).encode(), "gold.patch": patch}
    made |= {"tests.json": json.dumps(tests).encode(), "eval.sh": script.encode(), "test.patch": b""}
    if not (output / "sweb.yaml").exists():
        _write(output / "sweb.yaml", {"": b"datasets: [reprokit/cases]\nsplits: [test]\n"})
    return _write(output / "tasks" / name, {**context, **made, "problem_statement.md": about})


def _context(task: Task, fixed: Task, request: Request, tail: str) -> tuple[bytes, _Files]:
    """(the patch that the fix is, the Dockerfile of a task and its context). Raises UsageError, Unsupported."""
    image, other = whole_image(task, request), whole_image(fixed, request)
    text, context = image.rendered.dockerfile, {**image.rendered.context}
    own = [{k: v for k, v in one.rendered.context.items() if k[:9] == "reprokit/"} for one in (image, other)]
    if (text, own[0]) != (other.rendered.dockerfile, own[1]):
        raise UsageError(f"{task.file.path}: its fix changes how the image is built, which no patch of a task can do")
    with tempfile.TemporaryDirectory(prefix="reprokit-export-") as place:
        tree = _tree(task, image)
        _write(Path(place) / "a", tree)
        _write(Path(place) / "b", _tree(fixed, other))
        words = ["git", "diff", "--no-index", "--no-prefix", "--binary", "a", "b"]
        plain = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        patch = subprocess.run(words, cwd=place, capture_output=True, env=plain).stdout
    if release := OURS.releases().get(image.environment.os):
        text = image.rendered.starting_from({image.environment.base.reference: release.image})
    # What leads a build to this site's servers stays here; our own folder is there where the task is imported again.
    text = re.sub(r"--mount=type=(?:secret|ssh),\S+ |--mount=\S+source=reprokit/(?:site|relay)\.\S+ ", "", text)
    text = re.sub(r"(?m)^ +\\\n", "", text).replace(". /run/reprokit/site.sh \\\n && ", "")
    for key in ("site.sh", "relay.pl", "relay.py"):
        context.pop(f"reprokit/{key}", None)
    context |= {"Dockerfile": (text.replace("/run/reprokit", "/run/task") + tail).encode()}
    # What the build makes of the files is made of the patched ones, too.
    again = [*re.findall(r"^ +(?:&& )?(pip install .*) \\\n && find ", text, re.MULTILINE), task.spec.environment.setup]
    context |= {".task/setup.sh": "\n".join(again).encode()} if any(again) else {}
    return patch, {**context, ".task/command.sh": tree[".task/command.sh"]}


def _tree(task: Task, image: ImageSpec) -> _Files:
    """The work folder of a cell, and in it the command with its variables."""
    lines = [f"export {key}={shlex.quote(value)}" for key, value in task.spec.env.items()]
    found: _Files = {".task/command.sh": "\n".join([*lines, command_text(task.spec.command), ""]).encode()}
    for source, target in re.findall(r'^COPY .*\["([^"]+)", "([^"]+)"\]$', image.rendered.dockerfile, re.MULTILINE):
        for key, content in image.rendered.context.items():
            if f"{key}/".startswith(source):
                below = os.path.relpath(target, task.spec.workdir)
                found[os.path.normpath(f"{below}/{f'{key}/'[len(source) :]}")] = content
    return found


def _write(target: Path, files: Mapping[str, bytes | Path]) -> Path:
    """Write a folder, or a file (whose name is ''), which must not exist. Raises UsageError."""
    if target.exists():
        raise UsageError(f"{target} exists already: name another folder with --output")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as scratch:
        for name, content in files.items():
            place = Path(scratch) / "made" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copytree(content, place, symlinks=True, dirs_exist_ok=True)
            else:
                place.write_bytes(content)
                place.chmod(0o755 if content[:2] == b"#!" or name.startswith("executables/") else 0o644)
        (Path(scratch) / "made").rename(target)
    return target
