"""SWE-bench: a JSON or JSONL file with a row for each bug: a commit, the patch of the fix, and the patch of its tests.

Data sets of the same form (SWE-bench Lite, Verified, Extra, SWE-rebench, SWE-Gym) are read, too: the field
``install_config`` that some have, or --specs, says how a version is installed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reprokit.case.tree import Loc
from reprokit.core.errors import UsageError
from reprokit.core.files import open_regular
from reprokit.core.json_text import loads
from reprokit.core.near_match import near
from reprokit.core.text import pluralize
from reprokit.engine import site
from reprokit.intake import bug as checks
from reprokit.intake.bug import Bug, BugEntry, DatasetKind, WrongBug
from reprokit.intake.draft import slug

MOST = 1_000_000_000
"""Most bytes of a data set, which may be one JSON text in memory; a lower ``max_fetch_size`` of the site holds."""

_RUNNERS = {"django/django": "python tests/runtests.py --parallel 1 --verbosity 2"}
"""What takes ids such as ``test_x (module.Class)``, where it is not unittest itself."""
_LISTS = (
    "requirements.txt",
    "tests/requirements/py3.txt",
    "requirements/dev.txt",
    "requirements/dev/dev-requirements.txt",
    "requirements_test.txt",
    "requirements-dev.txt",
)
"""Where the projects of SWE-bench have their requirements; the first that there is."""
_ID = re.compile(r"(?=.*\S)[^\0\r\n]+")
_UNITTEST = re.compile(r"(\w+) \(([\w.]+)\)")


def entries(place: Path, chosen: Sequence[str], specs: Path | None) -> Iterator[BugEntry]:
    """The rows with the chosen ids, or all of them. Raises UsageError."""
    table = _specs(specs)
    found: set[str] = set()
    seen: list[str] = []
    for number, row in enumerate(_rows(place), 1):
        key = str(row.get("instance_id", "")) if isinstance(row, dict) else ""
        seen.append(key)
        if not chosen or key in chosen:
            found.add(key)
            yield BugEntry(key=key[:100] or f"row {number}", read=partial(_bug, row, f"row {number} of {place}", table))
    for missing in [one for one in chosen if one not in found]:
        raise UsageError(f"{place} has no instance {missing!r}{near(missing, seen, prefix='; ')}")


KIND = DatasetKind(
    name="swe-bench",
    takes="PATH is a JSON or JSONL file; BUG is an instance_id, such as pallets__flask-4992",
    entries=entries,
    specs="repository -> version -> how it is installed, as the tables of swebench 3 and earlier",
)


def _rows(place: Path) -> Iterator[Any]:
    try:
        with open_regular(place) as stream:
            if stream.read(4) == b"PAR1":
                raise UsageError(f"{place} is a Parquet file: convert it to JSON lines, as docs/data-sets.md shows")
            stream.seek(0, 2)
            if stream.tell() > (most := min(MOST, site.settings().max_fetch_size)):
                raise UsageError(f"{place} has more than {most} bytes: divide it into files of fewer lines")
            stream.seek(0)
            read = False
            for number, line in enumerate(stream, 1):
                if line.strip():
                    try:
                        found = loads(line)
                    except ValueError as error:
                        if read:
                            raise UsageError(f"{place}:{number}: it is not a line of JSON: {error}") from None
                        stream.seek(0)  # one JSON text of several lines
                        found = loads(stream.read().strip())
                        stream.seek(0, 2)
                    read = True
                    yield from found if isinstance(found, list) else [found]
    except OSError as error:
        raise UsageError(f"{place} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{place} is neither JSON nor JSON lines: {error}") from None


def _specs(place: Path | None) -> Mapping[str, Any]:
    if place is None:
        return {}
    try:
        with open_regular(place) as stream:
            table = loads(stream.read(MOST))
    except OSError as error:
        raise UsageError(f"--specs {place}: it cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--specs {place}: it is not JSON: {error}") from None
    if not isinstance(table, dict):
        raise UsageError(f"--specs {place}: an object of repositories is expected")
    return table


def _bug(row: Any, where: str, specs: Mapping[str, Any]) -> Bug:
    if not isinstance(row, dict):
        raise WrongBug(f"{where}: an object is expected")

    def said(field: str, needed: bool = True) -> str:
        value = row.get(field) or ""
        if not isinstance(value, str) or (needed and not value.strip()):
            raise WrongBug(f"{where}: {field} is missing, or is not a text")
        return value

    key, repo = said("instance_id"), said("repo")
    owner, slash, name = repo.partition("/")
    if not slash:
        raise WrongBug(f"{where}: repo {repo[:60]!r} is not OWNER/NAME")
    folder = checks.name(name, f"{where}: repo")
    git = checks.address(f"https://github.com/{checks.name(owner, f'{where}: repo')}/{folder}", f"{where}: repo")
    fix, tests = said("patch"), said("test_patch")
    fails, passes = _ids(row, "FAIL_TO_PASS", where), _ids(row, "PASS_TO_PASS", where)
    if not fails:
        raise WrongBug(f"{where}: FAIL_TO_PASS names no test")
    recipe = _recipe(row, specs, where)
    command, files, comments = _tests(repo, fails, passes, checks.changed_files(tests, f"{where}: test_patch"))
    pytest = [["pytest"]] if "pytest" in command and not recipe else []
    steps, lines = _packages(recipe, where)
    number = re.search(r"-(\d+)$", key)
    return Bug(
        key=key,
        case_id="swe-bench-" + (slug(key) or "instance"),
        title=next((line for line in said("problem_statement", False).splitlines() if line.strip()), key),
        description=said("problem_statement", False).replace("\r\n", "\n").strip() + "\n",
        tags=("swe-bench", repo),
        url=f"{git}/pull/{number[1]}" if number else git,
        folder=folder,
        git=git,
        buggy=checks.commit(said("base_commit"), f"{where}: base_commit"),
        fix_patch=_ended(fix),
        test_patch=_ended(tests),
        python=str(recipe.get("python") or ""),
        pip=tuple(pytest + steps),
        setup=_setup(recipe, lines, str(row.get("version")), where),
        files=files,
        command="\n".join([*_texts(recipe, "eval_commands", where), command]),
        tests=tuple(dict.fromkeys(found for one in fails if (found := checks.test_name(one)))),
        packages=checks.top_modules(checks.changed_files(fix, f"{where}: patch")),
        notes=_notes(row, bool(recipe), comments),
    )


def _ended(patch: str) -> str:
    return patch if patch.endswith("\n") else patch + "\n"


def _ids(row: Mapping[str, Any], field: str, where: str) -> list[str]:
    """Ids of tests: a list, or the JSON text of one."""
    value = row.get(field) or []
    try:
        found = loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) and _ID.fullmatch(one) for one in found):
        raise WrongBug(f"{where}: {field} is not a list of tests, each a text of one line")
    return list(dict.fromkeys(found))


def _recipe(row: Mapping[str, Any], specs: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """How the version is installed: of the row, or of the table that --specs names."""
    found = row.get("install_config")
    if isinstance(found, str) and found.strip():
        try:
            found = loads(found)
        except ValueError:
            raise WrongBug(f"{where}: install_config is not JSON") from None
    versions = specs.get(str(row.get("repo")), {})
    found = found or (versions.get(str(row.get("version")), {}) if isinstance(versions, dict) else {})
    if not isinstance(found, dict):
        raise WrongBug(f"{where}: how it is installed is not an object")
    return found


def _texts(recipe: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = recipe.get(key) or []
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise WrongBug(f"{where}: {key} of how it is installed is not a text or a list of texts")
    return found


def _packages(recipe: Mapping[str, Any], where: str) -> tuple[list[list[str]], list[str]]:
    """(the steps of pip, the shell that installs the rest): a list in the tree comes before ``pip_packages``."""
    pins = [word.strip() for word in _texts(recipe, "pip_packages", where)]
    named = " ".join(_texts(recipe, "packages", where)).replace("\n", " ")
    lists = [checks.path(one, f"{where}: reqs_path") for one in _texts(recipe, "reqs_path", where)]
    if not named.endswith((".txt", ".yml", ".yaml")) and not lists:
        steps = [_words(named, where), pins]
        lines = []
    else:
        steps = []
        lines = [
            f"for list in {shlex.join(lists or _LISTS)}; do",
            '    if [ -e "$list" ]; then pip install -r "$list"; break; fi',
            "done",
        ]
        lines += [f"pip install {shlex.join(pins)}"] if pins else []
    for word in [*pins, *(steps[0] if steps else [])]:
        checks.requirement(word, f"{where}: how it is installed")
    return [step for step in steps if step], lines


def _words(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise WrongBug(f"{where}: packages of how it is installed: {error}") from None


def _setup(recipe: Mapping[str, Any], lines: Sequence[str], version: str, where: str) -> str:
    """Shell, as the data set's own program runs it."""
    known = version if re.fullmatch(r"\d+(\.\d+)*", version) else "0.0.0"
    # A version for packages that ask git for theirs: the tree has no repository.
    git = f"export SETUPTOOLS_SCM_PRETEND_VERSION={known} PBR_VERSION={known}"
    own = [*_texts(recipe, "pre_install", where), *(_texts(recipe, "install", where) or ["python -m pip install -e ."])]
    return "\n".join([git, *lines, *own])


