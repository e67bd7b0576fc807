"""What a drafted case runs: the command that failed, where the report shows which, its variables and files. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from reprokit.case import placeholders
from reprokit.core.redaction import for_shell
from reprokit.intake import commands, programs
from reprokit.intake.commands import CommandLine, Installed, Shell
from reprokit.intake.failures import ReportedFailure
from reprokit.intake.pieces import ReportPiece
from reprokit.intake.programs import Script
from reprokit.intake.stated import StatedFacts

_HOST_PATHS = frozenset(
    {
        *("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
        *("DYLD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDNN_PATH", "JAVA_HOME", "CONDA_PREFIX"),
        *("VIRTUAL_ENV", "HOME", "TMPDIR", "PWD", "USER"),
    }
)
"""Variables with folders of the reporter's machine; an image has its own."""
_SCRIPT = re.compile(r"(?:^|\s)(?P<path>[\w./~+-]+\.(?:py|sh))(?=\s|$)")
_ELSEWHERE = re.compile(
    r"(?:(?<=[\s=\"'])|^)((?:[A-Za-z]:[\\/]|~/|/(?!(?:workspace|tmp|usr|bin|etc|dev|proc|sys|opt)\b))[\w./\\~+-]+)",
    re.M,
)
"""Absolute paths that no image contains."""
_LISTED = 8
"""Most candidates, files or variables that a sentence names."""


