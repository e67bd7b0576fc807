"""What a drafted case runs: the command of the report, where it runs, with which variables and files. Pure."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from reprokit.core.redaction import for_shell
from reprokit.evidence import frames as places
from reprokit.evidence.model import Frame
from reprokit.intake import commands, installing, projects, scripts, spoken_commands
from reprokit.intake.commands import CommandLine, Shell
from reprokit.intake.failure import Shown
from reprokit.intake.pieces import ReportPiece
from reprokit.intake.projects import Project

WORKDIR = "/workspace"
_HOST_PATHS = frozenset(
    {
        *("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
        *("DYLD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDNN_PATH", "JAVA_HOME", "CONDA_PREFIX"),
        *("VIRTUAL_ENV", "HOME", "TMPDIR", "PWD", "USER"),
    }
)
"""Variables with folders of the reporter's machine; an image has its own."""
_REPRODUCE = re.compile(
    r"reproduc|repro\b|command|to run|how to|steps|script|run\b|ran\b|launch|train|invoke|execut|复现|重现|命令"
    r"|指令|运行"
    r"|执行|训练|启动|尝试",
    re.IGNORECASE,
)
_SCRIPT = re.compile(r"(?:^|\s)(?P<path>[\w./~+-]+\.(?:py|sh))(?=\s|$)")
_ELSEWHERE = re.compile(
    r"(?:(?<=[\s=\"'])|^)((?:[A-Za-z]:[\\/]|~/|/(?!(?:workspace|tmp|usr|bin|etc|dev|proc|sys|opt)\b))[\w./\\~+-]+)",
    re.M,
)
"""Absolute paths that no image contains."""
_INSTALLS = re.compile(r"\binstall\b|setup\.py\s+\w+|^(?:make|cmake|ninja|bazel|meson|uv|conda|mamba)\b|\bbuild")
_MODULE = re.compile(r"\s-m\s+(?P<module>[\w.]+)")
GUESSED = "the script in which the traceback begins; the report shows no arguments"
"""The comment on a command that the report does not state."""


