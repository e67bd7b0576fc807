"""A report's text -> a draft of a case: everything that it says, where from, and what it does not say. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from reprokit.core.errors import UsageError
from reprokit.core.redaction import for_shell, scrub
from reprokit.core.text import pluralize
from reprokit.evidence import frames as places
from reprokit.intake import (
    axes,
    environments,
    failure,
    grouping,
    naming,
    pieces,
    projects,
    requirements,
    resources,
    running,
    trees,
)
from reprokit.intake.commands import installs
from reprokit.intake.describing import description
from reprokit.intake.draft import Draft, literal
from reprokit.intake.environments import Found
from reprokit.intake.pieces import Report
from reprokit.intake.projects import Project

MOST = 1_000_000
"""Characters of a report that is read."""

Place = tuple[str | int, ...]

_ON_GPU = re.compile(r"\b(?:CUDA|NCCL|CUBLAS|CUDNN)\w{0,40} (?:runtime )?error|CUDA out of memory", re.IGNORECASE)
_PROBLEM = re.compile(
    r"[-*#\s\d.、)]{0,20}(?:表现|问题|现象|症状|报错|problem|symptom|issue)\s{0,5}\d{0,3}\s{0,5}[:：]", re.IGNORECASE
)
"""How collections of problems begin each of theirs."""


def draft(text: str, *, url: str = "", source: str = "the report") -> Draft:
    """The draft of a case from a report, in English or Chinese. ``url``: where it stands; ``source``: what to call it.

    Secrets are left out first. Raises UsageError, saying what was looked for, where the report holds nothing that a
    case could be made of, or is too long.
    """
    if len(text) > MOST:
        raise UsageError(f"{source}: more than {MOST:,} characters; cut it down to the report of one bug")
    scrubbed = scrub(text)
    report = pieces.cut(scrubbed.text)
    work = _Work(report, url, source, grouping.system_of(text))
    return work.draft(tuple(scrubbed.omitted))


class _Work:
    """One report on its way to a draft: what was found, and what has been written of it."""

    def __init__(self, report: Report, url: str, source: str, system: str) -> None:
        self.report = report
        self.url = url or _own_url(report)
        self.data: dict[str, Any] = {}
        self.notes: dict[Place, tuple[str, ...]] = {}
        self.missing: list[str] = []
        self.shown = failure.find(report.pieces)
        blocks = environments.find(report.text)
        if len(blocks) > grouping.MOST:
            self.missing.append(
                f"The report tells of {len(blocks)} environments, of which the first {grouping.MOST} are here."
            )
        self.environments = grouping.grouped(blocks)
        self.said = grouping.told(report.lines, self.environments)
        self.failing = grouping.failing(self.environments, self.shown, self.said)
        if guessed := grouping.from_paths(self.shown, self.environments, system):
            if self.environments:
                told = self.environments[self.failing]
                told.append(replace(guessed, first=told[0].first, last=told[0].last))
            else:
                self.environments, self.said = [[guessed]], [None]
        self.merged: list[Found] = [environments.merge(group) for group in self.environments]
        self.shells = running.shells(report.pieces, self._taken())
        self.running = running.run(self.shells, self.shown, report.pieces)
        self.installed = installs(self.running.setup)
        self.project = self._project()
        if not (self.running.command or self.shown):
            found = (
                f"; all that it tells of is {pluralize(len(self.environments), 'environment')}"
                if self.environments
                else ""
            )
            raise UsageError(
                f"{source}: no command, program or failure in it (looked for command lines, Python and C++ programs, "
                f"tracebacks, crashes and compiler errors), so that there is nothing to run and nothing to look "
                f"for{found}"
            )

    def draft(self, omitted: tuple[Any, ...]) -> Draft:
        """Write every part, in the order of the format."""
        self._sources()
        self._environment()
        self._run()
        self._datasets()
        self._expect()
        self._resources()
        self._head()
        problems = sum(bool(_PROBLEM.match(line)) for line in self.report.lines)
        if problems > 2:
            self.missing.append(
                f"The report looks as if it told of {problems} problems; a case is about one: cut it down to that."
            )
        if self.report.pictures:
            pictures = pluralize(self.report.pictures, "picture")
            self.missing.append(f"The report has {pictures}, which nobody but people can read.")
        self._left_out_of_shells()
        for key in ("command", "env", "files"):
            if key in self.data:
                self.data[key] = _literal(self.data[key])
        notes = {place: texts for place, texts in self.notes.items() if texts}
        return Draft(data=self.data, notes=notes, missing=tuple(dict.fromkeys(self.missing)), omitted=omitted)

    def _left_out_of_shells(self) -> None:
        """Put what stands for a secret into the words of a shell, to which ``<...>`` is a redirection."""
        command = str(self.data["command"])
        self.data["command"] = for_shell(command)
        if self.data["command"] != command:
            self.missing.append("The command had something secret or personal in it: see what is left out.")
        if files := self.data.get("files"):
            self.data["files"] = {name: for_shell(text, name) for name, text in files.items()}

    # -- what was found --------------------------------------------------------------------------------------------

    def _taken(self) -> list[tuple[int, int]]:
        # What people type stands between other lines; Dockerfiles and docker's lines hold commands.
        spans = [
            (found.first, found.last)
            for group in self.environments
            for found in group
            if found.kind not in ("typed", "dockerfile", "docker run")
        ]
        if self.shown and self.shown.line:
            spans.append((self.shown.line, self.shown.last))
        return spans

    def _project(self) -> Project | None:
        """The project in whose tree the command runs: by git clone, the traceback, the environment, or the address."""
        for git, folder, _ in self.installed.clones:
            known = projects.of_url(git)
            return Project(
                name=folder,
                git=git,
                tag=known.tag if known else "",
                package=known.package if known else "",
                why="as the report clones it",
            )
        frames = self.shown.frames if self.shown else ()
        if found := projects.in_frames(frames):
            return found
        of_url = projects.of_url(self.url)
        if of_url and (projects.folder_of(frames, of_url) or of_url.tag):
            return of_url
        keys = [key for found in self.merged for key in (*found.values, *found.packages)]
        named = projects.named(keys)
        return named[0] if named else of_url

    # -- the parts of the case -------------------------------------------------------------------------------------

    def _sources(self) -> None:
        """The project's tree, where the command runs a script of it."""
        script = running.needs_tree(self.running, self.shown)
        if not script:
            self.project = None
            return
        if self.project is None:
            self.missing.append(
                f"{script} is a program of the reporter's or of a project that the report does not name: add it "
                f"to sources or files."
            )
            return
        version, refs = self._version(), self.installed.refs
        branch = next((branch for git, _, branch in self.installed.clones if branch), "")
        if refs or branch:
            ref, why = refs[-1] if refs else branch, "as the report checks it out"
        else:
            ref, why = projects.ref_of(self.project, version)
        self.data["sources"] = {self.project.name: {"git": self.project.git, "ref": ref, "path": self.project.name}}
        self.notes[("sources", self.project.name, "ref")] = (why,)
        self.notes[("sources", self.project.name)] = (self.project.why or "where that project is",)
        running.place(self.running, self.shown, self.project)

    def _version(self) -> str:
        """The project's version as an environment tells it."""
        assert self.project is not None
        names = {self.project.name.lower(), self.project.package, self.project.pip} - {""}
        for found in [self.merged[self.failing]] if self.environments else []:
            for key, value in (*found.values.items(), *found.packages.items()):
                if re.sub(r"\s*(?:version|版本)$", "", str(key).strip().lower()) in names:
                    return str(value)
        words = r"[-_ ]?".join(re.escape(word) for word in re.split(r"[-_ ]", self.project.name) if word)
        told = re.search(
            rf"(?<![\w/.]){words}(?: ?版本| version)?[ \t]*[:：=]?[ \t]*v?(\d+\.\d[\w.+]*)", self.report.text, re.I
        )
        return told[1].rstrip(".") if told else ""

    def _environment(self) -> None:
        merged = self.merged
        program = self.running.program
        frames = self.shown.frames if self.shown else ()
        seen = self.shown.exception if self.shown else None
        imports = [
            *(program.imports if program and program.name.endswith(".py") else ()),
            *requirements.imported(frames),
            *([started] if (started := running.module(self.running)) else []),
            *([seen.type.partition(".")[0]] if seen and "." in seen.type else []),
        ]
        brought = [self.project.package, self.project.pip] if self.project else []
        images = {found.image for found in merged if found.image}
        wanted = requirements.wanted(
            merged,
            imports=[name for name in imports if name not in brought],
            asked=[
                *self.installed.pip,
                *(text for found in merged for text in found.requirements),
                *requirements.pins(self.report),
            ],
            options=self.installed.options,
            apt=[*self.installed.apt, *(text for found in merged for text in found.apt)],
            without=[name for name in brought if name],
            script=program.name if program else "",
        )
        self.missing += wanted.missing
        if started and started not in brought and not wanted.has(started):
            self.missing.append(f"The command starts {started}: which package that is, the report does not say.")
        matrix = axes.matrix(merged, self.failing, compiles=self.running.compiles, free=wanted.free)
        if not merged:
            self.missing.append(
                "The report tells of no environment: the cell is the default, debian-12 with its Python."
            )
        else:
            self.data["matrix"] = matrix.data
            self.notes |= matrix.notes
            said = grouping.comments(self.environments, self.said)
            self.notes[("matrix",)] = (*self.notes.get(("matrix",), ()), *said)
            if claimed := grouping.reproduces(matrix.cells, self.said):
                self.notes[("expect",)] = (f"as the report says, reproduces: {claimed}; no run has shown it",)
        environment: dict[str, Any] = {}
        for key, value in (("apt", wanted.apt), ("pip", wanted.pip), ("pip_options", wanted.options)):
            if value:
                environment[key] = value
                self.notes[("environment", key)] = tuple(wanted.notes.get(key, ()))
        if len(images) == 1:
            self.notes[("environment",)] = (
                f"the report's image was {images.pop()}: environment.image could name it instead of the axes",
            )
        if environment:
            self.data["environment"] = environment
        self._notes_of(merged)
        if self.environments:
            told = [dict(found.values) for found in merged if found.values]
            if told:
                self.data.setdefault("report", {})["environments"] = told

    def _notes_of(self, merged: Sequence[Found]) -> None:
        remarks = tuple(dict.fromkeys(note for found in merged for note in found.notes))
        if remarks:
            self.notes[("matrix",)] = (*self.notes.get(("matrix",), ()), *remarks)

    def _run(self) -> None:
        found = self.running
        self.missing += found.missing
        self.notes |= found.notes
        if found.command:
            self.data["command"] = found.command
        else:
            first = next(iter(self.shown.frames if self.shown else ()), None)
            own = first and not first.file.startswith("<") and places.kind(first) == "own"
            known = f"; the traceback begins in {first.file}" if first and own else ""
            self.missing.append(f"The report shows no command and no program{known}: put in what was run.")
            self.data["command"] = "echo 'reprokit: put in the command that fails' >&2; exit 3"
        env = {name: value for found in self.merged for name, value in found.env.items()} | found.env
        if env:
            self.data["env"] = {name: value for name, value in env.items() if re.fullmatch(r"[^=\s\0]+", name)}
        if found.files:
            self.data["files"] = dict(found.files)

    def _datasets(self) -> None:
        for piece in self.report.pieces:
            if not piece.code or piece.kind == "traceback":
                continue
            tree = trees.read(piece.text, piece.line)
            for found in trees.datasets(tree, self.project.name if self.project else "") if tree else ():
                self._dataset(tree.root if tree else "", found)

    def _dataset(self, root: str, found: trees.Found) -> None:
        parts = [part for part in (root, found.path) if part and not re.search(r"[$<>~:]", part)]
        path = "/".join(parts).strip("/") or found.name
        if self.project and "sources" in self.data and not (path + "/").startswith(f"{self.project.name}/"):
            path = f"{self.project.name}/{path}"
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", found.name) or "data"
        layout = [{"glob": literal(glob), "min": "1"} for glob in found.layout]
        self.data.setdefault("datasets", {})[name] = {"path": literal(path), "layout": layout}
        files = (
            f"its files are those of {found.known}, as it is known"
            if found.known
            else "which files it has is not known"
        )
        self.notes[("datasets", name)] = (f"from the folders that line {found.line} and following show; {files}",)
        self.missing.append(
            f"The data of {name}: name it with --dataset {name}=DIR, or give datasets.{name}.generate a command "
            f"that makes a stand-in."
        )

    def _expect(self) -> None:
        shown = self.shown
        if shown is None:
            self.missing.append(
                "The report shows no failure: until expect.failure is filled in, any exit status but 0 counts."
            )
            return
        self.data["expect"] = {"failure": dict(shown.signature)}
        for key, note in shown.notes.items():
            self.notes[("expect", "failure", key)] = (note,)
        if shown.others:
            self.missing.append(
                f"The report shows {pluralize(shown.others, 'other failure')}: a case is about one bug, and this one "
                f"is about that in line {shown.line}."
            )

    def _resources(self) -> None:
        texts = "\n".join([self.running.command, *self.running.files.values()])
        message = self.shown.exception.message if self.shown and self.shown.exception else ""
        found, notes = resources.needed(self.merged, texts, message, self.running.devices)
        if found:
            self.data["resources"] = found
        self.notes |= {("resources", key): (note,) for key, note in notes.items()}
        if "gpus" not in found and self.shown and _ON_GPU.search(self.shown.title):
            self.missing.append("The failure speaks of CUDA and the report names no GPU: resources.gpus is not set.")
        if commands := [line for one in self.merged for line in one.setup]:
            self.missing.append(
                f"The report's Dockerfile runs {pluralize(len(commands), 'other command')}: "
                "environment.setup may need them."
            )

    def _head(self) -> None:
        title = naming.title(self.report.title) or naming.title(self._made_title())
        self.data["title"] = title
        if not naming.title(self.report.title):
            self.notes[("title",)] = ("the report has none; made of its failure",)
        self.data["id"] = self._id(title)
        spans = [(found.first, found.last) for group in self.environments for found in group]
        spans += [(self.shown.line, self.shown.last)] if self.shown else []
        written = self.report.lines
        spans += [
            (line.line, line.line + line.text.count("\n"))
            for shell in self.shells
            for line in shell.lines
            if written[line.line - 1].strip().endswith(line.text.partition("\n")[0])
        ]
        if text := description(self.report, spans, self.shown.line if self.shown else 0):
            self.data["description"] = text
        if self.url:
            report = self.data.setdefault("report", {})
            self.data["report"] = {"url": self.url, **report}
        if not self.data.get("report"):
            self.data.pop("report", None)

    def _made_title(self) -> str:
        told = self.shown.title if self.shown else ""
        where = str(self.shown.signature["frames"][-1]) if self.shown and self.shown.signature.get("frames") else ""
        return f"{told} in {where}" if told and where else told or "A bug that has no title"

    def _id(self, title: str) -> str:
        told = self.shown.title if self.shown else ""
        words = naming.slug(told if told and naming.foreign(title) else title) or naming.slug(urlsplit(self.url).path)
        return naming.slug(self.project.name if self.project else "", words) or "reported-bug"


def _literal(value: Any) -> Any:
    """The texts of a value, none of which is a template."""
    if isinstance(value, Mapping):
        return {key: _literal(item) for key, item in value.items()}
    return literal(value) if isinstance(value, str) else value


def _own_url(report: Report) -> str:
    """The address of the issue, where a copy of it names its own."""
    found = re.search(
        r"^(?:url|link|原文|链接)\s*[:：]\s*(https?://\S+)", report.text[:4000], re.IGNORECASE | re.MULTILINE
    )
    return found[1] if found else ""
