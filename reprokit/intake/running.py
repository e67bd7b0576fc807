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
from reprokit.intake import commands, projects, scripts
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
_ASKED = re.compile(r"\bcommands?\b|命令|指令", re.IGNORECASE)
_OPTION = re.compile(r"\s*[a-z][\w.+/-]*(?:\s+\S+){0,3}?\s+--?[A-Za-z]")
_MOST = 50
"""Most lines of one command."""
_INSTALLS = re.compile(r"pip\S* install\b|setup\.py\s+\w+|^(?:make|cmake|ninja)\b")
_MODULE = re.compile(r"\s-m\s+(?P<module>[\w.]+)")


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
        shell = _inline(piece, taken) if piece.kind == "prose" else commands.read(piece, taken)
        if shell.lines:
            found.append(shell)
    return found


_RAN = re.compile(
    r"(?:\bran|\brun(?:ning)?|\bexecut\w+|\bstart\w*|运行|执行|使用)(?:了|命令|指令)?[:：]?\s*(?P<rest>(?:python[\d.]*|torchrun|bash|sh|pip3?|make)\s[^,，。；;`\n]{2,300})",
    re.IGNORECASE,
)


def _inline(piece: ReportPiece, taken: Sequence[tuple[int, int]]) -> Shell:
    """Commands in prose: in backticks, after a form's ``Command:``, or alone on a line."""
    shell = Shell(piece)
    lines = piece.text.split("\n")
    for number, line in enumerate(lines):
        if len(line) > 5000 or commands.within(piece.line + number, taken):
            continue
        spans = re.findall(r"`([^`\n]{3,2000})`", line)
        labelled = re.match(
            r"^\s*(?:[-*]\s*)?[^:：`]{0,60}(?:command|run|指令|命令|运行)[^:：`\n]{0,30}[:：]\s*(?P<rest>\S.*)$",
            line,
            re.IGNORECASE,
        )
        bare = re.match(
            r"^\s*(?:[-*$]\s*)?(?P<rest>(?:export|[A-Z_]+=\S+\s+\S|python[\d.]*\s+\S|torchrun\s|pip3? install\s"
            r"|apt(?:-get)? install\s|git clone\s).*)$",
            line,
        )
        ran = _RAN.search(line)
        # Under a heading that asks for the command, any line with an option is one, even of an unknown program.
        asked = _ASKED.search(piece.heading) and _OPTION.match(line)
        hits = [hit["rest"] for hit in (labelled, bare, ran) if hit and not spans]
        for text in [*spans, *(hits[:1] or ([line] if asked and not spans else []))]:
            text = _continued(text.strip(), lines[number + 1 : number + 1 + _MOST])
            role = commands.role_of(text) or ("run" if asked else "")
            if role and (role != "run" or " " in text):
                shell.lines.append(CommandLine(text=text, line=piece.line + number, role=role))
    # The same line may be found twice.
    shell.lines = list(dict.fromkeys(shell.lines))
    return shell


def _continued(text: str, following: Sequence[str]) -> str:
    """A command with the lines that continue it, after backslashes."""
    for line in following:
        if not text.endswith("\\"):
            break
        text += f"\n{line.rstrip()}"
    return text.rstrip("\\").rstrip()


def run(found: Sequence[Shell], shown: Shown | None, pieces: Sequence[ReportPiece]) -> Running:
    """What to run: the report's command line, else the program that it quotes; with its variables and files.

    ``found``: of :func:`shells`; ``shown``: the failure of the report; ``pieces``: all of the report.
    """
    result = Running()
    result.setup = [line for shell in found for line in shell.of("setup")]
    result.compiles = any(
        commands.BUILDS.search(line.text) for shell in found for line in shell.lines if line.role in ("run", "setup")
    )
    if shown and shown.building and not any(shell.of("run") for shell in found):
        _building(result, found)
    chosen = _chosen(found, shown)
    program = _program(pieces, chosen)
    if program is not None:
        result.program = program
        result.files[program.name] = program.text
        why = "" if program.named else "; the report does not name it"
        result.notes[("files", program.name)] = (f"lines {program.piece.line} to {program.piece.last}{why}",)
        if program.undefined:
            result.missing.append(f"{program.name} uses {listed(program.undefined)}, but does not define or import it.")
    if chosen is not None and not (program is not None and not _calls(chosen, program) and _better(program, chosen)):
        _command(result, chosen)
    elif program is not None:
        result.command = _start(program)
        result.notes[("command",)] = ("the report shows a program but no command for it",)
        result.compiles = result.compiles or not program.name.endswith(".py")
    _variables(result, found, chosen)
    _configs(result, pieces)
    return result


