"""Which Python a command runs in, what is installed there, and what of it the image of a captured case installs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePath

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit.core.redaction import scrub
from reprokit.environment.catalog import OURS

COLLECT = Path(__file__).with_name("collect.py")
"""What lists the packages of a Python, of 3.6 and later; it imports nothing of reprokit."""
SECONDS = 60
MOST_SCRIPT = 64 * 1024
"""Most bytes of a shell script that is read."""
_PYTHON = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?")
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
LAUNCHERS = frozenset({"env", "time", "nohup", "nice", "stdbuf", "xvfb-run", "timeout", "exec"})
_INSTALLED = re.compile(r"(?:^|/)(?:site|dist)-packages/(?P<module>[A-Za-z_]\w*)")
_TORCH = frozenset({"torch", "torchvision", "torchaudio", "torchtext"})
_OWN_PROGRAMS = frozenset({"python", "python3"})
TOOLS = frozenset({"pip", "setuptools", "wheel"})
"""Packages of every environment; pinned only where the program itself imports them."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """An installed package."""

    name: str
    version: str
    modules: tuple[str, ...] = ()
    """What it can be imported as."""
    scripts: tuple[str, ...] = ()
    """Its programs."""
    requires: tuple[str, ...] = ()
    direct: Mapping[str, object] = field(default_factory=dict)
    """Its origin where that is not an index (PEP 610)."""


@dataclass(frozen=True, kw_only=True)
class CapturedPython:
    """A Python, its installation folders (``prefixes``) and installed packages."""

    path: str
    version: str
    words: str = ""
    """Its full version string."""
    prefixes: tuple[str, ...] = ()
    distributions: tuple[Distribution, ...] = ()


# -- which Python ------------------------------------------------------------------------------------------------------


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
        if is_python(word):
            return shutil.which(word) or ""
        path = shutil.which(word)
        if path and (found := _python_of_script(path)):
            return found
        if not shell and not (Path(word).name in LAUNCHERS or word.startswith("-") or "=" in word):
            return ""
    return ""


def _python_of_script(path: str) -> str:
    """The Python that a script's first line names, as in the entry points that pip installs; '' for none."""
    try:
        with Path(path).open("rb") as stream:
            line = stream.read(500).split(b"\n")[0]
    except OSError:
        return ""
    words = line[2:].decode("utf-8", "replace").split() if line.startswith(b"#!") else []
    words = words[1:] if words and Path(words[0]).name == "env" else words
    return (shutil.which(words[0]) or "") if words and is_python(words[0]) else ""


