"""A report's text -> a draft of a case: what the report says, on which lines, and what it does not say. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from reprokit.case import placeholders
from reprokit.core.errors import UsageError
from reprokit.core.redaction import Omitted, for_shell, scrub
from reprokit.core.text import pluralize
from reprokit.evidence import frames as places
from reprokit.evidence.text import CUT_MARK
from reprokit.intake import (
    axes,
    days,
    distributions,
    facts_file,
    grouping,
    naming,
    pieces,
    placing,
    projects,
    requirements,
    resources,
    running,
    scripts,
    stated,
    stated_failures,
    texts,
    trees,
    troubles,
)
from reprokit.intake import failure as failures
from reprokit.intake.describing import description
from reprokit.intake.draft import Draft, literal
from reprokit.intake.environments import EnvironmentBlock, collected, pairs
from reprokit.intake.expecting import Expectation
from reprokit.intake.facts_file import Fact
from reprokit.intake.installing import installs
from reprokit.intake.pieces import ParsedReport
from reprokit.intake.projects import Project
from reprokit.intake.stated import StatedFacts
from reprokit.intake.troubles import ReportedTrouble

_LISTED = 20
"""Most troubles that a draft names."""
KeyPath = tuple[str | int, ...]


def draft(
    text: str,
    *,
    url: str = "",
    source: str = "the report",
    failure: int = 0,
    facts: Sequence[Fact | str] = (),
    created: str = "",
) -> Draft:
    """The draft of a case from a report, in English or Chinese. ``url``: its address; ``source``: its name in messages.

    ``created``: the time or day at which it was written, by the server that it is from; '' where that is not known.

    ``failure``: the number of the trouble that it is about (:mod:`.troubles`); 0 = the one that the report is about, of
    a document of many troubles the first. Of a long log the two ends are read; secrets are removed next. Raises
    UsageError where the text says nothing, or has no such trouble.
    """
    omitted, report, found, sections = _read(text)
    if failure > max(len(found), 1):
        listed = "".join(f"\n  {one}" for one in found)
        raise UsageError(
            f"{source}: there is no failure {failure}; it shows {pluralize(len(found), 'failure')}:{listed}"
        )
    about = found[failure - 1].about if failure and found else 0
    if sections:
        report = troubles.only(report, found, failure or 1)
    url = url or _own_url(report)
    held = stated.held(facts, report, url) if facts else None
    work = _Work(report, url, source, grouping.system_of(text), about, held)
    made = _as_of_its_day(work.draft(omitted), text, created)
    if sections:
        line = found[(failure or 1) - 1].line
        words = f"The text describes {len(found)} problems; this draft is about that in line {line}"
        listed = "; ".join(str(one) for one in found[:_LISTED])
        words = f"{words}: new --from with --failure N drafts another, --all each: {listed}."
        made = replace(made, missing=(words, *made.missing))
    return replace(made, troubles=tuple(map(str, found)) if len(found) > 1 else ())


@lru_cache(maxsize=1)
def _read(text: str) -> tuple[tuple[Omitted, ...], ParsedReport, Sequence[ReportedTrouble], bool]:
    """What was left out of a text, its pieces and its troubles, which are the same for the draft of each trouble."""
    scrubbed = scrub(texts.squeezed(texts.shortened(text, texts.MOST)))
    report = pieces.cut(scrubbed.text)
    return (scrubbed.omitted, report, *troubles.find(report))


def request(text: str) -> str:
    """What to ask a language model about a report (:mod:`.stated`), without what is secret in it."""
    return facts_file.request(_read(text)[1].lines)


class _Work:
    """One report while it is drafted: what was found in it, and the parts of the draft so far."""

    def __init__(
        self, report: ParsedReport, url: str, source: str, system: str, about: int, facts: StatedFacts | None
    ) -> None:
        self.report = report
        self.url = url
        self.data: dict[str, Any] = {}
        self.notes: dict[KeyPath, tuple[str, ...]] = {}
        self.missing: list[str] = []
        self.works: dict[str, str] = {}
        """What differs in a cell that works, by the report, from the one that fails."""
        self.passing: list[Mapping[str, str]] = []
        self.facts = facts
        known = facts and facts.failure
        self.shown = (known and stated_failures.find(known, report)) or failures.find(report.pieces, about)
        reading = grouping.read(report, self.shown, system, facts.mentions if facts else None)
        if reading.found > grouping.MOST:
            self.missing.append(
                f"The report describes {reading.found} environments; the draft has the first {grouping.MOST} of them."
            )
        self.environments, self.statements = reading.groups, reading.statements
        self.failing = reading.failing
        self.merged = requirements.unaliased(reading.merged, report.text)
        self.own = reading.own
        self.shells = running.shells(report.pieces, self._taken())
        if facts:
            self.missing += facts.refused
            self.shells = stated.with_setup(facts, self.shells)
        self.running = running.run(
            self.shells, self.shown, stated.programs(report.pieces, facts) if facts else report.pieces
        )
        self.installed = installs(self.running.setup)
        if facts:
            self.running.env |= facts.env
            self.running.files |= stated.files(facts, {**self.running.files, "": self.running.command})
            self.running.devices = self.running.devices or int(facts.gpu > 0)
            self.installed = stated.with_sources(facts, self.installed)
        self.project = self._project()
        if not (self.running.command or self.shown or self.environments or _says_something(report)):
            raise UsageError(f"{source}: nothing in it that a case can be made of: no sentence, command or output")

    def draft(self, omitted: tuple[Any, ...]) -> Draft:
        """The draft, with every part that was found. ``omitted``: what was removed as secret."""
        self._sources()
        self._environment()
        self._run()
        self._datasets()
        expected = Expectation(
            report=self.report,
            shown=self.shown,
            contrasts=self.facts.contrasts if self.facts else (),
            failing=self.failing,
            about=self._about(),
            data=self.data,
            notes=self.notes,
            missing=self.missing,
            works=self.works,
        )
        expected.write()
        self._resources(expected.works)
        self._head()
        if self.report.pictures:
            pictures = pluralize(self.report.pictures, "picture")
            self.missing.append(f"The report has {pictures}, which reprokit cannot read.")
        if cut := CUT_MARK.search(self.report.text):
            line = self.report.text.count("\n", 0, cut.start()) + 1
            self.missing.append(
                f"The report is long: {cut[1] or 0} of its lines, from line {line} on, were not read; numbers of lines "
                "behind that count without them."
            )
        self._left_out_of_shells()
        for key in ("command", "env", "files"):
            if key in self.data:
                self.data[key] = _literal(self.data[key])
        expected.vary()
        notes = {place: texts for place, texts in self.notes.items() if texts}
        return Draft(
            data=self.data,
            notes=notes,
            missing=tuple(dict.fromkeys(self.missing)),
            omitted=omitted,
            passing=(*self.passing, *expected.passing),
        )

    def _left_out_of_shells(self) -> None:
        """Replace placeholders ``<...>`` of secrets in commands, since a shell would read them as redirections."""
        command = str(self.data["command"])
        self.data["command"] = for_shell(command)
        if self.data["command"] != command:
            self.missing.append("The command contained something secret or personal: see what is left out.")
        if files := self.data.get("files"):
            self.data["files"] = {name: for_shell(text, name) for name, text in files.items()}

    # -- what was found --------------------------------------------------------------------------------------------

    def _taken(self) -> list[tuple[int, int]]:
        # Typed environments have other lines in between; Dockerfiles and docker commands contain commands.
        spans = self._spans("typed", "stated", "paths", "dockerfile", "docker run")
        if self.shown and self.shown.line < self.shown.last:
            spans.append((self.shown.line, self.shown.last))
        return spans

    def _spans(self, *others: str) -> list[tuple[int, int]]:
        """The lines of the environments, but for those of other kinds."""
        blocks = (found for group in self.environments for found in group)
        return [(found.first, found.last) for found in blocks if found.kind not in others]

    def _project(self) -> Project | None:
        """The project in whose tree the command runs: from git clone, the traceback, the environments, or the URL."""
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
        # One whose versions are compared is installed from the index in each cell.
        versions = {name: {found.packages.get(name) for found in self.merged} for name in keys}
        installed = set(requirements.imported(frames))  # a trace shows it among the installed packages
        named = [one for one in projects.named(keys) if len(versions.get(one.pip, ())) < 2]
        script = placing.needs_tree(self.running, self.shown)
        named = [one for one in named if one.package not in installed and script.startswith(one.programs)]
        return named[0] if named else of_url

    def _about(self) -> set[str]:
        """What the report is about: of the packages in the traceback the import names, in small letters, else names."""
        program = self.running.program
        used = [*(program.imports if program else ()), *(re.split(r"[^\w.-]", one)[0] for one in self.installed.pip)]
        named = set(self.project.names if self.project else used)
        found = requirements.imported(self.shown.frames if self.shown else ())
        return {one.lower() for one in found if _package(one) in map(_package, named)} or named

    # -- the parts of the case -------------------------------------------------------------------------------------

    def _sources(self) -> None:
        """The trees that the report clones, or that of the project whose script the command runs."""
        script = placing.needs_tree(self.running, self.shown)
        clones = self.installed.clones
        if not script and not clones:
            self.project = None
            return
        if self.project is None:
            self.missing.append(
                f"{script} is a program of the reporter, or of a project that the report does not name: add it "
                f"to sources or files."
            )
            return
        sources = {}
        for git, folder, branch in clones or ((self.project.git, self.project.name, ""),):
            one = self.project if git == self.project.git else projects.of_url(git) or Project(name=folder, git=git)
            ref, why = self._ref(one, branch)
            sources[folder] = {"git": git, "ref": ref, "path": folder}
            self.notes[("sources", folder, "ref")] = (why,)
            self.notes[("sources", folder)] = (self.project.why or "the known repository of that project",)
        self.data["sources"] = sources
        placing.place(self.running, self.shown, self.project)

    def _ref(self, project: Project, branch: str) -> tuple[str, str]:
        """(what is checked out of a tree, why)."""
        if refs := self.installed.refs:
            return refs[-1], "as the report checks it out"
        if branch:
            return branch, "as the report checks it out"
        if project is self.project and (version := self._version(project)) and project.tag:
            return projects.ref_of(project, version)
        return projects.ref_of(project, self._version(project) if project is self.project else "")

    def _version(self, project: Project) -> str:
        """A project's version from an environment or the text; '' where there is none."""
        names = {project.name.lower(), project.package, project.pip} - {""}
        for found in [self.merged[self.failing]] if self.environments else []:
            for key, value in (*found.values.items(), *found.packages.items()):
                if re.sub(r"\s*(?:version|版本)$", "", str(key).strip().lower()) in names:
                    return str(value)
        return ""

    def _environment(self) -> None:
        merged = self.merged
        program = self.running.program
        frames = self.shown.frames if self.shown else ()
        seen = self.shown.exception if self.shown else None
        imports = [
            *(program.imports if program and program.name.endswith(".py") else ()),
            *(["pytest"] if program and program.tests and program.start in self.running.command else []),
            *requirements.imported(frames),
            *scripts.imported_by(self.running.command),
            *([started] if (started := placing.module(self.running)) else []),
            *([seen.type.partition(".")[0]] if seen and "." in seen.type else []),
        ]
        brought = [self.project.package, self.project.pip] if self.project else []
        # What the command itself installs is not installed before it, unless its versions are compared.
        own = requirements.installed_by(self.running.command)
        brought += [name for name in own if len({found.packages.get(name) for found in merged}) < 2]
        images = {found.image for found in merged if found.image}
        packages = self.facts.packages if self.facts else set()
        wanted = requirements.wanted(
            merged,
            imports=[name for name in imports if name not in brought],
            asked=[
                *self.installed.pip,
                *(text for found in merged for text in found.requirements),
            ],
            options=list(
                dict.fromkeys([*self.installed.options, *(text for found in merged for text in found.pip_options)])
            ),
            apt=[*self.installed.apt, *(text for found in merged for text in found.apt)],
            without=[name for name in brought if name],
            elsewhere=requirements.not_of_python(self.environments, self.report.text, packages)
            | (self.facts.other if self.facts else frozenset()),
            unknown=requirements.unknown(self.environments, self.own | packages),
            script=program.name if program and not program.alone else "the command or its traceback",
            failure=self.shown.title if self.shown else "",
        )
        self.missing += wanted.missing
        if started and started not in brought and not wanted.has(started):
            self.missing.append(f"The command starts {started}: the report does not say which package that is.")
        texts = [self.running.command, *self.running.files.values(), self.shown.title if self.shown else ""]
        merged = self.merged = [
            # Of a program whose text is not known, any package may be what it uses.
            collected.used(found, texts, [*wanted.pip, *(() if self.running.files else found.packages)])
            for found in merged
        ]
        matrix = axes.matrix(merged, self.failing, compiles=self.running.compiles, free=wanted.free)
        if not merged:
            self.missing.append(
                "The report describes no environment: the cell is the default, debian-12 with its Python."
            )
        else:
            self.data["matrix"] = matrix.data
            self.notes |= matrix.notes
            comments = grouping.comments(self.environments, self.statements)
            self.notes[("matrix",)] = (*self.notes.get(("matrix",), ()), *comments)
            said = list(zip(matrix.cells, self.statements, strict=True))
            fine = next((cell for cell, one in said if one and not one.fails), {})
            bad = matrix.cells[self.failing]
            self.works = {name: value for name, value in fine.items() if value != bad.get(name)}
            self.passing = [cell for cell, one in said if one and not one.fails]
            if claimed := grouping.reproduces(matrix.cells, self.statements):
                self.notes[("expect",)] = (f"as the report says, reproduces: {claimed}; not confirmed by a run",)
        if tools := [name for name in placing.tools(self.running, matrix.cells) if name not in wanted.apt]:
            wanted.apt += tools
            wanted.notes.setdefault("apt", []).append(f"{', '.join(tools)}: programs that the command starts")
        environment: dict[str, Any] = {}
        options = [literal(text) for text in wanted.options]
        dnf = [*self.installed.dnf, *(text for found in merged for text in found.dnf)]
        installed = distributions.lists(wanted.apt, dnf, [cell.get("os", "") for cell in matrix.cells])
        wanted.notes["dnf"] = wanted.notes.get("apt", [])
        parts = {**installed, "pip": wanted.pip, "pip_options": options, "setup": wanted.setup}
        for key, value in parts.items():
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
            reported = [dict(found.values) for found in merged if found.values]
            if reported:
                self.data.setdefault("report", {})["environments"] = reported

    def _notes_of(self, merged: Sequence[EnvironmentBlock]) -> None:
        remarks = tuple(dict.fromkeys(note for found in merged for note in found.notes))
        if remarks:
            self.notes[("matrix",)] = (*self.notes.get(("matrix",), ()), *remarks)

    def _run(self) -> None:
        found = self.running
        self.missing += found.missing
        self.notes |= found.notes
        started = next((one.options["command"] for one in self.merged if one.options.get("command")), "")
        if found.command or started:
            self.data["command"] = found.command or started
            if not found.command:
                self.notes[("command",)] = ("what the report's container was started with",)
        else:
            first = next(iter(self.shown.frames if self.shown else ()), None)
            own = first and not first.file.startswith("<") and places.kind(first) == "own"
            known = f"; the traceback begins in {first.file}" if first and own else ""
            self.missing.append(f"The report shows no command and no program{known}: write it under command.")
            self.data["command"] = running.held(found.steps) + placeholders.COMMAND
        env = {name: value for found in self.merged for name, value in found.env.items()} | found.env
        if env:
            self.data["env"] = {name: value for name, value in env.items() if re.fullmatch(r"[^=\s\0]+", name)}
        if found.files:
            self.data["files"] = dict(found.files)

    def _datasets(self) -> None:
        """The well-known datasets in the folders that the report draws."""
        project = self.project.name if self.project else ""
        for piece in self.report.pieces:
            for found in trees.datasets(piece.text, piece.line, project) if piece.code else ():
                path = "/".join(part for part in found.path.split("/") if not re.search(r"[$<>~:]", part))
                if project and "sources" in self.data and not (path + "/").startswith(f"{project}/"):
                    path = f"{project}/{path}"
                layout = [{"glob": literal(glob), "min": "1"} for glob in found.layout]
                self.data.setdefault("datasets", {})[found.name] = {"path": literal(path), "layout": layout}
                why = f"from the folders in line {found.line} and the following; its files are the known ones of it"
                self.notes[("datasets", found.name)] = (why,)
                self.missing.append(
                    f"The data of {found.name}: name its folder with --dataset {found.name}=DIR, or write a command "
                    f"that makes a stand-in in datasets.{found.name}.generate."
                )

    def _resources(self, works: Mapping[str, str]) -> None:
        """Limits and devices. ``works``: what differs in a cell that works."""
        texts = "\n".join([self.running.command, *self.running.files.values()])
        found, notes = resources.needed(self.merged, texts, self.report.text, self.running.devices)
        if "device" in works:
            found = {**found, "gpus": f"{{{{ 0 if device == 'cpu' else {found.get('gpus', 1)} }}}}"}
        if found:
            self.data["resources"] = found
        self.notes |= {("resources", key): (note,) for key, note in notes.items()}
        if commands := [line for one in self.merged for line in one.setup]:
            self.missing.append(
                f"The report's Dockerfile runs {pluralize(len(commands), 'other command')}: "
                "add them to environment.setup if the case needs them."
            )

    def _head(self) -> None:
        title = naming.title(self.report.title) or naming.title(self._made_title()) or "A reported bug"
        self.data["title"] = title
        if not naming.title(self.report.title):
            made_from = "failure" if self.shown else "first sentence"
            self.notes[("title",)] = (f"the report has none; made from its {made_from}",)
        self.data["id"] = self._id(title)
        spans = self._spans("stated", "paths")
        spans += [(self.shown.line, self.shown.last)] if self.shown else []
        written = self.report.lines
        spans += [
            (line.line, line.line + line.text.count("\n"))
            for shell in self.shells
            for line in shell.lines
            if written[line.line - 1].strip(" \t`*").endswith(line.text.partition("\n")[0])
        ]
        if text := description(self.report, spans, self.shown.line if self.shown else 0):
            self.data["description"] = text
        if self.url:
            report = self.data.setdefault("report", {})
            self.data["report"] = {"url": self.url, **report}
        if not self.data.get("report"):
            self.data.pop("report", None)

    def _made_title(self) -> str:
        failed = self.shown.title if self.shown else ""
        where = str(self.shown.signature["frames"][-1]) if self.shown and self.shown.signature.get("frames") else ""
        return f"{failed} in {where}" if failed and where else failed or self._first_sentence() or naming.UNTITLED

    def _first_sentence(self) -> str:
        """The first sentence of the line that tells the failure, else of the text."""
        prose = self.report.lines[self.shown.line - 1].strip(" \t*->#") if self.shown else ""
        prose = prose or description(self.report, [])
        return re.split(r"(?<=[.!?])\s|[。！？\n]", prose, maxsplit=1)[0].rstrip(".")

    def _id(self, title: str) -> str:
        failed = self.shown.title if self.shown else ""
        words = naming.slug(failed if failed and naming.foreign(title) else title) or naming.slug(
            urlsplit(self.url).path
        )
        return naming.slug(self.project.name if self.project else "", words) or "reported-bug"


