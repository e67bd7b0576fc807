"""BugsInPy: a folder with ``projects/NAME/bugs/N``, each with two commits, the tests of the fix, and requirements.

https://github.com/soarsmu/BugsInPy; its programs (``framework/bin``) are what this module goes by, not its README.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from reprokit.case.tree import Loc
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.core.text import whole_number
from reprokit.intake import bug as checks
from reprokit.intake.bug import WORKDIR, Bug, BugEntry, DatasetKind, WrongBug, read_text

_FIELD = re.compile(r'(\w+)\s*=\s*"([^"\n]*)"')
"""Their program cuts at quotes: some files have two fields on one line, or a blank before the sign."""
_LEFT_OUT = {
    **dict.fromkeys(("pywin32", "pypiwin32", "pywinpty"), "it is for Windows"),
    "pkg-resources": "Debian's pip listed it by mistake",
}
_PLAIN = re.compile(r"\w[\w.-]*(?:==[\w.]+)?")
"""A package of the index, in setup.sh."""
_PYTEST = "pytest==5.4.3"
"""The release that most of the data set names, for bugs that run pytest and do not name one."""
_TOX_LISTS = ("test_requirements.txt", "requirements_test.txt", "requirements-test.txt", "test-requirements.txt")
"""Where projects that use tox have what it installs; those that there are."""
_TOOLS = ["setuptools>=42", "wheel"]
"""Without them, pip makes an environment for each source package: minutes, in a list of a hundred. Since 42,
``setup_requires`` is pip's affair.
"""
_DAY = "2020-08-01"
"""Its bugs were added in May and June 2020 (its history), with the setuptools and the packages of these days."""


def entries(place: Path, chosen: Sequence[str], specs: Path | None) -> Iterator[BugEntry]:
    """The bugs ``PROJECT:N``, of all of a project, or of all projects. Raises UsageError."""
    projects = place / "projects"
    if not projects.is_dir():
        raise UsageError(f"{place} is not a BugsInPy: a folder with projects/NAME/bugs/N is expected")
    names = sorted(one.name for one in projects.iterdir() if (one / "bugs").is_dir())
    for one in chosen or names:
        project, colon, number = one.partition(":")
        if project not in names:
            raise UsageError(f"{place} has no project {project!r}{near(project, names, prefix='; ')}")
        bugs = projects / project / "bugs"
        numbers = sorted((one.name for one in bugs.iterdir() if whole_number(one.name) is not None), key=int)
        if colon and number not in numbers:
            raise UsageError(f"{project} has no bug {number!r}: it has {', '.join(numbers) or 'none'}")
        for found in [number] if colon else numbers:
            yield BugEntry(key=f"{project}:{found}", read=partial(_bug, place, project, found))


KIND = DatasetKind(
    name="bugsinpy",
    takes="PATH is a clone of BugsInPy; BUG is PROJECT or PROJECT:N, such as thefuck:1",
    entries=entries,
)


def _bug(place: Path, project: str, number: str) -> Bug:
    folder = place / "projects" / checks.name(project, "the project")
    home = folder / "bugs" / number
    about, info = _fields(read_text(place, folder / "project.info")), _fields(read_text(place, home / "bug.info"))
    where = str(home / "bug.info")
    git = checks.address(about.get("github_url", ""), str(folder / "project.info"))
    files = [part.strip() for part in info.get("test_file", "").split(";") if part.strip()]
    patched = read_text(place, home / "bug_patch.txt", missing="")
    wanted = _Requirements(project=project)
    wanted.read(read_text(place, home / "requirements.txt", missing=""), str(home / "requirements.txt"))
    tests = _Tests()
    tests.read(read_text(place, home / "run_test.sh"), str(home / "run_test.sh"))
    steps = wanted.take_installs(read_text(place, home / "setup.sh", missing=""))
    if tests.pytest and not wanted.has("pytest") and not any(_installs(words, "pytest") for words in steps):
        wanted.steps.append([_PYTEST])
        wanted.said.append(
            f"The tests need pytest, and the bug names none: {_PYTEST} is what most of the data set has."
        )
    return Bug(
        key=f"{project}:{number}",
        case_id=f"bugsinpy-{project}-{number}".lower().replace("_", "-").replace(".", "-"),
        title=f"{project}: {', '.join(tests.names) or ', '.join(files)} (bug {number} of BugsInPy)",
        description=_description(project, number, patched),
        tags=("bugsinpy", project),
        url=f"{git.rstrip('/').removesuffix('.git')}/commit/{info.get('fixed_commit_id', '')}",
        folder=project,
        git=git,
        buggy=checks.commit(info.get("buggy_commit_id", ""), f"{where}: buggy_commit_id"),
        fixed=checks.commit(info.get("fixed_commit_id", ""), f"{where}: fixed_commit_id"),
        test_files=tuple(checks.path(one, f"{where}: test_file") for one in files),
        python=info.get("python_version", ""),
        pip=tuple(wanted.steps),
        pip_before=_DAY,
        setup=_setup(steps, wanted, tests.tox),
        env=_python_path(project, info.get("pythonpath", ""), where),
        command="\n".join(tests.lines) + "\n",
        tests=tuple(tests.names),
        packages=checks.top_modules(checks.changed_files(patched, str(home / "bug_patch.txt")))
        if patched.strip()
        else (),
        notes=_notes(str(home.relative_to(place)), wanted, tests),
    )


def _fields(content: str) -> dict[str, str]:
    return {name: value.strip() for name, value in _FIELD.findall(content)}


def _description(project: str, number: str, patched: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", patched))])
    shown = f"\n\nThe fix, without its tests:\n\n{fence}diff\n{patched.strip()}\n{fence}\n" if patched.strip() else "\n"
    return f"Bug {number} of {project} in BugsInPy: the tests of the fix fail at the commit before it.{shown}"


def _python_path(project: str, asked: str, where: str) -> dict[str, str]:
    """PYTHONPATH, whose folders begin with the name of the checkout; else the tree: ``pytest`` does not add it."""
    folders = [checks.path(part.strip(), f"{where}: pythonpath") for part in asked.split(";") if part.strip()]
    below = [project + "/" + part.partition("/")[2] if part.partition("/")[2] else project for part in folders]
    return {"PYTHONPATH": ":".join(f"{WORKDIR}/{part}".rstrip("/") for part in below or [project])}


def _installs(words: Sequence[str], package: str) -> bool:
    return "install" in words and any(re.split(r"[=<>~!\[]", word)[0] == package for word in words)


def _setup(steps: Sequence[Sequence[str]], wanted: _Requirements, tox: bool) -> str:
    """The steps of setup.sh: as words, never as shell. One that fails stops the build: its log says why."""
    if not (steps or wanted.project_itself or tox):
        return ""
    lines = [
        "# A version for packages that ask git for theirs: the tree has no repository.",
        "export SETUPTOOLS_SCM_PRETEND_VERSION=0.0.0 PBR_VERSION=0.0.0",
    ]
    if wanted.project_itself:
        again = f"--no-build-isolation{' --no-deps' if wanted.complete else ''}"
        lines += [
            "# A setup.py of that time may import pip, or the packages above: an isolated build has neither.",
            f"pip install -e . || {{ pip install {shlex.join(_TOOLS)} && pip install {again} -e .; }}",
        ]
    lines += map(shlex.join, steps)
    if tox:
        lines += [
            f"for list in {shlex.join(_TOX_LISTS)}; do",
            '    if [ -e "$list" ]; then pip install -r "$list"; fi',
            "done",
        ]
    return "\n".join(lines)


def _notes(home: str, wanted: _Requirements, tests: _Tests) -> dict[Loc, tuple[str, ...]]:
    network = "The data set does not say whether the tests need a network: add `network: bridge` if so."
    tox = ("tox would install from the index when it runs: setup does so here, and pytest runs.",) if tests.tox else ()
    day = ("The data set is of these days: what has no version comes as it was then, and so do the tools of builds.",)
    found = {
        ("environment", "pip"): tuple(wanted.said),
        ("environment", "pip_before"): day,
        ("command",): tox,
        ("resources",): (network,),
    }
    return {(): (f"Imported from BugsInPy, {home}.",), **{place: said for place, said in found.items() if said}}


@dataclass
class _Requirements:
    """requirements.txt: what ``pip freeze`` printed on the machine of who added the bug, often one with Windows."""

    project: str
    steps: list[Any] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    project_itself: bool = False
    complete: bool = False

    def read(self, content: str, where: str) -> None:
        kept: list[str] = []
        for number, line in enumerate(content.split("\n"), 1):
            line = re.sub(r"(^|\s)#(?!egg=).*", "", line).strip()
            egg = re.search(r"#egg=([\w.-]+)", line)
            if egg and checks.same_package(egg[1], self.project):
                self.project_itself = True
            elif egg:
                self.said.append(f"Left out: {line[:100]}: it is installed from an address.")
            elif line:
                found = checks.requirement(line, f"{where}:{number}")
                why = _LEFT_OUT.get(canonicalize_name(found.name), "")
                if ".dev" in str(found.specifier) and checks.same_package(found.name, self.project):
                    why = "no index has it: it is the project itself, from its tree"
                self.said += [f"Left out: {line}: {why}."] if why else []
                kept += [] if why else [line]
        if kept:
            # A list of pip freeze is complete, and today's pip refuses some of what the pip of its time installed.
            self.complete = all(re.fullmatch(r"[^=;]+==[^;,*]+", line) for line in kept)
            self.steps += [_TOOLS, {"requirements": kept, "options": ["--no-deps"]} if self.complete else kept]

    def take_installs(self, content: str) -> list[list[str]]:
        """The steps of setup.sh, without what installs packages of the index alone: each is a step of pip here.

        What the list has by name is there already. pip installs the project, too: ``setup.py install``, in 39 of 501
        bugs, fetches what that needs by itself, from other indexes and of other days than the rest.
        """
        steps = []
        for words in filter(None, map(str.split, re.split(r"[\n;]", content))):
            head, packages = words[:2], words[2:]
            if head in (["pip", "install"], ["pip3", "install"]) and packages and all(map(_PLAIN.fullmatch, packages)):
                self.steps += [new] if (new := [one for one in packages if "==" in one or not self.has(one)]) else []
            elif words[1:3] in (["setup.py", "install"], ["setup.py", "develop"]):
                self.project_itself = True
            else:
                steps.append(words)
        return steps

    def has(self, package: str) -> bool:
        """Whether a package is in the list."""
        lines = [one for step in self.steps for one in (step["requirements"] if isinstance(step, dict) else step)]
        return any(checks.same_package(re.split(r"[^\w.-]", line)[0], package) for line in lines)


@dataclass
class _Tests:
    """run_test.sh: commands, one after the other."""

    lines: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    pytest: bool = False
    tox: bool = False

    def read(self, content: str, where: str) -> None:
        for line in re.split(r"[\n;]", content):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "tox":
                words, self.tox = ["python", "-m", "pytest", *words[1:]], True
            self.pytest = self.pytest or bool({"pytest", "py.test"} & set(words))
            self.names += [name for word in words[1:] if (name := checks.test_name(word)) and name not in self.names]
            self.lines.append(shlex.join(words))
        if not self.lines:
            raise WrongBug(f"{where}: it has no command")