@dataclass
class Running:
    """What a drafted case runs: ``command``, ``env`` and ``files`` of the format, with notes as in a draft."""

    command: str = ""
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    notes: dict[tuple[str | int, ...], tuple[str, ...]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    installed: Installed = field(default_factory=Installed)
    """What the report's commands install."""
    program: Script | None = None
    """The one that the command starts, where the report shows it."""
    script: str = ""
    """One that the command starts and the report does not show."""


def find_running(
    pieces: Sequence[ReportPiece], taken: Sequence[tuple[int, int]], shown: ReportedFailure | None, facts: StatedFacts
) -> Running:
    """What to run. ``taken``: spans of lines of other things; ``shown``: the failure of the report."""
    result = Running()
    found = commands.find_shells(pieces, taken)
    scripts = programs.find_scripts(facts.programs or pieces, stated=bool(facts.programs))
    if facts.commands:
        piece = ReportPiece(kind="fenced", text="", line=facts.commands[0].line, info="bash")
        chosen: Shell | None = Shell(piece, list(facts.commands))
        if facts.programs and scripts and chosen and not chosen.of("run"):
            found, chosen = [*found, chosen], None  # the program fails with what they install
    else:
        chosen = _choose_shell(result, found, shown, scripts)
    ran = {line.text for line in facts.commands if chosen}
    setup = [line for shell in found if shell is not chosen for line in shell.of("setup") if line.text not in ran]
    if chosen:
        builds = bool(shown and shown.building) or not chosen.of("run")
        _command(result, chosen, shown, builds=builds)
        setup += [] if builds else [line for line in chosen.of("setup") if not commands.installs_tree(line)]
    elif not result.missing:
        _program(result, scripts, commands.named_in_prose(pieces))
    if setup and not (chosen or scripts or shown or any(one.of("run") for one in found)):
        listed = "; ".join(map(_shown, setup[:_LISTED]))
        result.missing.append(f"The report's only commands install something: {listed}: one may be what fails.")
    else:
        result.installed = commands.read_installs(setup)
    for shell in found:
        if shell is not chosen and not shell.of("run"):
            for line in shell.of("export"):
                _export(result, line)
    _files(result, scripts, pieces, facts.programs)
    return result


def _choose_shell(
    result: Running, found: Sequence[Shell], shown: ReportedFailure | None, scripts: Sequence[Script]
) -> Shell | None:
    """The commands of which one failed; None where the report shows none, or several and not which."""
    ran = [shell for shell in found if shell.of("run")]
    if not ran and shown and shown.building:
        ran = [shell for shell in found if shell.of("setup")]
    printing = [one for one in ran if shown and one.lines[0].line < shown.line <= one.piece.last]
    script = posixpath.basename(shown.frames[0].file.replace("\\", "/")) if shown and shown.frames else ""
    started = [one for one in ran if script.endswith(".py") and any(script in line.text for line in one.of("run"))]
    sure = printing or started
    some = list({tuple(line.text for line in shell.lines): shell for shell in sure or ran}.values())
    whole = [one for one in scripts if one.whole]
    if not sure and any(one.ran for one in scripts):
        return None  # a traceback shows the program that failed
    # A command that starts a script: a program of the report may be that.
    if len(some) == 1 and (sure or not whole or any(_SCRIPT.search(line.text) for line in some[0].of("run"))):
        return some[0]
    if some:
        lines = [_shown(shell.lines[0]) for shell in some]
        lines += [f"{one.piece.where} (a program)" for one in whole if not sure]
        more = f" and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
        result.missing.append(
            f"The report shows several things that run, and not which of them failed: {'; '.join(lines[:_LISTED])}"
            f"{more}: write it under command."
        )
    return None


def _shown(line: CommandLine) -> str:
    return f"line {line.line} ({line.text.splitlines()[0][:60]})"


def _program(result: Running, scripts: Sequence[Script], named: Sequence[CommandLine]) -> None:
    """Run the only program of the report, or the only one of which a traceback shows lines.

    ``named``: commands in its sentences, of which one may be how the program was run.
    """
    ran = [one for one in scripts if one.ran] or [one for one in scripts if one.whole] or list(scripts)
    if len(ran) == 1:
        [program] = ran
        result.program = program
        if named and not program.ran:
            listed = "; ".join(map(_shown, named[:_LISTED]))
            result.missing.append(f"The report names commands in its text, and not which failed: {listed}.")
            return
        result.command = program.start
        if not result.command:
            result.missing.append(f"The report shows no command that compiles {program.name}: write it under command.")
            return
        result.notes[("command",)] = (f"the report shows a program ({program.piece.where}) and no command for it",)
        return
    if ran:
        listed = "; ".join(one.piece.where for one in ran[:_LISTED])
        result.missing.append(f"The report shows several programs, and not which of them failed: {listed}.")
    else:
        result.missing.append("The report shows no command and no program: write it under command.")


def _command(result: Running, shell: Shell, shown: ReportedFailure | None, *, builds: bool) -> None:
    """The lines of a shell up to the failure; ``A=b`` before a command goes to the environment variables.

    ``builds``: an installation failed, so that installations are run; else they are comments, and the image has them.
    """
    lines: list[str] = []
    taken = shell.lines
    if shown and taken[0].line < shown.line <= shell.piece.last:
        taken = [line for line in taken if line.line <= shown.line]
    depth = 0
    for line in taken:
        text = line.text
        if line.role == "setup" and not builds and not commands.installs_tree(line):
            lines += [f"# line {line.line}, not here: {part}" for part in text.split("\n")]
            continue
        if line.role == "cd":
            folder = text.split(maxsplit=1)[1].strip("\"' /") if " " in text else ""
            up = folder.count("..")
            if (
                not folder
                or text.split()[-1].startswith(("/", "~", "$"))
                or re.match(r"[A-Za-z]:|<", folder)
                or up > depth
            ):
                result.missing.append(f"line {line.line}: {text} uses a folder of the reporter's machine; left out.")
                lines.append(f"# line {line.line}, not here: {text}")
                continue
            depth += len([part for part in folder.split("/") if part not in ("", ".", "..")]) - up
        elif line.role == "export" and "$" not in text:
            _export(result, line)
            continue
        elif not re.search(r"&&|;|\||\n", text):
            variables, rest = commands.split_assignments(text)
            if variables and not any("$" in value for value in variables.values()):
                for name, value in variables.items():
                    _variable(result, name, value, line.line)
                text = rest
        lines.append(text)
    result.command = "\n".join(lines) + ("\n" if len(lines) > 1 or "\n" in "".join(lines) else "")
    first, last = taken[0].line, taken[-1].line + taken[-1].text.count("\n")
    result.notes[("command",)] = (f"line {first}" if first == last else f"lines {first} to {last}",)
    if re.search(r"(?<!<)<\w[\w -]*(?<! )>|\bpath/to\b|/xxx|\.\.\./", for_shell(result.command)):
        result.command = f"# {placeholders.MARK}: fill in what stands for something else\n{result.command}"
        result.missing.append("The command contains placeholders (<...>, path/to, xxx): fill them in.")
    if elsewhere := list(dict.fromkeys(_ELSEWHERE.findall(result.command)))[:_LISTED]:
        result.missing.append(f"The command uses paths of the reporter's machine: {', '.join(elsewhere)}.")


def _export(result: Running, line: CommandLine) -> None:
    for name, value in commands.read_exports(line.text).items():
        _variable(result, name, value, line.line)


def _variable(result: Running, name: str, value: str, line: int) -> None:
    """Set a variable of the case, unless it is about the reporter's machine."""
    if name in _HOST_PATHS or (name == "PYTHONPATH" and re.search(r"[$~]|^/home|^/Users|^[A-Z]:", value)):
        result.missing.append(f"line {line} sets {name} to folders of the reporter's machine; left out.")
    elif re.search(r"[$`<]", value):
        result.missing.append(f"line {line} sets {name} to {value}: not in the case.")
    else:
        result.env.setdefault(name, value)
        result.notes.setdefault(("env", name), (f"line {line}",))


def _files(
    result: Running, scripts: Sequence[Script], pieces: Sequence[ReportPiece], stated: Sequence[ReportPiece]
) -> None:
    """Put the program, what a reader states, and what else the command or a file of the case names, into files."""
    if result.program:
        result.files[result.program.name] = result.program.text
        _note_program(result, result.program)
    named = [(one.name, one.text, one.piece) for one in scripts if one.named]
    named += [(one.lead, one.text.strip("\n") + "\n", one) for one in stated if one.lead]
    named += [(name, piece.text.strip("\n") + "\n", piece) for name, piece in programs.data_files(pieces)]
    by_reader = {one.lead for one in stated}
    added = True
    while added:
        used = "\n".join([result.command, *result.files.values()])
        added = False
        for name, text, piece in named:
            stem = re.escape(posixpath.basename(name).rpartition(".")[0])
            called = (
                rf"(?<![\w./-])(?:\./)?{re.escape(name)}(?!\w)|^\s*(?:from|import) \.?{stem}\b|\s-m\s+{stem}(?=\s|$)"
            )
            if name not in result.files and (name in by_reader or re.search(called, used, re.MULTILINE)):
                result.files[name] = text
                result.notes[("files", name)] = (piece.where,)
                added = True
    for one in scripts:
        if one.name in result.files and result.program is None and one.named:
            result.program = one
            _note_program(result, one)
        elif one.name not in result.files and result.command and one.whole:
            result.missing.append(f"{one.piece.where}: a program that no command of the report names: see files.")
    for script in _SCRIPT.finditer(re.sub(r"(?m)^#.*", "", result.command.replace("\\\n", " "))):
        path = posixpath.normpath(script["path"])
        if path not in result.files and not path.startswith(("/", "~")):
            result.script = result.script or script["path"]


def _note_program(result: Running, program: Script) -> None:
    why = "" if program.named else "; the report does not name it"
    result.notes[("files", program.name)] = (f"{program.piece.where}{why}",)
    result.missing += program.missing