def _building(result: Running, found: Sequence[Shell]) -> None:
    """The installation failed: its lines become the command, rather than setup."""
    for shell in found:
        shell.lines = [
            replace(line, role="run") if line.role == "setup" and _INSTALLS.search(line.text) else line
            for line in shell.lines
        ]
    result.setup = [line for shell in found for line in shell.of("setup")]
    result.compiles = True


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names for a sentence; only the first ``most`` of many."""
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _start(program: scripts.Script) -> str:
    stem = program.name.rpartition(".")[0]
    if program.name.endswith(".py"):
        return f"python {program.name}"
    compiler = "nvcc" if program.name.endswith(".cu") else "gcc" if program.name.endswith(".c") else "g++"
    return f"{compiler} -o {posixpath.basename(stem)} {program.name}\n./{posixpath.basename(stem)}\n"


def _program(pieces: Sequence[ReportPiece], chosen: Shell | None) -> scripts.Script | None:
    """The program to put into the case: the one that the command calls by name, else the most likely example."""
    found = scripts.programs(pieces)
    if chosen is not None:
        called = [program for program in found if _calls(chosen, program)]
        if called:
            return called[0]
        if chosen.piece.kind != "prose" and any(_SCRIPT.search(line.text) for line in chosen.of("run")):
            return None
    return next(iter(found or scripts.compiled(pieces)), None)


def _calls(shell: Shell, program: scripts.Script) -> bool:
    name = posixpath.basename(program.name)
    return program.named and any(
        re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", line.text) for line in shell.of("run")
    )


def _better(program: scripts.Script, shell: Shell) -> bool:
    """Whether a quoted program, rather than a command somewhere in the text, is what fails."""
    return program.score >= 6 or (program.score >= 4 and not _REPRODUCE.search(shell.piece.under))


def _chosen(found: Sequence[Shell], shown: Shown | None) -> Shell | None:
    """The piece whose command failed: one that starts the traceback's script, else one with the failure in its output,
    else one below a heading about reproducing, else the first. Pasted commands are preferred to those in prose.
    """
    running = [shell for shell in found if shell.of("run")]
    script = posixpath.basename(shown.frames[0].file.replace("\\", "/")) if shown and shown.frames else ""
    starts = [
        shell for shell in running if script.endswith(".py") and any(script in line.text for line in shell.of("run"))
    ]
    fenced = [shell for shell in running if shell.piece.kind != "prose"]
    if starts:
        return next((shell for shell in starts if shell in fenced), starts[0])
    showing = [shell for shell in fenced if shown and shell.of("run")[0].line < shown.line <= shell.piece.last]
    if showing:
        return showing[0]
    headed = [shell for shell in running if _REPRODUCE.search(shell.piece.under)]
    both = [shell for shell in fenced if shell in headed]
    return next(iter(both or headed or fenced or running), None)


def _command(result: Running, chosen: Shell) -> None:
    """The lines that run, with the ``cd`` before them; ``A=b`` before a command goes to the environment variables."""
    lines: list[str] = []
    texts = [line for line in chosen.lines if line.role in ("run", "cd")]
    while texts and texts[-1].role == "cd":
        texts.pop()
    for line in texts:
        text = commands.portable(line.text)
        if line.role == "cd":
            folder = text.split(maxsplit=1)[1].strip("\"' /") if " " in text else ""
            if text.split()[-1].startswith(("/", "~", "$")) or re.match(r"[A-Za-z]:|<|\.\.", folder):
                result.missing.append(f"line {line.line}: {text} uses a folder of the reporter's machine; left out.")
                continue
        elif not re.search(r"&&|;|\|", text):
            variables, rest = commands.assignments(text)
            if variables and not any("$" in value for value in variables.values()):
                result.env |= {name: value for name, value in variables.items() if name != "CUDA_VISIBLE_DEVICES"}
                result.devices = _devices(variables) or result.devices
                text = rest
        lines.append(text)
    result.command = "\n".join(lines) + ("\n" if len(lines) > 1 or "\n" in "".join(lines) else "")
    first, last = texts[0].line, texts[-1].line + texts[-1].text.count("\n")
    result.notes[("command",)] = (f"line {first}" if first == last else f"lines {first} to {last}",)
    if re.search(r"<[\w -]+>|\bpath/to\b|/xxx|\.\.\./|\bxxx\b", for_shell(result.command)):
        result.missing.append("The command contains placeholders (<...>, path/to, xxx): fill them in.")
    if elsewhere := list(dict.fromkeys(_ELSEWHERE.findall(result.command))):
        result.missing.append(f"The command uses paths of the reporter's machine: {listed(elsewhere)}.")


def _devices(variables: Mapping[str, str]) -> int:
    text = variables.get("CUDA_VISIBLE_DEVICES", "")
    return len(text.split(",")) if re.fullmatch(r"\d+(?:,\d+)*", text) else 0


def _variables(result: Running, found: Sequence[Shell], chosen: Shell | None) -> None:
    """Take exports beside the command, or alone in a piece; note those beside install commands without taking them."""
    taken: list[int] = []
    installing: dict[str, list[int]] = {}
    for shell in found:
        near = shell is chosen or not shell.of("setup")
        for line in shell.of("export"):
            for name, value in commands.exported(line.text).items():
                if name == "CUDA_VISIBLE_DEVICES":
                    result.devices = _devices({name: value}) or result.devices
                elif not near:
                    installing.setdefault(name, []).append(line.line)
                elif name in _HOST_PATHS or (name == "PYTHONPATH" and re.search(r"[$~]|^/home|^/Users|^[A-Z]:", value)):
                    result.missing.append(
                        f"line {line.line} sets {name} to folders of the reporter's machine; left out."
                    )
                elif "$" in value or "`" in value:
                    result.command = f"{line.text.strip()}\n{result.command}" if shell is chosen else result.command
                elif "<" in value:
                    result.missing.append(
                        f"line {line.line} sets {name} to something that was removed from the report or the case."
                    )
                else:
                    result.env.setdefault(name, value)
                    taken.append(line.line)
    if installing:
        at = ", ".join(str(number) for number in sorted({number for lines in installing.values() for number in lines}))
        result.missing.append(f"lines {at} set {listed(list(installing))} beside an installation: not in the case.")
    if taken:
        first, last = min(taken), max(taken)
        result.notes[("env",)] = (f"line {first}" if first == last else f"lines {first} to {last}",)


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
    if project is None or script is None or script["path"] in result.files:
        return
    cwd, why = _started_in(frames, script["path"], root, project)
    own = re.match(r"\s*cd\s+(\S+)", result.command)
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