def _tests(
    repo: str, fails: Sequence[str], passes: Sequence[str], files: Sequence[str]
) -> tuple[str, dict[str, str], list[str]]:
    """(the command, the files with the tests that it runs, comments): what must be fixed, then what must stay."""
    lists = {"fail_to_pass.txt": fails, "pass_to_pass.txt": passes}
    if any("::" in one or one.endswith(".py") for one in fails):
        runner, kept = "python -m pytest", lists
    elif all(_UNITTEST.fullmatch(one) for one in fails):
        runner = _RUNNERS.get(repo, "python -m unittest")
        kept = {
            name: [f"{found[2]}.{found[1]}" for one in ids if (found := _UNITTEST.fullmatch(one))]
            for name, ids in lists.items()
        }
    else:
        modules = [one for one in files if re.search(r"(^|/)test[^/]*\.py$", one)]
        if not modules or not all(re.fullmatch(r"\w+", one) for one in fails):
            raise WrongBug(f"FAIL_TO_PASS: {fails[0][:100]!r} is neither an id of pytest nor of unittest")
        runner, kept = (
            "python -m pytest " + shlex.join(modules) + " -k",
            {name: [" or ".join(one for one in ids if re.fullmatch(r"\w+", one))] for name, ids in lists.items()},
        )
    written = {name: "".join(f"{one}\n" for one in ids) for name, ids in kept.items() if any(ids)}
    lines = []
    for name in written:
        lines += [f"mapfile -t tests < ../{name}", f'{runner} "${{tests[@]}}"']
    left_out = sum(map(len, lists.values())) - sum(len(ids) for ids in kept.values())
    said = f"Left out: {pluralize(left_out, 'test')} whose ids the runner does not take."
    comments = [said] if left_out and "-k" not in runner else []
    return "\n".join(lines) + "\n", written, comments


def _notes(row: Mapping[str, Any], known: bool, comments: Sequence[str]) -> dict[Loc, tuple[str, ...]]:
    found: dict[Loc, tuple[str, ...]] = {(): (f"Imported from SWE-bench, {str(row.get('instance_id'))[:100]}.",)}
    version, commit = str(row.get("version") or "")[:40], str(row.get("environment_setup_commit") or "")[:40]
    if not known:
        unsaid = (
            f"The data set does not say how version {version or 'of this row'} is installed: this installs the list of"
        )
        theirs = f"(Its own program takes the list of commit {commit or 'of that version'}.)"
        found[("environment",)] = (
            f"{unsaid} requirements of the tree. {theirs} Give --specs, or add what is missing.",
        )
    found[("command",)] = ("The tests that the fix repairs, then those that must go on to pass.", *comments)
    return found
