"""A case and one cell -> :class:`~reprokit.case.cellspec.CellSpec`: templates rendered, sizes parsed. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeVar

from reprokit.case import units
from reprokit.case.cellspec import CellSpec, DatasetSpec, EnvironmentSpec, FileSpec, Limits, PipStepSpec, SourceSpec
from reprokit.case.limits import LIMITS
from reprokit.case.model import Case, Dataset, EnvironmentSection, FileEntry, Hang, Resources, Source
from reprokit.case.templates import RenderError, is_template, render_text
from reprokit.case.tree import Loc, dotted, found
from reprokit.core.errors import ReprokitError

SHELL = ("bash", "-eo", "pipefail", "-c")
"""What runs a command that is given as text."""

_SHORT = 200
"""Characters up to which a value is remembered with what it was read as."""

_T = TypeVar("_T")


class TemplateProblem(ReprokitError):
    """A value of the case does not work out in one cell. ``loc`` is its path in the case, ``cell`` the cell."""

    def __init__(self, loc: Loc, message: str, cell: Mapping[str, str], hint: str = "") -> None:
        at = " ".join(f"{name}={value}" for name, value in cell.items())
        super().__init__(f"{dotted(loc)}: {message}" + (f" (in the cell {at})" if at else ""))
        self.loc = loc
        self.message = message
        self.cell = dict(cell)
        self.hint = hint


def render(case: Case, cell: Mapping[str, str]) -> CellSpec:
    """What ``cell`` needs. In ``generate``, ``out`` is the dataset's own folder in the image, quoted for the shell.

    Compiled templates are kept, so that a further cell costs little. Raises TemplateProblem for the first value that
    needs an axis which the cell has not, or whose rendered text is not what its key takes.
    """
    fill = _Fill(cell, case.workdir)
    command = (
        (*SHELL, fill.text(("command",), case.command))
        if isinstance(case.command, str)
        else fill.texts(("command",), case.command)
    )
    if not command[0].strip():
        raise TemplateProblem(("command", 0), "expected a program to run, found nothing", cell)
    return CellSpec(
        cell=dict(cell),
        environment=EnvironmentSpec(
            image=fill.parsed(("environment", "image"), case.environment.image, units.image).strip(),
            apt=fill.items(("environment", "apt"), case.environment.apt),
            dnf=fill.items(("environment", "dnf"), case.environment.dnf),
            pip=fill.pip(case.environment),
            pip_options=fill.items(("environment", "pip_options"), case.environment.pip_options, units.options),
            pip_before=fill.parsed(("environment", "pip_before"), case.environment.pip_before, units.instant),
            setup=fill.text(("environment", "setup"), case.environment.setup),
            conflicts=fill.parsed(("environment", "conflicts"), case.environment.conflicts, units.conflicts),
            cuda_libraries=fill.parsed(
                ("environment", "cuda_libraries"), case.environment.cuda_libraries, units.cuda_libraries
            ),
            sanitize=fill.parsed(("environment", "sanitize"), case.environment.sanitize, units.sanitizer),
        ),
        sources={name: fill.source(("sources", name), source) for name, source in case.sources.items()},
        files={units.below_workdir(path): fill.file(("files", path), file) for path, file in case.files.items()},
        datasets={name: fill.dataset(("datasets", name), dataset) for name, dataset in case.datasets.items()},
        env={name: fill.text(("env", name), value) for name, value in case.env.items()},
        workdir=case.workdir,
        command=command,
        limits=replace(fill.limits(case.resources), backtrace=asks_for_stacks(case)),
    )


def asks_for_stacks(case: Case) -> bool:
    """Whether the stacks of crashes and hangs are taken, because a case says so or is about where it hangs."""
    return case.resources.backtrace or isinstance(case.expect.failure.timed_out, Hang)


@lru_cache(maxsize=4096)
def _parsed(parse: Callable[[str], _T], text: str) -> _T:
    """What is the same in all cells, and mostly in other cases, too."""
    return parse(text)


class _Fill:
    """Renders values with one cell's axes, and says where one goes wrong."""

    def __init__(self, cell: Mapping[str, str], workdir: str) -> None:
        self.cell = cell
        self.workdir = workdir

    def text(self, loc: Loc, template: str, **more: str) -> str:
        try:
            return render_text(template, {**self.cell, **more} if more else self.cell)
        except RenderError as error:
            raise TemplateProblem(loc, str(error), self.cell) from None

    def texts(self, loc: Loc, templates: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.text((*loc, index), template) for index, template in enumerate(templates))

    def items(
        self, loc: Loc, templates: tuple[str, ...], parse: Callable[[str], str] = units.one_line
    ) -> tuple[str, ...]:
        """A list whose items may come to nothing, so that ``{% if %}`` can leave one out."""
        texts = (self.parsed((*loc, index), text, parse).strip() for index, text in enumerate(templates))
        return tuple(text for text in texts if text)

    def pip(self, environment: EnvironmentSection) -> tuple[str, ...] | tuple[PipStepSpec, ...]:
        """Requirements alone stay what they are: locks remember what was asked for, as it was written."""
        steps = tuple(
            PipStepSpec(
                requirements=self.items(at, requirements, units.requirement),
                options=self.items(options_at, options, units.options),
            )
            for at, requirements, options_at, options in environment.pip_steps
        )
        alone = all(isinstance(item, str) for item in environment.pip)
        return tuple(text for step in steps for text in step.requirements) if alone else steps

    def parsed(self, loc: Loc, template: str, parse: Callable[[str], _T]) -> _T:
        plain = len(template) <= _SHORT and not is_template(template)
        text = template if plain else self.text(loc, template)
        try:
            return _parsed(parse, text) if plain else parse(text)
        except ValueError as error:
            raise TemplateProblem(loc, f"expected {error}, found {found(text)}", self.cell) from None

    def optional(self, loc: Loc, template: str | None, parse: Callable[[str], _T]) -> _T | None:
        """A limit that a template may leave out by coming to nothing."""
        if template is None or (template.strip() and not self.text(loc, template).strip()):
            return None
        return self.parsed(loc, template, parse)

    def source(self, loc: Loc, source: Source) -> SourceSpec:
        return SourceSpec(
            git=self.parsed((*loc, "git"), source.git, units.git_url),
            ref=self.parsed((*loc, "ref"), source.ref, units.git_ref),
            path=self.parsed((*loc, "path"), source.path, units.below_workdir),
            patch=self.parsed((*loc, "patch"), source.patch, units.unified_diff),
        )

    def file(self, loc: Loc, file: str | FileEntry) -> FileSpec:
        if isinstance(file, str):
            return FileSpec(text=self.text(loc, file))
        return FileSpec(
            text=self.text((*loc, "content"), file.content),
            mode=self.optional((*loc, "mode"), file.mode, units.file_mode),
        )

    def dataset(self, loc: Loc, dataset: Dataset) -> DatasetSpec:
        layout = tuple(
            (self.parsed((*loc, "layout", index, "glob"), rule.glob, units.dataset_glob), rule.min)
            for index, rule in enumerate(dataset.layout)
        )
        path = self.parsed((*loc, "path"), dataset.path, units.below_workdir)
        out = shlex.quote(posixpath.join(self.workdir, path))
        return DatasetSpec(
            path=path,
            layout=layout,
            sha256={
                path: self.parsed((*loc, "sha256", path), digest, units.sha256)
                for path, digest in dataset.sha256.items()
            },
            generate=self.text((*loc, "generate"), dataset.generate, out=out),
        )

    def limits(self, resources: Resources) -> Limits:
        values: dict[str, Any] = {}
        for row in LIMITS:
            given, loc = getattr(resources, row.key), ("resources", row.key)
            if isinstance(given, dict):
                texts = ((name, (*loc, name), text) for name, text in given.items())
                parsed = (self.optional(at, text, partial(row.parse, name)) for name, at, text in texts)
                values[row.key] = tuple(one for one in parsed if one)
            elif isinstance(given, tuple):
                values[row.key] = self.items(loc, given, row.parse)
            elif isinstance(given, bool):
                values[row.key] = given
            else:
                must = getattr(Limits, row.key) is not None
                values[row.key] = (self.parsed if must else self.optional)(loc, given, row.parse)
        limits = Limits(**values)
        if limits.ipc == "host" and resources.shm_size is not None:
            loc = ("resources", "shm_size")
            raise TemplateProblem(loc, "expected no size with ipc: host, whose /dev/shm it is", self.cell)
        return limits