@dataclass
class Running:
    """What a drafted case runs: ``command``, ``env`` and ``files`` of the format.

    ``notes``: place -> comments; ``missing``: as in a draft. ``setup``: the report's lines that prepare something;
    ``compiles``: something is compiled; ``program``: the script that becomes a file; ``devices``: GPUs of the command.
    """

    command: str = ""
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    notes: dict[tuple[str | int, ...], tuple[str, ...]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    setup: list[CommandLine] = field(default_factory=list)
    compiles: bool = False
    program: scripts.Script | None = None
    devices: int = 0


def shells(pieces: Sequence[ReportPiece], taken: Sequence[tuple[int, int]]) -> list[Shell]:
    """The command lines of all pieces, except in the spans ``taken`` (environments, tracebacks)."""
    found = []
    for piece in pieces:
        if piece.kind in ("tree", "traceback", "heading"):
            continue
        read = spoken_commands.in_prose(piece, taken) if piece.kind == "prose" else [commands.read(piece, taken)]
        found += [shell for shell in read if shell.lines]
    return found


def run(found: Sequence[Shell], shown: Shown | None, pieces: Sequence[ReportPiece]) -> Running:
    """What to run: the report's command lines, else the program that it quotes; with its variables and files.

    ``found``: of :func:`shells`; ``shown``: the failure of the report; ``pieces``: all of the report.
    """
    result = Running()
    chosen = _chosen(found, shown)
    lines = _sequence(found, chosen, shown) if chosen else []
    program = _program(pieces, chosen)
    if program is not None and chosen and not _calls(chosen, program) and _better(program, chosen, shown):
        chosen, lines = None, []
    ran = set(lines)
    result.setup = [line for shell in found for line in shell.of("setup") if line not in ran]
    result.compiles = any(
        commands.BUILDS.search(line.text) for shell in found for line in shell.of("run", "setup", "prep")
    )
    if program is not None:
        program = _traced(program, shown)
        result.program = program
        result.files[program.name] = program.text
        why = "" if program.named else "; the report does not name it"
        result.notes[("files", program.name)] = (f"lines {program.piece.line} to {program.piece.last}{why}",)
        result.missing += program.missing
    if lines:
        _command(result, lines)
    elif program is not None:
        result.command = program.start
        result.notes[("command",)] = ("the report shows a program but no command for it",)
        result.compiles = result.compiles or program.compiles
    elif script := _started(shown):
        result.command = f"python {script}"
        result.notes[("command",)] = (GUESSED,)
    _variables(result, found, chosen)
    _configs(result, pieces)
    return result


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names for a sentence; only the first ``most`` of many."""
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _program(pieces: Sequence[ReportPiece], chosen: Shell | None) -> scripts.Script | None:
    """The program to put into the case: the one that the command calls by name, else the most likely example.

    An example without a name gets that of the only script that the command starts, where no other program has it.
    """
    found = scripts.programs(pieces)
    if chosen is None:
        return next(iter(found), None)
    called = [program for program in found if _calls(chosen, program)]
    if called:
        return called[0]
    best = next((program for program in found if not program.named), None)
    names = [hit["path"] for line in chosen.of("run") for hit in _SCRIPT.finditer(line.text)]
    if best and len(names) == 1 and not best.missing and re.fullmatch(r"(?:\./)?[\w-]+\.\w+", names[0]):
        name = names[0].removeprefix("./")
        if name.rpartition(".")[2] == best.name.rpartition(".")[2]:
            return replace(best, name=name)
    return next(iter(found), None)


def _started(shown: Shown | None) -> str:
    """The script of the reporter in which a traceback begins, where it was named relative to the current folder."""
    first = next(iter(shown.frames if shown else ()), None)
    file = first.file.replace("\\", "/") if first else ""
    fits = first and first.function == "<module>" and re.fullmatch(r"(?:[\w-]+/)*[\w-]+\.py", file)
    return file if first and fits and places.kind(first) == "own" else ""


def _traced(program: scripts.Script, shown: Shown | None) -> scripts.Script:
    """The program with the name that the traceback gives the started script, where the report names it nowhere else."""
    frames = [frame for frame in (shown.frames if shown else ()) if frame.function == "<module>"][:1]
    name = posixpath.basename(frames[0].file.replace("\\", "/")) if frames else ""
    fits = re.fullmatch(r"[\w-]+\.py", name) and program.name == "repro.py" and not program.named
    own = fits and places.kind(frames[0]) == "own" and frames[0].line <= program.text.count("\n") + 5
    return replace(program, name=name, named=True) if own else program


def _calls(shell: Shell, program: scripts.Script) -> bool:
    name = posixpath.basename(program.name)
    return any(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", line.text) for line in shell.of("run"))


def _better(program: scripts.Script, shell: Shell, shown: Shown | None) -> bool:
    """Whether a quoted program, rather than a command somewhere in the text, is what fails."""
    if not shell.of("run"):
        return program.whole and not (shown and shown.building)
    if _score(shell, shown) >= _SURE:
        return False
    return program.score >= 6 or (program.score >= 4 and not _REPRODUCE.search(shell.piece.under))


_MOST = 200
"""Most lines of one command."""
_SURE = 10
"""The score of a shell whose command failed for sure: it starts the traceback's script, or prints the failure."""
_FINE = re.compile(
    r"\b(?:works?|worked|fine|fix(?:e[ds])?|solve[ds]?|workaround|resolved?|instead|succeeds?|expected"
    r"|(?:without|no) (?:error|problem|issue)s?)\b|正常|可以|解决|没有?问题|成功",
    re.IGNORECASE,
)
"""Words around a command that does not fail."""
_EXACT = re.compile(
    r"\b(?:exact|failing|following) command|command (?:to reproduce|used|executed|line)\b|复现命令|执行命令|运行命令",
    re.IGNORECASE,
)
"""Words before the command that failed."""
_OR = re.compile(r"\b(?:or|alternatively|either|otherwise|if)\b|或者|否则|如果", re.IGNORECASE)


def _failing(shell: Shell, shown: Shown | None, only: bool) -> bool:
    """Whether a shell has a line that may be what failed: an installation where that failed, or nothing else runs."""
    return bool(shell.of("run") or (shell.of("setup") and (only or (shown and shown.building))))


def _chosen(found: Sequence[Shell], shown: Shown | None) -> Shell | None:
    """The shell whose command failed, the first of the most likely ones; an installation only where nothing runs."""
    only = not any(shell.of("run") for shell in found) and (shown is None or shown.building or not shown.frames)
    candidates = [shell for shell in found if _failing(shell, shown, only)]
    before = [shell for shell in candidates if shown and shell.lines[0].line <= shown.line]
    scores = [_score(shell, shown) + 2 * bool(before and shell is before[-1]) for shell in candidates]
    return candidates[scores.index(max(scores))] if candidates else None


def _score(shell: Shell, shown: Shown | None) -> int:
    """How likely a shell has the command that failed."""
    texts = [line.text for line in shell.of("run", "setup")]
    script = posixpath.basename(shown.frames[0].file.replace("\\", "/")) if shown and shown.frames else ""
    building = bool(shown and shown.building)
    prints = shown is not None and shell.lines[0].line < shown.line <= shell.piece.last and not shell.said
    return (
        12 * (script.endswith(".py") and any(script in text for text in texts))
        + 10 * (prints and shell.piece.kind != "prose")
        + 6 * (building and any(_INSTALLS.search(text) for text in texts))
        + 4 * bool(_REPRODUCE.search(shell.piece.under) or _REPRODUCE.search(shell.said))
        + 6 * bool(_EXACT.search(shell.said))
        + 3 * (not shell.said)
        - 8 * bool(_FINE.search(shell.said or shell.piece.lead))
    )


def _sequence(found: Sequence[Shell], chosen: Shell, shown: Shown | None) -> list[CommandLine]:
    """The lines of the chosen shell, behind those of shells right above it that prepare them, up to the failure.

    Without installations that a case holds elsewhere, unless such a one failed.
    """
    shells = [chosen]
    at = next(number for number, shell in enumerate(found) if shell is chosen)
    for shell in reversed(found[:at]):
        if not _goes_on(shell, shells[0], shown):
            break
        shells.insert(0, shell)
    for shell in found[at + 1 :] if not shown or not chosen.lines[0].line <= shown.line <= chosen.piece.last else ():
        if not _goes_on(shells[-1], shell, shown):
            break
        shells.append(shell)
    lines = [line for shell in shells for line in shell.lines][:_MOST]
    if shown and lines and lines[0].line < shown.line <= chosen.piece.last:
        lines = [line for line in lines if line.line <= shown.line]
    installs = not any(line.role == "run" for line in lines) or bool(
        shown and shown.building and not any(line.role == "run" for line in chosen.lines)
    )
    lines = [
        line if line.role != "setup" or _stays(line, installs) else replace(line, role="elsewhere") for line in lines
    ]
    while lines and lines[-1].role not in ("run", "setup"):
        lines.pop()
    return lines


def _goes_on(shell: Shell, below: Shell, shown: Shown | None) -> bool:
    """Whether the commands of one shell are the next steps after those of another, with no failure between them."""
    near = below.lines[0].line - shell.lines[-1].line <= 8 and shell.piece.heading == below.piece.heading
    text = below.said or below.piece.lead
    if shell.said or below.said or not near or _OR.search(text) or _FINE.search(text) or _same(shell, below):
        return False
    return not (shown and shell.lines[-1].line < shown.line < below.lines[0].line)


def _stays(line: CommandLine, installs: bool) -> bool:
    """Whether an installation is a part of the command: it failed, or it is of a tree. Trees come from ``sources``."""
    return (installs or installing.of_tree(line)) and not re.match(
        r"\s*git\s+(?:clone|checkout|switch|submodule)", line.text
    )


def _same(one: Shell, other: Shell) -> bool:
    """Whether both run the same kind of program, so that they are two tries rather than two steps."""
    kinds = [{commands.program_of(line.text) for line in shell.of("run")} for shell in (one, other)]
    return bool(kinds[0] & kinds[1] - {"cmake", "make", "ninja"})


def _command(result: Running, found: Sequence[CommandLine]) -> None:
    """The lines that run, with the ``cd`` before them; ``A=b`` before a command goes to the environment variables."""
    lines: list[str] = []
    depth = 0
    for line in found:
        text = commands.portable(line.text)
        if line.role == "elsewhere":
            lines.append(held([line]).rstrip("\n"))
            continue
        if line.role == "cd":
            folder = text.split(maxsplit=1)[1].strip("\"' /") if " " in text else ""
            up = folder.count("..")
            if text.split()[-1].startswith(("/", "~", "$")) or re.match(r"[A-Za-z]:|<", folder) or up > depth:
                result.missing.append(f"line {line.line}: {text} uses a folder of the reporter's machine; left out.")
                continue
            depth += len([part for part in folder.split("/") if part not in ("", ".", "..")]) - up
        elif line.role == "export" and ("$" not in text or text.partition("=")[0].split()[-1] in _HOST_PATHS):
            continue
        elif not re.search(r"&&|;|\|", text):
            variables, rest = commands.assignments(text)
            if variables and not any("$" in value for value in variables.values()):
                for name, value in variables.items():
                    _variable(result, name, value, line.line)
                text = rest
        lines.append(text)
    result.command = "\n".join(lines) + ("\n" if len(lines) > 1 or "\n" in "".join(lines) else "")
    first, last = found[0].line, found[-1].line + found[-1].text.count("\n")
    result.notes[("command",)] = (f"line {first}" if first == last else f"lines {first} to {last}",)
    if re.search(r"<[\w -]+>|\bpath/to\b|/xxx|\.\.\./|\bxxx\b", for_shell(result.command)):
        result.missing.append("The command contains placeholders (<...>, path/to, xxx): fill them in.")
    if elsewhere := list(dict.fromkeys(_ELSEWHERE.findall(result.command))):
        result.missing.append(f"The command uses paths of the reporter's machine: {listed(elsewhere)}.")


def held(setup: Sequence[CommandLine]) -> str:
    """Installations as comments of a shell, which say where the case has what they install."""
    lines = []
    for line in setup[:_HELD]:
        program = commands.program_of(line.text)
        where = {"git": "sources"}.get(program, "the image has" if program in ("pip", "apt", "apt-get") else "not here")
        lines += [f"# {where}: {part}\n" for part in commands.portable(line.text).split("\n")]
    return "".join(lines)


_HELD = 12
"""Most installations that a command without another line lists."""


def _devices(variables: Mapping[str, str]) -> int:
    text = variables.get("CUDA_VISIBLE_DEVICES", "")
    return len(text.split(",")) if re.fullmatch(r"\d+(?:,\d+)*", text) else 0


def _variables(result: Running, found: Sequence[Shell], chosen: Shell | None) -> None:
    """Take the variables that exports set, except folders of the reporter's machine, and those with which it works."""
    taken: list[int] = []
    for shell in found:
        for line in () if _FINE.search(shell.said) else shell.of("export"):
            for name, value in commands.exported(line.text).items():
                if "$" in value or "`" in value:
                    kept = shell is chosen or name in _HOST_PATHS
                    result.missing += [] if kept else [f"line {line.line} sets {name} to {value}: not in the case."]
                elif _variable(result, name, value, line.line):
                    taken.append(line.line)
    if taken:
        first, last = min(taken), max(taken)
        result.notes[("env",)] = (f"line {first}" if first == last else f"lines {first} to {last}",)


def _variable(result: Running, name: str, value: str, line: int) -> bool:
    """Set a variable of the case; False where it is about the reporter's machine."""
    if name == "CUDA_VISIBLE_DEVICES":
        result.devices = _devices({name: value}) or result.devices
        if value not in ("", "-1", ",".join(map(str, range(result.devices)))):
            return False
    elif name in _HOST_PATHS or (name == "PYTHONPATH" and re.search(r"[$~]|^/home|^/Users|^[A-Z]:", value)):
        result.missing.append(f"line {line} sets {name} to folders of the reporter's machine; left out.")
        return False
    elif "<" in value:
        result.missing.append(f"line {line} sets {name} to something that was removed from the report or the case.")
        return False
    result.env.setdefault(name, value)
    return True


def _configs(result: Running, pieces: Sequence[ReportPiece]) -> None:
    """Put configuration that the command names into a file; note other snippets."""
    named = re.findall(r"[\w./-]+\.(?:ya?ml|json|ini|cfg|toml)\b", result.command)
    for config in scripts.configs(pieces):
        where = f"lines {config.piece.line} to {config.piece.last}"
        path = next(
            (name for name in named if config.name and posixpath.basename(name) == posixpath.basename(config.name)), ""
        )
        alone = [
            name
            for name in named
            if (name.rpartition(".")[2] in ("yml", "yaml") and config.kind == "yaml") or name.endswith(config.kind)
        ]
        if not path and not config.name and len(set(alone)) == 1 and "/" not in alone[0]:
            path = alone[0]
        path = posixpath.normpath(path) if path else ""
        if path and not path.startswith(("/", "..", "~")) and path not in result.files:
            result.files[path] = config.piece.text.strip("\n") + "\n"
            result.notes[("files", path)] = (f"{where}; the command names it",)
        elif not path:
            result.missing.append(
                f"{where} show {config.kind.upper()} configuration that no command uses: it is not in the case."
            )


# -- where it runs -------------------------------------------------------------------------------------------------


def needs_tree(result: Running, shown: Shown | None) -> str:
    """The script that the command starts but the case does not contain, '' where there is none.

    Where the report shows no command: the script in which its traceback begins, if it belongs to a known project.
    """
    if not result.command and shown and projects.in_frames(shown.frames):
        return shown.frames[0].file
    for script in _SCRIPT.finditer(result.command.replace("\\\n", " ")):
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
    script = _SCRIPT.search(result.command.replace("\\\n", " "))
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
    if _MODULE.search(result.command) or "PYTHONPATH" in result.env or "PYTHONPATH" in result.command:
        return
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
