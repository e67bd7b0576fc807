"""From what was recorded about a failed command to the draft of its case. Pure."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from reprokit.case.model import Failure
from reprokit.core import redaction
from reprokit.core.redaction import Omitted
from reprokit.core.text import one_line
from reprokit.environment.axes.operating_system import same
from reprokit.environment.catalog import OURS
from reprokit.evidence.judgement import judge
from reprokit.evidence.text import clean
from reprokit.intake import captured_python
from reprokit.intake.captured_python import SHELLS
from reprokit.intake.captured_run import CapturedRun
from reprokit.intake.draft import Draft, literal, slug
from reprokit.intake.matrix import why_unavailable
from reprokit.search import reduce_text

_COMPILER = re.compile(r"(?:.*-)?(?:gcc|g\+\+|cc|c\+\+|make|cmake|ninja|nvcc)(?:-[\d.]+)?")
_COMPILED = frozenset({".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp", ".cuh"})
_NVCC, _CUDA = re.compile(r"nvcc"), frozenset({".cu", ".cuh"})
_ON_GPU = re.compile(r"torch|paddlepaddle-gpu|tensorflow|jax\w*|cupy.*|onnxruntime-gpu|mxnet.*")
_LAST = 40
"""Last lines of the output that a description shows."""
_LONG = 600.0
"""Seconds above which the default time limit may be too short."""


class CaptureDrafting:
    """The draft of a case for a command that failed, by itself or by its time limit."""

    def __init__(self, seen: CapturedRun) -> None:
        self.seen = seen
        self.notes: dict[tuple[str | int, ...], tuple[str, ...]] = {}
        self.missing: list[str] = []
        self.omitted: list[Omitted] = list(seen.variables.omitted)
        self.known = {**seen.known, **dict.fromkeys(_secrets_of_options(seen.command), "<secret>")}
        python = seen.interpreter
        traced = re.findall(r'File "([^"\n]{1,1000})", line \d+', seen.ran.log)
        modules = seen.gathered.modules | captured_python.modules_of(traced)
        self.pins = (
            captured_python.pin_packages(python, modules, seen.words) if python else captured_python.PinnedPackages()
        )
        self.from_git = self._from_git()
        tree = self.from_git and seen.checkout
        self.inside = "/".join(filter(None, (tree.name, tree.folder))) if tree else ""

    def draft(self) -> Draft:
        command = self._command()
        self._elsewhere()
        failure = self._failure()
        data: dict[str, Any] = {
            "id": self._id(failure),
            "title": self._title(failure, command),
            "description": self._description(),
            "report": {"environments": [self._reported()]},
            "environment": self._environment(),
            "matrix": self._matrix(),
            "sources": self._sources() if self.from_git else {},
            "files": self._files(),
            "env": self._env(),
            "command": command,
            "resources": self._resources(),
            "expect": {"failure": failure, "reproduces": "all"},
        }
        self.notes[("expect", "reproduces")] = ("It failed on this machine, whose environment the matrix has.",)
        self.notes[()] = ("Written by `reprokit new` from a command that failed.",)
        data = {key: value for key, value in data.items() if value}
        return Draft(data=data, notes=self.notes, missing=tuple(self.missing), omitted=tuple(self.omitted))

    def _elsewhere(self) -> None:
        """Note what the command used and a case cannot hold."""
        if self.seen.stdin:
            self.missing.append("what the command read from standard input, if it did")
        for word in self.seen.outside:
            self.missing.append(
                f"the file {self.scrubbed(word, 'the command')}, which is outside of the folder in which the command "
                "ran: run capture from a parent folder of both"
            )

    def scrubbed(self, text: str, where: str) -> str:
        """``text`` without secrets, which are listed in ``omitted``."""
        found = redaction.scrub(text, known=self.known, where=where)
        self.omitted += found.omitted
        return found.text

    # -- what ran --------------------------------------------------------------------------------------------------

    def _command(self) -> str:
        words = [self._relative(word) for word in self.seen.command]
        python = self.seen.interpreter
        if python and re.fullmatch(r"(?:.*/)?python[\d.]*", words[0]):
            words[0] = "python"
        elif words[0].startswith("/") and python and any(words[0].startswith(f"{one}/bin/") for one in python.prefixes):
            words[0] = Path(words[0]).name
        text = shlex.join(self._without_secrets(words))
        return literal(f"cd {shlex.quote(self.inside)} && {text}" if self.inside else text)

    def _without_secrets(self, words: Sequence[str]) -> Iterator[str]:
        """The words without secrets, one by one and before they are quoted, still valid for a shell within them.

        Each is checked together with the word before it, since an option may show that its value is secret.
        """
        for before, word in pairwise(["", *words]):
            alone = self.scrubbed(word, "the command")
            scrubbed = redaction.scrub(f"{before} {alone}", known=self.known, where="the command")
            if scrubbed.omitted and scrubbed.text.startswith(f"{before} "):
                self.omitted += scrubbed.omitted
                alone = scrubbed.text[len(before) + 1 :]
            yield redaction.for_shell(alone)

    def _relative(self, word: str) -> str:
        """A word with paths relative to the folder in which the command ran: a container has another folder."""
        folder = str(self.seen.folder)
        word = re.sub(rf"(?<![\w./-]){re.escape(folder)}/(?=\S)", "", word)
        return re.sub(rf"(?<![\w./-]){re.escape(folder)}(?![\w.-])", ".", word)

    def _without_folder(self, text: str) -> str:
        folder = str(self.seen.folder)
        return text if folder == "/" else text.replace(f"{folder}/", "")

    def _from_git(self) -> bool:
        found = self.seen.checkout
        if found is None:
            return False
        if not found.why_not and redaction.scrub(found.patch, known=self.known).omitted:
            self.missing.append("the git source: the changes since the commit contain something secret")
            return False
        personal = re.match(r"(?!git@)[\w.-]+@", found.url)  # the account of one user on a machine
        if not found.why_not and (personal or redaction.scrub(found.url, known=self.known).omitted):
            self.missing.append("the git source: its address contains something secret")
            return False
        if found.why_not:
            self.missing.append(f"the git source: {found.why_not}; the files are in the case instead")
        return not found.why_not

    def _sources(self) -> dict[str, Any]:
        found = self.seen.checkout
        assert found is not None
        self.notes[("sources", found.name)] = (
            "The checkout in which the command ran" + (", with the changes since." if found.patch else "."),
        )
        patch = {"patch": literal(found.patch)} if found.patch else {}
        return {found.name: {"git": literal(found.url), "ref": found.commit, "path": found.name, **patch}}

    def _files(self) -> dict[str, str]:
        texts = self.seen.gathered.texts
        if self.from_git and self.seen.checkout:
            tracked = self.seen.checkout.tracked
            texts = {path: text for path, text in texts.items() if path not in tracked}
        if self.seen.gathered.left_out:
            left_out = "; ".join(self.seen.gathered.left_out)
            self.missing.append(
                f"files that the command needs but that do not fit in a case: {self.scrubbed(left_out, '')}"
            )
        placed = {f"{self.inside}/{path}" if self.inside else path: text for path, text in texts.items()}
        return {
            self.scrubbed(path, "the name of a file"): literal(redaction.for_shell(self.scrubbed(text, path), path))
            for path, text in placed.items()
        }

    def _env(self) -> dict[str, str]:
        found = self.seen.variables
        if found.values:
            self.notes[("env",)] = ("Set where the command ran, with another value than in a login shell.",)
        if found.places:
            names = ", ".join(found.places)
            self.missing.append(f"variables that name folders of this machine: {names}")
        return {name: literal(value) for name, value in found.values.items()}

    # -- where it ran ----------------------------------------------------------------------------------------------

    def _matrix(self) -> dict[str, list[str]]:
        measured, python = self.seen.measured, self.seen.interpreter
        axes: dict[str, list[str]] = {}
        if known := next((name for name in OURS.known_os() if same(name, measured.os)), ""):
            axes["os"] = [known]
        elif measured.os:
            self.missing.append(f"an image of {measured.os}, of which none is known: name one in environment.image")
        if python:
            axes["python"] = [_parts(python.version, 2)]
            self.notes[("matrix", "python")] = (f"{python.version} here",)
        if measured.gcc and self._names(_COMPILER, _COMPILED):
            axes["gcc"] = [_parts(measured.gcc, 1)]
            self.notes[("matrix", "gcc")] = (f"{measured.gcc} here",)
        if measured.cuda and self._uses_cuda():
            axes["cuda"] = [_parts(measured.cuda, 2)]
            if measured.cudnn:
                axes["cudnn"] = [_parts(measured.cudnn, 2)]
        if reason := why_unavailable({name: values[0] for name, values in axes.items()}):
            self.missing.append(f"an image for it: {reason}")
        return axes

    def _uses_cuda(self) -> bool:
        return self._names(_NVCC, _CUDA)

    def _names(self, program: re.Pattern[str], suffixes: Collection[str]) -> bool:
        """Whether a word of the command is such a program, or a file that it needs has such a suffix."""
        programs = (Path(word).name for word in self.seen.words)
        found = {Path(path).suffix for path in self.seen.gathered.texts}
        return any(map(program.fullmatch, programs)) or not found.isdisjoint(suffixes)

    def _environment(self) -> dict[str, Any]:
        found = self.pins
        self.missing += found.missing
        pip = found.direct + found.needed
        if found.direct:
            self.notes[("environment", "pip", 0)] = (
                "What the program imports or fails in, in the versions on this machine.",
            )
        if found.needed:
            self.notes[("environment", "pip", len(found.direct))] = ("The dependencies of these.",)
        sections = {"pip": pip, "pip_options": [*map(literal, found.options)]}
        return {key: value for key, value in sections.items() if value}

    def _resources(self) -> dict[str, str]:
        found: dict[str, str] = {}
        on_gpu = any(
            _ON_GPU.fullmatch(re.split(r"[=@ ]", one)[0].lower()) for one in self.pins.direct + self.pins.needed
        )
        if self.seen.measured.gpu and (on_gpu or self._uses_cuda()):
            found["gpus"] = "1"
            self.notes[("resources", "gpus")] = (f"{len(self.seen.measured.gpu)} here: {self.seen.measured.gpu[0]}",)
        ending = self.seen.ran.ending
        if ending.timed_out:
            found["timeout"] = f"{max(1, round(ending.seconds))}s"
        elif ending.seconds > _LONG:
            found["timeout"] = f"{round(3 * ending.seconds / 60)}m"
            self.notes[("resources", "timeout")] = (f"It took {ending.seconds / 60:.0f} minutes here.",)
        return found

    def _reported(self) -> dict[str, str]:
        measured, python = self.seen.measured, self.seen.interpreter
        lines = {
            "platform": measured.platform or measured.os,
            "Python": python.words if python else None,
            "GCC": measured.gcc_words,
            "NVCC": measured.nvcc,
            "cudnn": measured.cudnn,
            "GPU": ", ".join(measured.gpu),
            "Driver": measured.driver,
        }
        return {key: self.scrubbed(value, "the environment") for key, value in lines.items() if value}

    # -- how it failed ---------------------------------------------------------------------------------------------

    def _failure(self) -> dict[str, Any]:
        ending = self.seen.ran.ending
        failure: dict[str, Any] = {}
        if ending.timed_out:
            return {"timed_out": "true"}
        if (code := ending.exit_code or 0) > 128 and code - 128 in {one.value for one in signal.Signals}:
            failure["signal"] = signal.Signals(code - 128).name
        strict = reduce_text.tighten(failure, [reduce_text.FailedTrial(ending=ending, log=self.seen.ran.log)])
        # Wildcards split up a secret within a pattern, so compare with the pattern from the log without secrets.
        # To a pattern, a home directory is a path like any other: replace it by one.
        log = re.sub(r"~(?=/)", "/home/user", redaction.scrub(self.seen.ran.log, known=self.known).text)
        public = reduce_text.tighten(failure, [reduce_text.FailedTrial(ending=ending, log=log)])
        kept: dict[str, Any] = {}
        for key, value in strict.items():
            if public.get(key) != value or redaction.scrub(str(value), known=self.known).omitted:
                self.missing.append(f"{key} of the failure: it contains something secret or private")
            else:
                kept[key] = value
        return kept

    def _title(self, failure: Mapping[str, Any], command: str) -> str:
        judged = judge(Failure(), self.seen.ran.ending, self.seen.ran.log)
        if "exception" in failure and judged.exception:
            message = judged.exception.message.strip().partition("\n")[0]
            text = f"{failure['exception'].rpartition('.')[2]}: {message}".rstrip(": ")
        elif "output" in failure and judged.crash:
            text = judged.crash.text.strip().partition("\n")[0]
        else:
            ending = f"ends with {failure['signal']}" if "signal" in failure else "fails"
            text = f"{command} {'does not end' if 'timed_out' in failure else ending}"
        return one_line(redaction.scrub(self._without_folder(text), known=self.known).text, 100)

    def _id(self, failure: Mapping[str, Any]) -> str:
        """An id from what ran (its first file, or its program) and how it ended."""
        scripted = self.seen.interpreter or self.seen.command[0] in SHELLS
        ran = next((path for path in self.seen.gathered.texts if "." in path and scripted), self.seen.command[0])
        if ran.endswith(("/__init__.py", "/__main__.py")):  # of a package that -m runs
            ran = str(Path(ran).parent)
        how = failure.get("exception", "").rpartition(".")[2] or failure.get("signal")
        ending = "timed-out" if "timed_out" in failure else how or f"exit-{failure.get('exit_code')}"
        return slug(f"{Path(ran).stem}-{ending}") or "captured"

    def _description(self) -> str:
        ending = self.seen.ran.ending
        how = "was stopped at its time limit" if ending.timed_out else f"ended with exit status {ending.exit_code}"
        lines = self.scrubbed(self._without_folder(clean(self.seen.ran.log)), "the output").strip("\n").split("\n")
        cut = "" if len(lines) <= _LAST else f" last {_LAST} lines of its"
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", "\n".join(lines))), 3)
        shown = "\n".join(line.rstrip() for line in lines[-_LAST:])
        head = f"The command {how} after {ending.seconds:.1f} s."
        return f"{head} The{cut} output:\n\n{fence}\n{shown}\n{fence}\n" if shown else f"{head} It had no output.\n"


def _secrets_of_options(command: Sequence[str]) -> Iterator[str]:
    """The words that an option marks as secret; the output of a program may contain them in another form."""
    for before, word in pairwise(command):
        value = word.partition("=")[2] if word.startswith("-") else word
        if len(value) >= 6 and redaction.scrub(f"{before} {word}").text.endswith(("<secret>", "<secret>'")):
            yield value


def _parts(version: str, number: int) -> str:
    return ".".join(version.split(".")[:number])
