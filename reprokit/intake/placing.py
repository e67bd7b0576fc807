"""Where the command of a draft runs: the tree of its script, the folder, and the programs that it needs. Pure."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Mapping, Sequence

from reprokit.evidence import frames as places
from reprokit.evidence.model import Frame
from reprokit.intake import commands, projects
from reprokit.intake.projects import Project
from reprokit.intake.running import SCRIPT, WORKDIR, Running
from reprokit.intake.shown import Shown

_MODULE = re.compile(r"\s-m\s+(?P<module>[\w.]+)")


def needs_tree(result: Running, shown: Shown | None) -> str:
    """The script that the command starts but the case does not contain, '' where there is none.

    Where the report shows no command: the script in which its traceback begins, if it belongs to a known project.
    """
    if not result.command and shown and projects.in_frames(shown.frames):
        return shown.frames[0].file
    for script in SCRIPT.finditer(result.command.replace("\\\n", " ")):
        path = posixpath.normpath(script["path"])
        if path not in result.files and not path.startswith(("/", "~")):
            return script["path"]
    return ""


def tools(result: Running, cells: Sequence[Mapping[str, str]]) -> list[str]:
    """Debian's packages of the programs that the command builds something with, where no axis brings them."""
    lines = [line for line in result.command.split("\n") if not line.startswith("#")]
    used = {commands.program_of(part) for line in lines for part in commands.split(line)}
    axes = {name for cell in cells for name in cell}
    if not used & _BUILDERS:
        return []
    needed = [] if axes & {"gcc", "clang"} else ["build-essential"]
    needed += ["make"] if not needed and used & {"make", "cmake"} else []
    return (
        needed + ["cmake"] * ("cmake" in used - axes) + ["ninja-build"] * bool(re.search(r"\bNinja\b", result.command))
    )


_BUILDERS = frozenset({"gcc", "g++", "cc", "c++", "make", "cmake", "ninja"})


def module(result: Running) -> str:
    """The package that ``python -m`` starts, '' where it is in Python's standard library, or in the case."""
    found = _MODULE.search(result.command)
    name = found["module"].partition(".")[0] if found else ""
    held = any(path.split("/")[0] in (name, f"{name}.py") for path in result.files)
    return "" if held or name in sys.stdlib_module_names else name


def place(result: Running, shown: Shown | None, project: Project | None) -> None:
    """Run the command in the project's tree: ``cd`` to where it was started, PYTHONPATH for what it imports.

    Changes ``result``; does nothing where the command starts no script of the project.
    """
    frames = shown.frames if shown else ()
    root = projects.folder_of(frames, project) if project else ""
    script = SCRIPT.search(result.command.replace("\\\n", " "))
    own = re.search(r"^\s*cd\s+(\S+)", result.command, re.MULTILINE)
    if project is None or (script and script["path"] in result.files):
        return
    if script is None:
        if own is None and commands.BUILDS.search(result.command):
            result.command = f"cd {project.name}\n{result.command}".rstrip("\n") + "\n"
            result.notes[("command",)] = (*result.notes.get(("command",), ()), "it builds the tree, hence cd")
        return
    cwd, why = _started_in(frames, script["path"], root, project)
    if own is None or not (own[1].strip("\"'") + "/").startswith(f"{project.name}/"):
        result.command = f"cd {cwd}\n{result.command}" + ("" if result.command.endswith("\n") else "\n")
        result.notes[("command",)] = (*result.notes.get(("command",), ()), why)
        for name in [name for name in result.files if name.endswith((".yml", ".yaml", ".json"))]:
            moved = posixpath.join(cwd, name)
            result.files[moved] = result.files.pop(name)
            result.notes[("files", moved)] = result.notes.pop(("files", name), ())
    if found := _imported_from(frames, root):
        folder, package, line = found
        below = posixpath.join(WORKDIR, project.name, folder[len(root) :].strip("/")).rstrip("/")
        result.env["PYTHONPATH"] = below
        result.notes[("env", "PYTHONPATH")] = (
            (
                f"not in the report: its frames import {package} from {folder}, which is not the folder of the script "
                f"({line}), so it was installed from there or on the path"
            ),
        )


def _started_in(frames: Sequence[Frame], script: str, root: str, project: Project) -> tuple[str, str]:
    """(folder below workdir, why) in which a script, named relative to it, was started."""
    file = frames[0].file.replace("\\", "/") if frames else ""
    relative = posixpath.normpath(script)
    if root and file.endswith(f"/{relative}") and (file + "/").startswith(root + "/"):
        inside = file[: -len(relative)].rstrip("/")[len(root) :].strip("/")
        return posixpath.join(project.name, inside).rstrip("/"), f"the traceback's script is {file}, hence cd"
    return (
        project.name,
        f"{script} is assumed to be in {project.name}'s tree: the report does not say where it was started",
    )


def _imported_from(frames: Sequence[Frame], root: str) -> tuple[str, str, str] | None:
    """(folder, package, script's folder) where the frames import a package from outside of the script's folder."""
    files = [frame.file.replace("\\", "/") for frame in frames if places.kind(frame) == "own"]
    if not files or not root or not files[0].startswith(f"{root}/"):
        return None
    folder = posixpath.dirname(files[0])
    for file in files[1:]:
        if file.startswith(f"{root}/") and not file.startswith(f"{folder}/"):
            package = file[len(root) + 1 :].partition("/")[0]
            if package.isidentifier():
                return root, package, folder
    return None
