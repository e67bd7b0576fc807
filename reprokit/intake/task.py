"""A bug of a data set whose tree is in its image, and whose own script runs its tests: the case of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reprokit.core.files import shipped
from reprokit.intake.bug import DatasetItem, describe
from reprokit.intake.draft import Draft, literal
from reprokit.intake.recipe import WORKDIR, ImageSteps

_FIX = "TASK_FIX"
"""The variable that only the fix sets. Both variants have the same files, and so the same image."""
_BY_LINES = re.compile(
    "(parse_log_)?(pytest(_options|_v2)?|django|seaborn|sympy|matplotlib|astroid|flask|marshmallow|pvlib|pyvista|xarray|"
    "sqlfluff|pydicom|requests|pylint|astropy|scikit|sphinx|gotest|cargo|ant|gradle_custom|googletest|redis|jq)"
)
"""Of the 54 log parsers of swebench 5.0.2, those of formats in which a test and how it ended are on one line."""


@dataclass(frozen=True, kw_only=True)
class ImageTask(DatasetItem):
    """A bug whose tree is in its image. In its shell, ``$task`` is the folder with the files."""

    recipe: ImageSteps
    fix: str
    """Shell that puts the fix into a container."""
    command: str
    """Shell that runs the tests, after the fix."""
    failure: Mapping[str, Any]
    files: Mapping[str, Any] = field(default_factory=dict)

    def draft(self) -> Draft:
        """The case: its tests fail in the image as it is, and pass after the fix."""
        recipe = self.recipe
        shell = ["task=$PWD", *recipe.start, f'if [ -n "${{{_FIX}:-}}" ]; then', self.fix, "fi", self.command]
        setup = ["cd /", *recipe.setup, "rm -f /tmp/step"] if recipe.setup else []
        environment = {"image": recipe.image, "setup": "".join(line + "\n" for line in setup)}
        said = "The data set's own program runs it as root, with a network: add network: bridge if so."
        notes = {**self.notes, (): (*self.notes.get((), ()), *recipe.notes), ("resources",): (said,)}
        parts = {
            "matrix": {axis: [value] for axis, value in recipe.cell.items()},
            "environment": {key: literal(value) for key, value in environment.items() if value},
            "files": {
                name: {**file, "content": literal(file["content"])} if isinstance(file, dict) else literal(file)
                for name, file in {**recipe.files, **self.files}.items()
            },
            "workdir": WORKDIR,
            "command": literal("\n".join(shell) + "\n"),
            "resources": {"timeout": "30m", "user": "root"},
            "expect": {"failure": dict(self.failure), "reproduces": "all"},
            "fix": {"summary": "The fix of the data set", "env": {_FIX: "1"}},
        }
        return describe(self, parts, {place: lines for place, lines in notes.items() if lines})


def applied(patch: str, folder: str) -> str:
    """Shell that applies a patch below ``$task`` in a folder, in the ways in which swebench does."""
    ways = ("git apply -v", "git apply -v --3way", "patch --batch --fuzz=5 -p1 -i")
    return f"(cd {folder} && {{ " + " || ".join(f'{way} "$task/{patch}"' for way in ways) + "; })"


def graded(
    script: str, parser: str, fails: Sequence[str], passes: Sequence[str]
) -> tuple[str, dict[str, str], dict[str, str], str]:
    """(shell that runs a script of tests, its files, the failure, a comment): by names of tests, else by its status."""
    if _BY_LINES.fullmatch(parser):
        files = {
            "eval.sh": script,
            "tests.awk": (shipped("dockerfiles") / "tests.awk").read_text("utf-8"),
        }
        for name, ids in (("to-fix.txt", fails), ("to-stay.txt", passes)):
            # Some parsers keep but the end of a path that is a parameter: all of that function count.
            files[name] = "".join(re.sub(r"\[/.*", "[/", one) + "\n" for one in ids)
        runs = 'bash "$task/eval.sh" 2>&1 | tee /tmp/eval.log || true\n'
        grades = 'awk -f "$task/tests.awk" "$task/to-fix.txt" "$task/to-stay.txt" /tmp/eval.log'
        return runs + grades, files, {"exit_code": "1", "output": "/^tests to fix: /"}, ""
    ended = re.sub(r"^(.*>>>>> End Test Output)", r"TASK_STATUS=$?\n\1", script, count=1, flags=re.MULTILINE)
    ended += "exit $TASK_STATUS\n" if ended != script else ""
    said = f"The lines of {parser} do not name tests as the data set does: the exit status of their command decides."
    return 'bash "$task/eval.sh"', {"eval.sh": ended}, {"exit_code": "nonzero"}, said
