"""Which Python a command runs in, and what is installed there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 60
MOST_SCRIPT = 64 * 1024
"""Most bytes of a shell script that is read."""
_PYTHON = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?")
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
LAUNCHERS = frozenset({"env", "time", "nohup", "nice", "stdbuf", "xvfb-run", "timeout", "exec"})


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """An installed package.

    ``modules``: what it can be imported as. ``scripts``: its programs. ``direct``: its origin where that is not an
    index (PEP 610).
    """

    name: str
    version: str
    modules: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    direct: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CapturedPython:
    """A Python: its program, version, installation folders (``prefixes``), and installed packages.

    ``words``: its full version string.
    """

    path: str
    version: str
    words: str = ""
    prefixes: tuple[str, ...] = ()
    distributions: tuple[Distribution, ...] = ()


def is_python(word: str) -> bool:
    """Whether a word of a command is the name, or the path, of a Python."""
    return _PYTHON.fullmatch(Path(word).name) is not None


def words_of(command: Sequence[str]) -> list[str]:
    """The words of a command, including those of a text (``bash -c TEXT``) or script for a shell."""
    words: list[str] = []
    for number, word in enumerate(command):
        if number and command[number - 1] in ("-c", "-lc", "-ec") and Path(command[0]).name in SHELLS:
            words += _split(word)
        else:
            words += [word, *_split(_shell_script(word))]
    return words


def _shell_script(word: str) -> str:
    """The text of the shell script that a word names; '' for anything else."""
    try:
        path = Path(word)
        if not path.is_file() or path.stat().st_size > MOST_SCRIPT:
            return ""
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    first = re.match(r"#!\s*\S*?(?:/env\s+)?(\w+)\s*(?:\s-.*)?\n", text)
    return text if (Path(first[1]).name in SHELLS if first else path.suffix == ".sh") else ""


def _split(text: str) -> list[str]:
    """The words of a shell text, with operators as separate words; only split at blanks where quotes do not close."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return text.split()


def program_of(command: Sequence[str]) -> str:
    """The Python that ``command`` starts, directly, by a script's first line, or first in a shell text; '' for none."""
    shell = Path(command[0]).name in SHELLS or bool(_shell_script(command[0]))
    for word in words_of(command):
        name = Path(word).name
        if is_python(word):
            return shutil.which(word) or ""
        path = shutil.which(word)
        found = _of_script(path) if path else ""
        if found:
            return found
        if not shell and not (name in LAUNCHERS or word.startswith("-") or "=" in word):
            return ""
    return ""


def _of_script(path: str) -> str:
    """The Python that a script's first line names, as in the entry points that pip installs; '' for none."""
    try:
        with Path(path).open("rb") as stream:
            line = stream.read(500).split(b"\n")[0]
    except OSError:
        return ""
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    words = words[1:] if words and Path(words[0]).name == "env" else words
    return (shutil.which(words[0]) or "") if words and _PYTHON.fullmatch(Path(words[0]).name) else ""


def ask(path: str) -> CapturedPython | None:
    """The version and packages of the Python at ``path``, from running it; None where that fails."""
    script = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")
    try:
        done = subprocess.run(
            [path, "-c", script], capture_output=True, text=True, timeout=SECONDS, check=True, cwd="/"
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return CapturedPython(
        path=path,
        version=answer["version"],
        words=answer["words"],
        prefixes=tuple(dict.fromkeys(answer["prefixes"])),
        distributions=tuple(
            Distribution(
                name=name,
                version=one["version"],
                modules=tuple(one["modules"]),
                scripts=tuple(one["scripts"]),
                requires=tuple(one["requires"]),
                direct=json.loads(one["direct"] or "{}"),
            )
            for name, one in answer["distributions"].items()
        ),
    )