def can_collect(python: str) -> bool:
    """Whether a program is a Python in which :data:`COLLECT` runs."""
    try:
        done = subprocess.run(
            [python, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.match(rb"Python (\d{1,4})\.(\d{1,4})", done.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= (3, 6)


def interpreter_for(words: Sequence[str]) -> str:
    """The Python whose packages matter: the one that a command runs in, else the first on PATH, else ours.

    One that is older than the program is passed over; the program then says which one the command runs in.
    """
    of_command = program_of(words) if words else ""
    found = (of_command, shutil.which("python3"), shutil.which("python"))
    return next((one for one in found if one and can_collect(one)), sys.executable)


def ask(path: str) -> CapturedPython | None:
    """The version and packages of the Python at ``path``, from running it; None where that fails."""
    try:
        done = subprocess.run(
            [path, str(COLLECT), "--as-json"], capture_output=True, text=True, timeout=SECONDS, check=True, cwd="/"
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    distributions = []
    for name, one in answer["distributions"].items():
        lists = {key: tuple(one[key]) for key in ("modules", "scripts", "requires")}
        direct = json.loads(one["direct"] or "{}")
        distributions.append(Distribution(name=name, version=one["version"], direct=direct, **lists))
    return CapturedPython(
        path=path,
        version=answer["version"],
        words=answer["words"],
        prefixes=tuple(dict.fromkeys(answer["prefixes"])),
        distributions=tuple(distributions),
    )


# -- what the image installs -------------------------------------------------------------------------------------------


@dataclass
class PinnedPackages:
    """Requirements of a captured case."""

    direct: list[str] = field(default_factory=list)
    """Of the program's imports and frames."""
    needed: list[str] = field(default_factory=list)
    """What those need."""
    options: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Installed packages that no index has, in words."""


def modules_of(files: Iterable[str]) -> set[str]:
    """The installed modules that contain the files of a traceback."""
    return {found["module"] for file in files if (found := _INSTALLED.search(file))}


def pin_packages(python: CapturedPython, modules: Iterable[str], words: Sequence[str] = ()) -> PinnedPackages:
    """The distributions that contain ``modules``, and their dependencies, pinned to the installed versions.

    ``words``: of the command; its programs and the modules after ``-m`` count, too.
    """
    installed: dict[str, Distribution] = {canonicalize_name(one.name): one for one in python.distributions}
    wanted = {*modules, *(word.partition(".")[0] for before, word in pairwise(words) if before == "-m")}
    programs = {PurePath(word).name for word in words} - _OWN_PROGRAMS
    direct = [name for name, one in installed.items() if wanted & set(one.modules) or programs & set(one.scripts)]
    found = PinnedPackages()
    for name in sorted(direct):
        _pin(installed[name], found.direct, found)
    for name in sorted(_closure(direct, installed, python.version) - set(direct) - TOOLS):
        _pin(installed[name], found.needed, found)
    return found


def _pin(one: Distribution, pins: list[str], found: PinnedPackages) -> None:
    url = str(one.direct.get("url", ""))
    remote = url.startswith(("https://", "http://", "ssh://"))
    vcs, archive = one.direct.get("vcs_info"), one.direct.get("archive_info") is not None
    called = f"{one.name} {one.version}"
    public, _, local = one.version.partition("+")
    option = _option(one, local)
    if remote and scrub(url).omitted:
        found.missing.append(f"{called} is installed from an address that contains something secret")
    elif isinstance(vcs, Mapping) and remote:
        pins.append(f"{one.name} @ {vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', '')}")
        return
    elif archive and url.startswith(("https://", "http://")):
        pins.append(f"{one.name} @ {url}")
        return
    elif archive:
        found.missing.append(f"{called} is installed from a file of this machine; an index may lack it")
    elif one.direct.get("dir_info") is not None:
        found.missing.append(f"{called} is installed from a folder of this machine: add it as a source")
        return
    elif option:
        found.options += [option] if option not in found.options else []
    elif local:
        found.missing.append(f"{called} is a local build: the index may only have {public}")
    pins.append(f"{one.name}=={one.version}")


def _option(one: Distribution, local: str) -> str:
    """The pip option to find a build for a CUDA version; '' where PyPI has it, or the place is not known."""
    name = canonicalize_name(one.name)
    if local and name in _TORCH:
        return f"--extra-index-url https://download.pytorch.org/whl/{local}"
    return OURS.option_for(name, one.version)


def _closure(direct: Iterable[str], installed: Mapping[str, Distribution], python: str) -> set[str]:
    """The installed packages that ``direct`` require, directly or indirectly, with the requested extras."""
    seen: set[tuple[str, str]] = set()
    waiting = [(name, "") for name in direct]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen or name not in installed:
            continue
        seen.add((name, extra))
        for requirement in _required(installed[name], extra, python):
            needed = canonicalize_name(requirement.name)
            waiting += [(needed, ""), *((needed, more) for more in requirement.extras)]
    return {name for name, _ in seen}


def _required(one: Distribution, extra: str, python: str) -> Iterator[Requirement]:
    environment = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python, "extra": extra}
    for text in one.requires:
        try:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate(environment):
                yield requirement
        except (InvalidRequirement, UndefinedEnvironmentName):
            continue
