"""What a drafted case runs: the command of the report, where it runs, with which variables and files. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from reprokit.case import placeholders
from reprokit.core.redaction import for_shell
from reprokit.evidence import frames as places
from reprokit.intake import commands, failing_command, installing, scripts
from reprokit.intake.commands import CommandLine, Shell
from reprokit.intake.pieces import ReportPiece
from reprokit.intake.shown import Shown

WORKDIR = "/workspace"
_BY_COMPILERS = re.compile(r"COLLECT_|OFFLOAD_TARGET_|COMPILER_PATH$")
"""Variables that ``gcc -v`` prints, and that no one sets for a failure."""
_HOST_PATHS = frozenset(
    {
        *("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
        *("DYLD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDNN_PATH", "JAVA_HOME", "CONDA_PREFIX"),
        *("VIRTUAL_ENV", "HOME", "TMPDIR", "PWD", "USER"),
    }
)
"""Variables with folders of the reporter's machine; an image has its own."""
SCRIPT = re.compile(r"(?:^|\s)(?P<path>[\w./~+-]+\.(?:py|sh))(?=\s|$)")
_ELSEWHERE = re.compile(
    r"(?:(?<=[\s=\"'])|^)((?:[A-Za-z]:[\\/]|~/|/(?!(?:workspace|tmp|usr|bin|etc|dev|proc|sys|opt)\b))[\w./\\~+-]+)",
    re.M,
)
"""Absolute paths that no image contains."""
GUESSED = "the script in which the traceback begins; the report shows no arguments"
"""The comment on a command that the report does not state."""