def _as_of_its_day(made: Draft, text: str, created: str) -> Draft:
    """The draft with packages as they were on the day of the report, where that is known and they can be."""
    environment = made.data.get("environment", {})
    found = days.of_report(texts.shortened(text, texts.MOST), created, date.today()) if environment.get("pip") else None
    if found is None or not days.fits(found, made.data.get("matrix", {}), environment["pip"]):
        return made
    note = f"{found.why}: what is not pinned comes as it was then"
    data = {**made.data, "environment": {**environment, "pip_before": found.limit}}
    return replace(made, data=data, notes={**made.notes, ("environment", "pip_before"): (note,)})


def _package(name: str) -> str:
    """A package, by its import name or as on the index."""
    return pairs.role(name) or re.sub(r"[-_.]", "", name.lower())


def _literal(value: Any) -> Any:
    """A value whose texts are escaped so that none of them is a template."""
    if isinstance(value, Mapping):
        return {key: _literal(item) for key, item in value.items()}
    return literal(value) if isinstance(value, str) else value


def _says_something(report: ParsedReport) -> bool:
    """Whether there is a sentence in it, or at least a title of a few words."""
    return any(len(re.findall(r"[\u3040-\u9fff]|\w+", piece.text)) > 3 for piece in report.pieces)


def _own_url(report: ParsedReport) -> str:
    """The address of the issue, where the text of the report names it; else ''."""
    found = re.search(
        r"^(?:url|link|原文|链接)\s*[:：]\s*(https?://\S+)", report.text[:4000], re.IGNORECASE | re.MULTILINE
    )
    return found[1] if found else ""
