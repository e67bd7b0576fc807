"""A report's text -> a draft of a case: what the report says, on which lines, and what it does not say. Pure.

The draft holds what stands in the report's fences, consoles, tracebacks, blocks, lists and forms, and what a reader
states of it; for everything else it has a placeholder (:mod:`reprokit.case.placeholders`) or a sentence in ``missing``.
It never chooses between two candidates: it lists them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from reprokit.case import placeholders
from reprokit.core.errors import UsageError
from reprokit.core.redaction import Omitted, for_shell, scrub
from reprokit.core.text import one_line, pluralize
from reprokit.evidence.text import CUT_MARK
from reprokit.intake import environments, failures, matrix, pieces, requirements, stated
from reprokit.intake.draft import UNTITLED, Draft, clean_title, cut_text, is_foreign, literal, slug
from reprokit.intake.environment_model import EnvironmentBlock, group_blocks, merge
from reprokit.intake.facts import Fact, question
from reprokit.intake.failures import ReportedFailure
from reprokit.intake.pieces import ParsedReport
from reprokit.intake.programs import imports_in_command
from reprokit.intake.report_text import shorten_report
from reprokit.intake.running import Running, find_running
from reprokit.intake.signatures import identifying_frames
from reprokit.intake.stated import StatedFacts

_LISTED = 20
"""Most failures that a draft names."""
_LONGEST = 800
"""Characters of a description; the report has the rest."""
_REPOSITORY = re.compile(r"https?://(?:github\.com|gitlab\.com|gitee\.com)/[\w.-]+/[\w.-]+?(?=\.git|/|$|[#?])")
_NETWORK = re.compile(
    r"\bpip\S{0,9} install\b|from_pretrained\(|load_dataset\(|torch\.hub|download=True|snapshot_download"
    r"|requests\.(?:get|post)|urlopen|urlretrieve|https?://"
)
_GPU = re.compile(
    r"\.cuda\(|\bto\(\s?[\"']cuda|\bcuda:\d\b|CUDAPlace|\bcuda\.jit\b|--(?:num[-_]|n[-_])?gpus?[ =][1-9]"
    r"|--device[ =](?:cuda|gpu)|device\s?=\s?[\"']cuda|import (?:cupy|cudf|pycuda)\b|set_device\([\"']gpu"
    r"|\bCUDA_VISIBLE_DEVICES=[\"']?\d|\b(?:CUDA|NCCL|CUBLAS|CUDNN)\w{0,40} (?:runtime )?error|CUDA out of memory",
    re.IGNORECASE,
)
"""What uses a GPU: code and options of a program, and errors of the driver."""
_NO_TEXT = re.compile(
    r"\s*(?:[-*] \[[ xX]\]|!\[|https?://\S+\s*$|_No response_|[-=*_ ]{3,}$"
    r"|(?:[\w ]{0,30}command|命令)\s*[:：]|`[^`]*`\s*$)",
    re.IGNORECASE,
)
"""Lines of prose that say nothing: boxes of a form, pictures, links, rulers, commands."""
_TOOLS = frozenset({"pytest", "pip", "setuptools", "pkg_resources", "wheel"})
"""What is in tracebacks and commands beside the package that the report is about."""
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

    ``failure``: the number of the failure that it is about, of those that the report shows; 0 = the only one.
    ``created``: the time or day at which it was written, by the server that it is from; '' where that is not known.
    Of a long log the two ends are read; secrets are removed next. Raises UsageError where the text says nothing, or has
    no such failure.
    """
    omitted, report = _read(text)
    shown = failures.find_failures(report.pieces)
    if failure > max(len(shown), 1):
        listed = "".join(f"\n  {number} ({one})" for number, one in enumerate(shown, 1))
        raise UsageError(
            f"{source}: there is no failure {failure}; it shows {pluralize(len(shown), 'failure')}:{listed}"
        )
    found = _REPOSITORY.match(url)
    made = _Drafting(report, url, stated.check_facts(facts, report, found[0] if found else ""))
    made.choose(shown, failure)
    made.write()
    if not made.says_something:
        raise UsageError(f"{source}: nothing in it that a case can be made of: no sentence, command or output")
    made.as_of(created)
    return Draft(
        data=made.data,
        notes={place: texts for place, texts in made.notes.items() if texts},
        missing=tuple(dict.fromkeys(made.missing)),
        omitted=omitted,
        passing=tuple(made.passing),
        troubles=tuple(f"{number} ({one})" for number, one in enumerate(shown, 1)) if len(shown) > 1 else (),
    )