@dataclass
class Running:
    """What a drafted case runs: ``command``, ``env`` and ``files`` of the format.

    ``notes``: place -> comments; ``missing``: as in a draft. ``setup``: the report's lines that prepare something;
    ``steps``: those, and builds, outside of the command, which has them as comments;
    ``compiles``: something is compiled; ``program``: the script that becomes a file; ``devices``: GPUs of the command.
    """

    command: str = ""
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    notes: dict[tuple[str | int, ...], tuple[str, ...]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    setup: list[CommandLine] = field(default_factory=list)
    steps: list[CommandLine] = field(default_factory=list)
    compiles: bool = False
    program: scripts.Script | None = None
    devices: int = 0


def shells(pieces: Sequence[ReportPiece], taken: Sequence[tuple[int, int]]) -> list[Shell]:
    """The command lines of all pieces, except in the spans ``taken`` (environments, tracebacks)."""
    found = []
    for piece in pieces:
        if piece.kind in ("tree", "traceback", "heading"):
            continue
        read = commands.in_prose(piece, taken) if piece.kind == "prose" else [commands.read(piece, taken)]
        found += [shell for shell in read if shell.lines]
    return found


def run(found: Sequence[Shell], shown: Shown | None, pieces: Sequence[ReportPiece]) -> Running:
    """What to run: the report's command lines, else the program that it quotes; with its variables and files.

    ``found``: of :func:`shells`; ``shown``: the failure of the report; ``pieces``: all of the report.
    """
    result = Running()
    chosen = failing_command.chosen(found, shown)
    lines = failing_command.sequence(found, chosen, shown, pieces) if chosen else []
    programs = scripts.programs(pieces)
    program = _program(programs, pieces, chosen)
    if program is not None and chosen and not _calls(chosen, program) and _better(program, chosen, shown):
        chosen, lines = None, []
    ran = set(lines)
    result.setup = [line for shell in found for line in shell.of("setup") if line not in ran]
    result.steps = failing_command.others(found, chosen, lines)
    result.compiles = any(
        commands.BUILDS.search(line.text) for shell in found for line in shell.of("run", "setup", "prep")
    )
    if program is not None:
        program = scripts.completed(_traced(program, shown))
        result.program = program
        where = f"lines {program.piece.line} to {program.piece.last}"
        if lines or not program.alone:
            result.files[program.name] = program.text
            why = "" if program.named else "; the report does not name it"
            result.notes[("files", program.name)] = (f"{where}{why}",)
        result.missing += program.missing
    if lines:
        _command(result, lines)
    elif program is not None:
        result.command = program.start if _has_engine(program, pieces) else placeholders.COMMAND
        why = "the report shows a program but no command for it"
        result.notes[("command",)] = (f"line {program.piece.line}" if program.alone else why,)
        result.compiles = result.compiles or program.compiles
    elif script := _started(shown):
        result.command = f"python {script}"
        result.notes[("command",)] = (GUESSED,)
    if result.command and result.steps:
        result.command = held(result.steps) + result.command.rstrip("\n") + "\n"
    _variables(result, found, chosen)
    _beside(result, programs)
    _configs(result, pieces)
    return result


def _has_engine(program: scripts.Script, pieces: Sequence[ReportPiece]) -> bool:
    """Whether it is known what runs a program: SQLite runs SQL only where the report is about that."""
    return program.language.suffix != ".sql" or any("sqlite" in piece.text[:20_000].lower() for piece in pieces)


def _beside(result: Running, found: Sequence[scripts.Script]) -> None:
    """Put the other programs into the case that the command names, or that a program of the case imports."""
    named = [one for one in sorted(found, key=lambda one: one.piece.line) if one.named and one.name not in result.files]
    added = True
    while named and added:
        texts = [_IMPORTS.findall(text) for text in result.files.values()]
        used = "\n".join([result.command, *(f"import {name}" for names in texts for name in names)])
        added = False
        for one in list(named):
            stem = posixpath.basename(one.name).rpartition(".")[0]
            if re.search(rf"(?<![\w./-]){re.escape(one.name)}(?!\w)|^import {re.escape(stem)}$", used, re.MULTILINE):
                named.remove(one)
                if one.name not in result.files:
                    added = True
                    result.files[one.name] = one.text
                    result.notes[("files", one.name)] = (f"lines {one.piece.line} to {one.piece.last}",)


_IMPORTS = re.compile(r"^\s*(?:from|import)\s+\.?([\w.]{1,80})", re.MULTILINE)


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names for a sentence; only the first ``most`` of many."""
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _program(
    found: Sequence[scripts.Script], pieces: Sequence[ReportPiece], chosen: Shell | None
) -> scripts.Script | None:
    """The program to put into the case: the one that the command calls by name, else the most likely example.

    An example without a name gets that of the only script that the command starts, where no other program has it.
    """
    if chosen is None or not chosen.of("run"):
        whole = next((program for program in found if program.whole), None)
        return whole or next(iter(found), None)
    called = [one for one in found if _calls(chosen, one) and (one.whole or "/" not in one.name)]
    if called:
        return called[0]
    best = next((program for program in found if not program.named), None)
    names = [hit["path"] for line in chosen.of("run") for hit in SCRIPT.finditer(line.text)]
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
    stem = name.removesuffix(".py")
    called = rf"(?<![\w.-]){re.escape(name)}(?![\w.-])|\s-m\s+{re.escape(stem)}(?=\s|$)"
    return any(re.search(called, line.text) for line in shell.of("run"))


def _better(program: scripts.Script, shell: Shell, shown: Shown | None) -> bool:
    """Whether a quoted program, rather than a command somewhere in the text, is what fails."""
    if not shell.of("run"):
        return program.whole and not (shown and shown.building)
    started = not program.compiles or re.search(r"\bmain\b", program.text)  # a test is of the tree that is tested
    if failing_command.score(shell, shown) >= failing_command.SURE or not started:
        return False
    return program.score >= 6 or (program.score >= 4 and not failing_command.REPRODUCE.search(shell.piece.under))


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
                lines.append(held([line]).rstrip("\n"))
                continue
            depth += len([part for part in folder.split("/") if part not in ("", ".", "..")]) - up
        elif line.role == "export" and ("$" not in text or text.partition("=")[0].split()[-1] in _HOST_PATHS):
            taken = [_variable(result, *one, line.line) for one in commands.exported(text).items()]
            if not all(taken):
                lines.append(held([line]).rstrip("\n"))
            continue
        elif not re.search(r"&&|;|\|", text):
            variables, rest = commands.assignments(text)
            if variables and not any("$" in value for value in variables.values()):
                for name, value in variables.items():
                    _variable(result, name, value, line.line)
                text = rest
        lines.append(text)
    lines = _served(lines)
    result.command = "\n".join(lines) + ("\n" if len(lines) > 1 or "\n" in "".join(lines) else "")
    first, last = found[0].line, found[-1].line + found[-1].text.count("\n")
    result.notes[("command",)] = (f"line {first}" if first == last else f"lines {first} to {last}",)
    if re.search(r"<[\w -]+>|\bpath/to\b|/xxx|\.\.\./|\bxxx\b", for_shell(result.command)):
        result.missing.append("The command contains placeholders (<...>, path/to, xxx): fill them in.")
    if elsewhere := list(dict.fromkeys(_ELSEWHERE.findall(result.command))):
        result.missing.append(f"The command uses paths of the reporter's machine: {listed(elsewhere)}.")


def _served(lines: Sequence[str]) -> list[str]:
    """A sequence in which a server runs beside the requests to it, which wait until it listens."""
    at, ask = next(((at, hit) for at, line in enumerate(lines) if (hit := commands.ASKS.match(line))), (0, None))
    started = [number for number in range(at) if lines[number].strip() and not lines[number].startswith("#")]
    if ask is None or not started:
        return list(lines)
    server = lines[started[-1]].rstrip()
    port = ask["port"] or "80"
    waits = f"for _ in $(seq 300); do (: < /dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 1; done"
    return [*lines[: started[-1]], server if server.endswith("&") else f"{server} &", waits, *lines[started[-1] + 1 :]]


def held(setup: Sequence[CommandLine]) -> str:
    """Steps of the report as comments of a shell, which say where the case has what they install."""
    lines = []
    for line in setup[:_HELD]:
        program = commands.program_of(line.text) if line.role in ("setup", "elsewhere") else ""
        found = installing.installs([line])
        where = (
            "the image has" if found.pip or found.apt or found.dnf else "sources" if program == "git" else "not here"
        )
        lines += [f"# {where}: {part}\n" for part in commands.portable(line.text).split("\n")]
    return "".join(lines)


_HELD = 12
"""Most steps that a command lists as comments."""


def _devices(variables: Mapping[str, str]) -> int:
    text = variables.get("CUDA_VISIBLE_DEVICES", "")
    return len(text.split(",")) if re.fullmatch(r"\d+(?:,\d+)*", text) else 0


def _variables(result: Running, found: Sequence[Shell], chosen: Shell | None) -> None:
    """Take the variables that exports set, except folders of the reporter's machine, and those with which it works."""
    taken: list[int] = []
    for shell in found:
        for line in shell.of("export"):
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
    elif _BY_COMPILERS.match(name):
        return False
    elif name in _HOST_PATHS or (name == "PYTHONPATH" and re.search(r"[$~]|^/home|^/Users|^[A-Z]:", value)):
        result.missing.append(f"line {line} sets {name} to folders of the reporter's machine; left out.")
        return False
    elif "<" in value:
        result.missing.append(f"line {line} sets {name} to something that was removed from the report or the case.")
        return False
    result.env.setdefault(name, value)
    return True


_SUFFIXES = {"yaml": "ya?ml", "yml": "ya?ml"}


def _configs(result: Running, pieces: Sequence[ReportPiece]) -> None:
    """Put data and configuration that the command or its program names into files; note other configuration."""
    used = "\n".join([result.command, *result.files.values()])
    for name, piece in scripts.data_files(pieces):
        where = f"lines {piece.line} to {piece.last}"
        # a fence without a name is the only file of its kind that the command names
        ends = sorted(
            set(re.findall(rf"(?<![\w./~-])[\w-]+\.{_SUFFIXES.get(piece.info, piece.info)}(?!\w)", result.command))
        )
        name = name or (ends[0] if piece.info in scripts.CONFIGS and len(ends) == 1 else "")
        named = re.search(rf"(?<![\w./~-])((?:[\w-]+/)*{re.escape(name)})(?!\w)", used) if name else None
        if named and named[1] not in result.files:
            result.files[named[1]] = piece.text.strip("\n") + "\n"
            result.notes[("files", named[1])] = (f"{where}; the command or its program names it",)
        elif not named and piece.info in scripts.CONFIGS and "\n" in piece.text.strip():
            kind = piece.info.upper()
            result.missing.append(f"{where} show {kind} configuration that no command uses: it is not in the case.")
