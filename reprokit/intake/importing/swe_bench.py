"""SWE-bench: a JSON or JSONL file with a row for each bug: a commit, the patch of the fix, and the patch of its tests.

Data sets of the same form (SWE-bench Lite, Verified, Live, Extra, SWE-rebench, SWE-Gym) are read, too. A row that names
an image and what runs its tests, and a task repository of SWE-bench 5 (its ``swebench/task/repo.py``), become a case
with that image; of other rows the field ``install_config``, or --specs, says how a version is installed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from reprokit.case.tree import Loc
from reprokit.core.errors import UsageError
from reprokit.core.files import open_regular
from reprokit.core.json_text import loads
from reprokit.core.near_match import near
from reprokit.core.text import one_line, pluralize
from reprokit.engine import site
from reprokit.intake import bug as checks
from reprokit.intake.bug import Bug, BugEntry, DatasetKind, WrongBug, read_text
from reprokit.intake.draft import slug
from reprokit.intake.recipe import IMAGE, ImageSteps, translate
from reprokit.intake.task import ImageTask, applied, graded

MOST = 1_000_000_000
"""Most bytes of a data set, which may be one JSON text in memory; a lower ``max_fetch_size`` of the site holds."""

TESTBED = "/testbed"
"""Where SWE-bench and those that follow it have the tree in their images."""
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
_DAY = "2023-11-01"
"""When SWE-bench came out: its rows were tried with the packages of that time, those that came later with theirs."""
_OF_DAY = "The data set pins no version: packages are those of the day when it came out, or of this row."
_ID = re.compile(r"(?=.*\S)[^\0\r\n]+")
_UNITTEST = re.compile(r"(\w+) \(([\w.]+)\)")


def entries(place: Path, chosen: Sequence[str], specs: Path | None) -> Iterator[BugEntry]:
    """The rows with the chosen ids, or all of them. Raises UsageError."""
    table = _specs(specs)
    found: set[str] = set()
    seen: list[str] = []
    tasks = place / "tasks"
    if place.is_dir() and not tasks.is_dir():
        raise UsageError(
            f"{place} is not a task repository of SWE-bench 5: a folder with tasks/ID/task.yaml is expected"
        )
    listed = sorted(file.parent.name for file in tasks.glob("*/task.yaml")) if tasks.is_dir() else _rows(place)
    for number, row in enumerate(listed, 1):
        key = row if isinstance(row, str) else str(row.get("instance_id", "")) if isinstance(row, dict) else ""
        seen.append(key)
        if not chosen or key in chosen:
            found.add(key)
            where = f"row {number} of {place}"
            read = partial(_task, place, tasks / key) if tasks.is_dir() else partial(_bug, row, where, table)
            yield BugEntry(key=key[:100] or f"row {number}", read=read)
    for missing in [one for one in chosen if one not in found]:
        raise UsageError(f"{place} has no instance {missing!r}{near(missing, seen, prefix='; ')}")


KIND = DatasetKind(
    name="swe-bench",
    takes="PATH is a JSON or JSONL file, or a repository of tasks; BUG is an instance_id",
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


def _task(place: Path, folder: Path) -> ImageTask:
    """A task of a task repository: what a row has, in files of its own, and the Dockerfile of its image."""
    where = str(folder)
    try:
        row = yaml.load(read_text(place, folder / "task.yaml"), Loader=yaml.BaseLoader)  # texts alone
        tests = loads(read_text(place, folder / "tests.json"))
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise WrongBug(f"{where}: task.yaml is not YAML, or tests.json not JSON: {one_line(str(error))}") from None
    if not isinstance(row, dict) or not isinstance(tests, dict) or row.get("instance_id") != folder.name:
        raise WrongBug(f"{where}: task.yaml and tests.json are not objects, or instance_id is not {folder.name!r}")
    files = {"patch": "gold.patch", "test_patch": "test.patch", "eval_script": "eval.sh"}
    row |= tests | {column: read_text(place, folder / file) for column, file in files.items()}
    row["problem_statement"] = read_text(place, folder / "problem_statement.md", missing="")
    recipe = ImageSteps(image=str(row.get("image") or ""))
    if dockerfile := read_text(place, folder / "Dockerfile", missing=""):
        try:
            recipe = translate(dockerfile, folder)
        except WrongBug as error:
            if not recipe.image:
                raise
            recipe.notes.append(f"The image as it is published: {error}.")
    return _in_image(row, where, recipe)


def _in_image(row: Mapping[str, Any], where: str, recipe: ImageSteps) -> ImageTask:
    """The task of a row whose tree is in an image, at /testbed."""
    _, _, about = _about(row, where)
    fails, passes = _ids(row, "FAIL_TO_PASS", where), _ids(row, "PASS_TO_PASS", where)
    if not fails:
        raise WrongBug(f"{where}: FAIL_TO_PASS names no test")
    if recipe.image and not IMAGE.fullmatch(recipe.image):
        raise WrongBug(f"{where}: {recipe.image[:60]!r} is not the name of an image")
    config, files = row.get("install_config") or {}, {"fix.patch": _ended(_said(row, "patch", where))}
    parser = str(row.get("log_parser") or (config.get("log_parser") if isinstance(config, dict) else "") or "pytest")
    script = str(row.get("eval_script") or "")
    if not script:
        files["test.patch"] = _ended(_said(row, "test_patch", where))
        script = _script(row, where, checks.changed_files(files["test.patch"], f"{where}: test_patch"))
    command, more, failure, said = graded(script, parser, fails, passes)
    return ImageTask(
        **about,
        recipe=recipe,
        fix=applied("fix.patch", TESTBED),
        command=command,
        failure=failure,
        files={**files, **more},
        notes={(): (f"Imported from SWE-bench, {about['key'][:100]}.",), ("command",): (said,) if said else ()},
    )


def _script(row: Mapping[str, Any], where: str, files: Sequence[str]) -> str:
    """What runs the tests of a row that has commands in place of a script: SWE-bench-Live and SWE-rebench."""
    config = row.get("install_config") or {}
    lines = [line for key in ("rebuild_cmds", "test_cmds", "print_cmds") for line in _texts(row, key, where)]
    if not lines and isinstance(config, dict):
        modules = shlex.join(one for one in files if re.search(r"(^|/)test[^/]*\.py$|_test\.py$", one))
        lines = [f"{line} {modules}" for line in _texts(config, "test_cmd", where)]
    conda = "/opt/miniconda3/bin/activate"
    start = [f"if [ -e {conda} ]; then . {conda} && conda activate testbed; fi", f"cd {TESTBED}"]
    return "\n".join([*start, applied("test.patch", TESTBED), *lines]) + "\n"


def _said(row: Mapping[str, Any], field: str, where: str, needed: bool = True) -> str:
    value = row.get(field) or ""
    if not isinstance(value, str) or (needed and not value.strip()):
        raise WrongBug(f"{where}: {field} is missing, or is not a text")
    return value


def _about(row: Mapping[str, Any], where: str) -> tuple[str, str, dict[str, Any]]:
    """(the address of its repository, the name of that, what a row says of itself)."""
    key, repo = _said(row, "instance_id", where), _said(row, "repo", where)
    owner, slash, name = repo.partition("/")
    if not slash:
        raise WrongBug(f"{where}: repo {repo[:60]!r} is not OWNER/NAME")
    folder = checks.name(name, f"{where}: repo")
    git = checks.address(f"https://github.com/{checks.name(owner, f'{where}: repo')}/{folder}", f"{where}: repo")
    text, number = _said(row, "problem_statement", where, False), re.search(r"-(\d+)$", key)
    about: dict[str, Any] = {
        "key": key,
        "case_id": "swe-bench-" + (slug(key) or "instance"),
        "title": next((line for line in text.splitlines() if line.strip()), key),
        "description": text.replace("\r\n", "\n").strip() + "\n",
        "tags": ("swe-bench", repo),
        "url": f"{git}/pull/{number[1]}" if number else git,
    }
    return git, folder, about


def _bug(row: Any, where: str, specs: Mapping[str, Any]) -> Bug | ImageTask:
    if not isinstance(row, dict):
        raise WrongBug(f"{where}: an object is expected")
    image = next((row[key] for key in ("image", "docker_image", "image_name") if row.get(key)), "")
    runs = row.get("eval_script") or row.get("test_cmds") or "test_cmd" in str(row.get("install_config"))
    if image and runs:
        return _in_image(row, where, ImageSteps(image=str(image)))

    said = partial(_said, row, where=where)
    git, folder, about = _about(row, where)
    fix, tests = said("patch"), said("test_patch")
    fails, passes = _ids(row, "FAIL_TO_PASS", where), _ids(row, "PASS_TO_PASS", where)
    if not fails:
        raise WrongBug(f"{where}: FAIL_TO_PASS names no test")
    recipe = _recipe(row, specs, where)
    command, files, comments = _tests(row["repo"], fails, passes, checks.changed_files(tests, f"{where}: test_patch"))
    steps, lines = _packages(recipe, where)
    named = any(checks.same_package(re.split(r"[^\w.-]", word)[0], "pytest") for step in steps for word in step)
    # What is pinned may be younger than the row.
    day = "" if "==" in f"{steps} {lines}" else _day(str(row.get("created_at")))
    pytest = [["pytest"]] if "pytest" in command and not named and "pytest" not in " ".join(lines) else []
    return Bug(
        **about,
        folder=folder,
        git=git,
        buggy=checks.commit(said("base_commit"), f"{where}: base_commit"),
        fix_patch=_ended(fix),
        test_patch=_ended(tests),
        python=str(recipe.get("python") or ""),
        pip=tuple(pytest + steps),
        pip_before=day,
        setup=_setup(recipe, lines, str(row.get("version")), where),
        files=files,
        command="\n".join([*_texts(recipe, "eval_commands", where), command]),
        tests=tuple(dict.fromkeys(found for one in fails if (found := checks.test_name(one)))),
        packages=checks.top_modules(checks.changed_files(fix, f"{where}: patch")),
        notes=_notes(row, bool(recipe), comments) | ({("environment", "pip_before"): (_OF_DAY,)} if day else {}),
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
    modules = [one for one in files if re.search(r"(^|/)test[^/]*\.py$", one)]
    if any("::" in one or one.endswith(".py") for one in fails):
        # Some names are cut at their first blank: the function has them all.
        runner, kept = "python -m pytest", {name: list(dict.fromkeys(map(_whole, ids))) for name, ids in lists.items()}
    elif all(_UNITTEST.fullmatch(one) for one in fails):
        runner = _RUNNERS.get(repo, "python -m unittest")
        kept = {
            name: [f"{found[2]}.{found[1]}" for one in ids if (found := _UNITTEST.fullmatch(one))]
            for name, ids in lists.items()
        }
    elif repo in _RUNNERS and modules:  # Django prints a docstring in place of a name
        names = [one.removeprefix("tests/").removesuffix(".py").replace("/", ".") for one in modules]
        said = "Some names of tests are docstrings: the modules that the patch of the tests changes run."
        return f"{_RUNNERS[repo]} {shlex.join(names)}\n", {}, [said]
    else:
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
    comments = [said] if left_out and "pytest" not in runner else []
    return "\n".join(lines) + "\n", written, comments


def _day(created: str) -> str:
    try:
        return max(_DAY, date.fromisoformat(created[:10]).isoformat())
    except ValueError:
        return _DAY


def _whole(test: str) -> str:
    return test if test.count("[") == test.count("]") else test.partition("[")[0]


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