@lru_cache(maxsize=1)
def _read(text: str) -> tuple[tuple[Omitted, ...], ParsedReport]:
    """What was left out of a text, and its pieces, which are the same for the draft of each failure."""
    scrubbed = scrub(shorten_report(text))
    return scrubbed.omitted, pieces.cut_report(scrubbed.text)


def request(text: str) -> str:
    """What to ask a language model about a report (:mod:`.facts`), without what is secret in it."""
    return question(_read(text)[1].lines)


class _Drafting:
    """One report while it is drafted: what was found in it, and the parts of the draft so far."""

    def __init__(self, report: ParsedReport, url: str, facts: StatedFacts) -> None:
        self.report = report
        self.url = url
        self.facts = facts
        self.data: dict[str, Any] = {}
        self.notes: dict[KeyPath, tuple[str, ...]] = {}
        self.missing: list[str] = list(facts.refused)
        self.failing: Sequence[Mapping[str, str]] = ()
        self.passing: list[Mapping[str, str]] = []
        self.shown: ReportedFailure | None = None
        self.running = Running()
        self.blocks: list[EnvironmentBlock] = environments.find_blocks(report.text)

    @property
    def says_something(self) -> bool:
        """Whether there is more in it than a greeting."""
        long = any(len(re.findall(r"[\u3040-\u9fff]|\w+", piece.text)) > 3 for piece in self.report.pieces)
        return bool(self.running.command or self.shown or self.blocks or long)

    def choose(self, shown: Sequence[ReportedFailure], number: int) -> None:
        """Take the failure that a reader states or that is asked for, or the only one that the report shows."""
        if number:
            self.shown = shown[number - 1] if shown else None
        elif self.facts.failure:
            self.shown = failures.stated_failure(self.facts.failure, self.report)
        elif len(shown) == 1:
            self.shown = shown[0]
        elif not shown:
            ended = [(one.values["The command"], one.first) for one in self.blocks if "The command" in one.values]
            self.shown = failures.failure_of_ending(*ended[0]) if ended else None
        others = [one for one in shown if self.shown is None or not failures.same_failure(one, self.shown)]
        if others and not self.facts.failure:
            listed = "; ".join(map(str, others[:_LISTED]))
            count = pluralize(len(others), "other failure" if self.shown else "failure")
            words = "--failure N drafts another" if self.shown else "--failure N says which this case is about"
            self.missing.append(f"The report shows {count}: {listed}: {words}.")
        elif not shown and self.shown is None:
            self.missing.append("The report shows no failure: write how it looks under expect.failure.")

    def write(self) -> None:
        """Write every part of the draft."""
        taken = [(one.first, one.last) for one in self.blocks if one.kind != "typed"]
        taken += [(self.shown.line, self.shown.last)] if self.shown and self.shown.line < self.shown.last else []
        self.running = find_running(self.report.pieces, taken, self.shown, self.facts)
        self.missing += self.running.missing
        self._sources()
        self._environment()
        self._run()
        self._expect()
        self._resources()
        self._head()
        self._left_out()
        self._vary()
        self._expect_cells()

    def as_of(self, created: str) -> None:
        """Let the packages come as they were on the day of the report, where its server says which day that was."""
        try:
            day = date.fromisoformat(created[:10])
        except ValueError:
            return
        if date(2010, 1, 1) <= day <= date.today() and self.data.get("environment", {}).get("pip"):
            self.data["environment"]["pip_before"] = (day + timedelta(days=1)).isoformat()
            note = f"the report was created on {day}: what is not pinned comes as it was then"
            self.notes[("environment", "pip_before")] = (note,)

    # -- the parts of the case -------------------------------------------------------------------------------------

    def _sources(self) -> None:
        """The trees that the report clones, or that a reader states."""
        stated_refs = {git.removesuffix(".git").lower(): ref for git, _, ref in self.facts.sources}
        clones = [
            (git, folder, ref or stated_refs.pop(git.lower(), "")) for git, folder, ref in self.running.installed.clones
        ]
        have = {git.lower() for git, *_ in clones}
        clones += [one for one in self.facts.sources if one[0].removesuffix(".git").lower() not in have]
        for git, folder, ref in clones:
            self.data.setdefault("sources", {})[folder] = {"git": git, "ref": ref or "HEAD", "path": folder}
            why = "as the report has it" if ref else "the report names none: this is today's default branch"
            self.notes[("sources", folder, "ref")] = (why,)
        if (script := self.running.script) and not clones:
            self.missing.append(f"{script} is started, and the report does not show it: add it to files or sources.")

    def _environment(self) -> None:
        found = stated.add_versions(self.facts, [merge(group) for group in group_blocks(self.blocks)])
        program, command = self.running.program, self.running.command
        traced = requirements.imported_packages(self.shown.frames if self.shown else ())
        started = ["pytest"] if re.search(r"(?m)^[^#]*\bpytest\b", command) else []
        # Where no environment is described, the reporter's may have what the draft's would lack.
        absent = re.findall(r"^ModuleNotFoundError: No module named '(\w+)", self.shown.title if self.shown else "")
        absent = [one for one in absent if not found and one in pieces.table("packages")]
        imports = [*(program.imports if program else ()), *started, *traced, *imports_in_command(command), *absent]
        brought = {requirements.name(folder) for folder in self.data.get("sources", {})}
        versions = {package: {one.packages.get(package) for one in found} for one in found for package in one.packages}
        brought |= {one for one in requirements.find_installed(command) if len(versions.get(one, ())) < 2}
        title = self.shown.title if self.shown else ""
        packages = requirements.choose_packages(
            found,
            imports=imports,
            asked=[*self.running.installed.pip, *(text for one in found for text in one.requirements)],
            options=self.running.installed.options,
            without=brought,
            decisive=self._decisive(traced, imports, versions.keys()),
            failure=title,
        )
        self.missing += packages.missing
        texts = [command, *self.running.files.values(), title]
        found = [environments.without_unused_gpus(one, texts, packages.pip) for one in found]
        systems = ["debian-12"]
        if found:
            built = matrix.build_matrix(found, packages.free)
            self.data["matrix"] = built.data
            self.notes |= built.notes
            self.missing += built.missing
            systems = [cell["os"] for cell in built.cells]
            fine = built.cells[len(found) - sum(one.works for one in self.facts.versions) :]
            self.failing = built.cells[: len(found) - len(fine)]
            self.passing = [cell for cell in fine if cell not in self.failing]
            self.running.env = {name: value for one in found for name, value in one.env.items()} | self.running.env
            if reported := [dict(one.values) for one in found if one.values]:
                self.data["report"] = {"environments": reported}
        else:
            self.missing.append("The report describes no environment: the cell is the default, debian-12.")
            if packages.free[0]:
                self.data["matrix"] = {axis: [value] for axis, value in packages.free[0].items()}
        self._packages(packages, systems)

    def _decisive(self, called: Sequence[str], imports: Sequence[str], reported: Collection[str]) -> set[str]:
        """The imports of which the release decides: the project of the report, and the library that was called.

        Where the report has a release of no package, each that its program imports may decide.
        """
        project = urlsplit(self.url).path.strip("/").split("/")[1:2]
        found = {*[one for one in called if one not in _TOOLS][:1], *(one for one in imports if one in project)}
        if found or reported or self.running.installed.pip:
            return found
        found = set(imports) - _TOOLS
        return found - {"numpy"} or found  # which nearly every program imports

    def _packages(self, packages: requirements.Requirements, systems: Sequence[str]) -> None:
        """``environment``: packages of the index, and those of the distribution where all cells have its manager."""
        installed = self.running.installed
        managers = {matrix.manager_of(name) for name in systems}
        parts: dict[str, list[str]] = {"apt": [*installed.apt, *packages.apt], "dnf": list(installed.dnf)}
        for manager, names in parts.items():
            if names and managers != {manager}:
                self.missing.append(f"{', '.join(names)}: packages of {manager}, which not every cell has.")
                parts[manager] = []
        parts |= {"pip": packages.pip, "pip_options": [literal(text) for text in packages.options]}
        if found := {key: list(dict.fromkeys(value)) for key, value in parts.items() if value}:
            self.data["environment"] = found
            self.notes |= {("environment", key): tuple(packages.notes.get(key, ())) for key in found}

    def _run(self) -> None:
        self.notes |= self.running.notes
        self.data["command"] = self.running.command or placeholders.COMMAND
        env = {**self.running.env, **self.facts.env}
        if env := {name: value for name, value in env.items() if re.fullmatch(r"[^=\s\0]+", name)}:
            self.data["env"] = env
        if self.running.files:
            self.data["files"] = dict(self.running.files)

    def _expect(self) -> None:
        shown = self.shown
        if shown is None:
            self.data["expect"] = {"failure": {"output": placeholders.OUTPUT}}
        else:
            self.data["expect"] = {"failure": self._signature(shown)}
            self.missing += [f"expect.failure: {shown.missing}."] if shown.missing else []
            for key, note in shown.notes.items():
                self.notes.setdefault(("expect", "failure", key), (note,))

    def _signature(self, shown: ReportedFailure) -> dict[str, Any]:
        """The failure as the case can show it: without frames of other libraries, or in files that it does not have."""
        found = dict(shown.signature)
        if found.pop("frames", None):
            about = {one.lower() for one in (self.running.program.imports if self.running.program else ())}
            files = {posixpath.basename(name) for name in self.running.files}
            known = files if files and "sources" not in self.data else None
            frames, which = identifying_frames(shown.frames, about, known)
            found |= {"frames": frames} if frames else {}
            self.notes[("expect", "failure", "frames")] = (which,)
        return found

    def _resources(self) -> None:
        lines = [line for line in self.running.command.split("\n") if not line.lstrip().startswith("#")]
        texts = "\n".join([*lines, *self.running.files.values()])
        found = {}
        if _NETWORK.search(texts):
            found["network"] = "bridge"
            self.notes[("resources", "network")] = ("the command or its program loads something from the network",)
        title = self.shown.title if self.shown else ""
        if self.facts.gpu or _GPU.search(f"{texts}\n{title}"):
            found["gpus"] = "1"
            why = f"line {self.facts.gpu}" if self.facts.gpu else "the command, its program or the failure uses one"
            self.notes[("resources", "gpus")] = (why,)
        if "gpus" not in found and (gpus := list(dict.fromkeys(one for block in self.blocks for one in block.gpus))):
            self.missing.append(f"The report's machine has {', '.join(gpus[:4])}: set resources.gpus if it needs one.")
        if found:
            self.data["resources"] = found

    def _head(self) -> None:
        made = self.shown.title if self.shown else ""
        own = clean_title(self.report.title)
        title = own or clean_title(made) or UNTITLED
        self.data["title"] = title
        if not own:
            self.notes[("title",)] = (f"the report has none{'; made from its failure' if made else ''}",)
        words = slug(made if made and is_foreign(title) else title)
        self.data["id"] = words or slug(urlsplit(self.url).path) or "reported-bug"
        if text := self._description():
            self.data["description"] = text
        if self.url:
            self.data["report"] = {"url": self.url, **self.data.get("report", {})}

    def _description(self) -> str:
        """The first paragraphs that people wrote, without lines of environments."""
        taken = {number for one in self.blocks for number in range(one.first, one.last + 1)}
        kept: list[str] = []
        for piece in self.report.pieces:
            if piece.kind != "prose":
                continue
            numbered = enumerate(piece.text.split("\n"), piece.line)
            text = "\n".join(
                "" if number in taken or _NO_TEXT.match(line) else line.rstrip() for number, line in numbered
            )
            for paragraph in filter(None, (part.strip("\n") for part in re.split(r"\n\s*\n", text))):
                if len(paragraph.strip()) >= 24 and not paragraph.rstrip().endswith((":", "：")):
                    if sum(map(len, kept)) + len(paragraph) > _LONGEST:
                        rest = cut_text(paragraph, _LONGEST, " ") if not kept else ""
                        return "\n\n".join([*kept, *([rest] if rest else []), "..."]) + "\n"
                    kept.append(paragraph)
        return "\n\n".join(kept) + "\n" if kept else ""

    def _left_out(self) -> None:
        """Say what could not be read, and escape what a shell or a template would read otherwise."""
        if self.report.pictures:
            pictures = pluralize(self.report.pictures, "picture")
            self.missing.append(f"The report has {pictures}, which reprokit cannot read.")
        if cut := CUT_MARK.search(self.report.text):
            line = self.report.text.count("\n", 0, cut.start()) + 1
            self.missing.append(
                f"The report is long: {cut[1] or 0} of its lines, from line {line} on, were not read; numbers of lines "
                "behind that count without them."
            )
        command = str(self.data["command"])
        self.data["command"] = for_shell(command)
        if self.data["command"] != command:
            self.missing.append("The command contained something secret or personal: see what is left out.")
        if files := self.data.get("files"):
            self.data["files"] = {name: for_shell(text, name) for name, text in files.items()}
        for key in ("command", "env", "files"):
            if key in self.data:
                self.data[key] = _escape_all(self.data[key])

    def _vary(self) -> None:
        """Make axes of what a reader says is changed where it works, or say what it is; texts are escaped."""
        for one in self.facts.contrasts:
            found, axes = matrix.vary(one, self.data), self.data.get("matrix", {})
            if found and "include" not in axes:
                self.data |= {**found.data, "matrix": {**axes, found.axis: [found.fails, found.works]}}
                self.notes[("matrix", found.axis)] = (f"line {one.line}: it works with {found.works}",)
                self.passing.append({found.axis: found.works})
                self.failing = [{**cell, found.axis: found.fails} for cell in self.failing or ({},)]
                continue
            fails, works = one_line(one.fails, 100), one_line(one.works, 100)
            changed = f"with {works} in the place of {fails}" if fails and works else f"with {works}"
            changed = changed if works else f"without {fails}"
            self.missing.append(f"Line {one.line}: it works {changed}: make an axis of it to have both cells.")

    def _expect_cells(self) -> None:
        """Expect the failure where the report has it, and nowhere else, if it says what works: a run then objects."""
        decisive = {
            axis for one in self.passing for axis in one if any(cell.get(axis) != one[axis] for cell in self.failing)
        }
        chosen = [{axis: cell[axis] for axis in sorted(decisive & cell.keys())} for cell in self.failing]
        if not decisive or not all(chosen):  # a cell without any of them would stand for all
            return
        self.data["expect"]["reproduces"] = [one for place, one in enumerate(chosen) if one not in chosen[:place]]
        self.notes[("expect", "reproduces")] = ("the report says that it works otherwise",)


def _escape_all(value: Any) -> Any:
    """A value whose texts are escaped so that none of them is a template."""
    if isinstance(value, Mapping):
        return {key: _escape_all(item) for key, item in value.items()}
    return literal(value) if isinstance(value, str) else value
