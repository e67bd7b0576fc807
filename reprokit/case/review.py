"""What an untrusted case asks for, from its texts as they come out in its cells: all that a reviewer must look at
before it runs. The format has no key for the engine's socket, folders of the host, capabilities or privileges. Pure.
"""

from __future__ import annotations

import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

from reprokit.case.checks import templates
from reprokit.case.facts import rendered, requirement
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, cell_key, expand
from reprokit.case.model import Case, EnvironmentSection
from reprokit.case.render import asks_for_stacks
from reprokit.case.tree import Loc, line_column
from reprokit.case.trust import ALLOWANCES
from reprokit.core.text import is_visible, pluralize, whole_number

SHOWN = 100
"""Characters of a case's own text that one line of a summary shows."""
LISTED = 20
"""Things to look at that a summary lists."""

HARMLESS = {"--no-deps", "--no-build-isolation", "--prefer-binary", "--no-cache-dir", "--pre", "--no-compile"}
HARMLESS |= {"--no-index", "--only-binary", "--no-binary", "--use-pep517", "--upgrade", "-U", "--force-reinstall"}
"""Options of pip that lead to no other place and run nothing else."""

_PATCHED = re.compile(r"^\+\+\+ (?:b/)?(.*)$", re.MULTILINE)
_HOST = re.compile(
    r"://(?:[^\s/?#'\"<>]{0,200}@)?(\[[^]\s]{0,60}\]|[^\s/?#'\"<>:]+)|(?<![\w.-])[\w.-]{1,100}@([\w.-]+):"
)
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+:=~_-]*", re.IGNORECASE)
"""A package of a distribution by its name, with its version or architecture: no option, path, address or group."""


class Level(str, Enum):
    """``plain``: what every case does; ``look``: a reviewer reads that part of the case before it runs."""

    PLAIN = "plain"
    LOOK = "look"


@dataclass(frozen=True, kw_only=True)
class ReviewItem:
    """One thing that a case asks for, at ``path:line:column``. ``words`` are safe to print: they hold no control
    characters. ``kind``: the key that it is about, hosts, axes or unseen.
    """

    kind: str
    words: str
    level: Level
    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.words}"


def asks(file: CaseFile, cells: Sequence[Cell] = ()) -> tuple[ReviewItem, ...]:
    """Everything that a case, and its fix, asks for, in the order in which it happens; what to look at comes first.

    ``cells``: those that are to run, where an option brings in others than the case's own.
    """
    matrix = file.case.matrix
    own = expand(matrix.axes, matrix.exclude, matrix.include)
    # Options can replace any axis: what the case says of its own cells is said all the same.
    everywhere = list({cell_key(cell): cell for cell in (*own, *cells)}.values())
    count = len({cell_key(cell) for cell in cells or own})
    found = [*_unseen(file), *_Reader(file, file.case, everywhere, count, fixed=False).read()]
    if file.fixed is not None:
        known = {(ask.kind, ask.words) for ask in found}
        for ask in _Reader(file, file.fixed, everywhere, count, fixed=True).read():
            if (ask.kind, ask.words) not in known:
                found.append(replace(ask, words=f"with the fix: {ask.words}"))
    return tuple(sorted(found, key=lambda ask: ask.level is not Level.LOOK))


def summary(file: CaseFile, cells: Sequence[Cell] = (), *, most: int | None = LISTED) -> str:
    """A few lines for the person who decides whether the case may run here.

    ``most``: things to look at that are listed; some of each kind, so that many of one hide none of another.
    """
    found, room = asks(file, cells), 3 * SHOWN if most else len(file.text) + SHOWN
    look = [ask for ask in found if ask.level is Level.LOOK]
    lines = [
        f"{printable(file.path)}: {file.case.id}: {printable(file.case.title)}",
        f"  its text: {file.digest}",
        *(f"  {printable(ask.words, room)}" for ask in found if ask.level is Level.PLAIN),
        "  its build runs as root in a container, with a network; what it installs comes from this host's indexes",
    ]
    if not ALLOWANCES[file.trust].on_host:
        lines.append("  it is untrusted, and needs a container engine: --engine venv refuses it")
    lines.append("to look at:" if look else "nothing else: no setup script, no sources, no image or index of its own")
    shown = some_of_each(look, most)
    lines += [f"  {ask.line}:{ask.column}: {ask.words}" for ask in shown]
    if len(look) > len(shown) or any(line.endswith(" ...") for line in lines):
        more = f"{pluralize(len(look) - len(shown), 'thing')} more, " if len(look) > len(shown) else ""
        lines.append(f"  ... and {more}all in: reprokit validate {printable(file.path)} --asks")
    return "\n".join(lines) + "\n"


def some_of_each(look: Sequence[ReviewItem], most: int | None) -> list[ReviewItem]:
    """At most that many, in their order: the first of each kind, then the second of each ..."""
    before = Counter[str]()
    turns = []
    for at, ask in enumerate(look):
        turns.append((before[ask.kind], at))
        before[ask.kind] += 1
    return [look[at] for at in sorted(at for _, at in sorted(turns)[:most])]


def printable(text: str, most: int = SHOWN) -> str:
    """Untrusted text on one line, without what would move a cursor or turn the direction of writing around."""
    line = " ".join(text.split())
    plain = "".join(c if is_visible(c) else f"\\u{ord(c):04x}" for c in line[:most])
    return f"{plain} ..." if len(line) > most else plain


def _unseen(file: CaseFile) -> Iterator[ReviewItem]:
    """The first of the characters that a reader of the text cannot see, or that turn its direction around."""
    bad = [found for found in re.finditer(r"[^\x20-\x7e\s]", file.text) if not is_visible(found[0])]
    if bad:
        at = file.positions.problem(*line_column(file.text, bad[0].start()), "")
        words = f"holds {pluralize(len(bad), 'character')} that a reader cannot see, the first U+{ord(bad[0][0]):04X}"
        yield ReviewItem(kind="unseen", words=words, level=Level.LOOK, path=at.path, line=at.line, column=at.column)


class _Reader:
    """Reads one variant of a case, as it comes out in ``cells``; ``count`` of them are to run."""

    def __init__(self, file: CaseFile, case: Case, cells: Sequence[Cell], count: int, *, fixed: bool) -> None:
        self.file = file
        self.case = case
        self.cells = cells
        self.count = count
        self.fixed = fixed

    def read(self) -> Iterator[ReviewItem]:
        for part in (self._image, self._packages, self._sources, self._scripts, self._data, self._trial, self._hosts):
            yield from part()

    def ask(self, kind: str, loc: Loc, words: str, *, look: bool = True) -> ReviewItem:
        at = self.file.problem(loc, "", fixed=self.fixed)
        level = Level.LOOK if look else Level.PLAIN
        return ReviewItem(kind=kind, words=words, level=level, path=at.path, line=at.line, column=at.column)

    def texts(self, template: str) -> list[str]:
        """What a template comes to in the cells, without what comes to nothing."""
        return [text.strip() for text in rendered(template, self.cells) if text.strip()]

    def each(self, kind: str, loc: Loc, template: str | None, words: Callable[[str], str]) -> Iterator[ReviewItem]:
        """One ask for each text of a template for which ``words`` has any."""
        for text in self.texts(template or ""):
            if said := words(text):
                yield self.ask(kind, loc, said)

    def _image(self) -> Iterator[ReviewItem]:
        yield from self.each("image", ("environment", "image"), self.case.environment.image, _image)

    def _packages(self) -> Iterator[ReviewItem]:
        environment = self.case.environment
        for key, program, packages in (("apt", "apt-get", environment.apt), ("dnf", "dnf", environment.dnf)):
            plain = {}
            for index, template in enumerate(packages):
                for text in self.texts(template):
                    if _PACKAGE.fullmatch(text):
                        plain[text] = index
                    else:
                        yield self.ask(key, ("environment", key, index), f"hands {program} {printable(text)}")
            if plain:
                words = f"installs {pluralize(len(plain), 'package')} of the distribution: {' '.join(plain)}"
                yield self.ask(key, ("environment", key), words, look=False)
        yield from self._pip(environment)
        yield from self._pip_options(("environment", "pip_options"), environment.pip_options)
        for step in environment.pip_steps:
            yield from self._pip_options(step.options_loc, step.options)

    def _pip_options(self, loc: Loc, options: Sequence[str]) -> Iterator[ReviewItem]:
        for index, template in enumerate(options):
            yield from self.each("pip-options", (*loc, index), template, _option)

    def _pip(self, environment: EnvironmentSection) -> Iterator[ReviewItem]:
        plain: dict[str, list[str]] = {}
        placed = [
            ((*step.loc, at), text) for step in environment.pip_steps for at, text in enumerate(step.requirements)
        ]
        for loc, template in placed:
            for text in self.texts(template):
                named = requirement(text)
                if named and not re.search(r"://|(^|[\s@])[./~]", text):
                    plain.setdefault(named[0], []).append(printable(text))
                elif said := _option(text) if text.startswith("-") else _elsewhere(text):
                    yield self.ask("pip", loc, said)
        if plain:
            names = ", ".join(dict.fromkeys(text for texts in plain.values() for text in texts))
            words = f"installs {pluralize(len(plain), 'Python package')} by name, which may run code of theirs as root"
            yield self.ask("pip", ("environment", "pip"), f"{words}: {names}", look=False)

    def _sources(self) -> Iterator[ReviewItem]:
        for name, source in self.case.sources.items():
            loc = ("sources", name)
            at = " or ".join(map(printable, self.texts(source.ref)))
            yield from self.each("source", (*loc, "git"), source.git, partial(_git, at=at))
            for text in self.texts(source.patch):
                files = ", ".join(printable(found) for found in dict.fromkeys(_PATCHED.findall(text)))
                words = f"changes the source {printable(name)} by {_lines(text)}, in {files}"
                yield self.ask("patch", (*loc, "patch"), words)

    def _scripts(self) -> Iterator[ReviewItem]:
        for text in self.texts(self.case.environment.setup):
            yield self.ask(
                "setup", ("environment", "setup"), f"runs {_lines(text)} while it is built: {printable(text)}"
            )

    def _data(self) -> Iterator[ReviewItem]:
        for name, dataset in self.case.datasets.items():
            loc = ("datasets", name)
            for text in rendered(dataset.generate, [{**cell, "out": "OUT"} for cell in self.cells]):
                if text.strip():
                    words = f"makes data by a command while it is built: {printable(text)}"
                    yield self.ask("generate", (*loc, "generate"), words)
            words = f"reads the data set {printable(name)} of this host, where one is given or configured"
            yield self.ask("data", loc, words, look="bridge" in self.texts(self.case.resources.network))

    def _trial(self) -> Iterator[ReviewItem]:
        limits = self.case.resources

        def at(key: str) -> Loc:
            return ("resources", key)

        yield from self.each("network", at("network"), limits.network, _network)
        yield from self.each("user", at("user"), limits.user, _user)
        yield from self.each("gpus", at("gpus"), limits.gpus, _gpus)
        yield from self.each("ipc", at("ipc"), limits.ipc, _ipc)
        if asks_for_stacks(self.case):
            words = "gets debuggers, which may look into its processes (SYS_PTRACE)"
            yield self.ask("backtrace", at("backtrace"), words)
        for key in ("gpu_memory", "gpu_model", "cpus", "shm_size", "pids"):
            for text in self.texts(getattr(limits, key) or ""):
                yield self.ask(key, at(key), f"asks for {key} {printable(text)}", look=False)
        for name, text in limits.ulimits.items():
            words = f"sets the limit {name} of its processes: {printable(text)}"
            yield self.ask("ulimits", (*at("ulimits"), name), words, look=False)
        for text in limits.gpu_capabilities:
            yield from self.each("gpus", at("gpu_capabilities"), text, _of_driver)
        for name, value in self.case.env.items():
            if name.startswith("NVIDIA_"):
                words = f"passes to NVIDIA's container runtime {printable(f'{name}={value}')}"
                yield self.ask("gpus", ("env", name), words)
        memory = self.texts(limits.memory or "")
        words = f"gets {' or '.join(map(printable, memory))} of memory" if memory else "has no memory limit of its own"
        yield self.ask("memory", at("memory"), words, look=False)
        times = " or ".join(printable(text) for text in self.texts(limits.timeout))
        trials = self.case.trials if isinstance(self.case.trials, int) else self.case.trials.max
        words = f"{pluralize(self.count, 'cell')}, {pluralize(trials, 'trial')} each of at most {times}"
        yield self.ask("time", at("timeout"), words, look=False)
        command = self.case.command if isinstance(self.case.command, str) else " ".join(self.case.command)
        yield self.ask("command", ("command",), f"runs in each: {printable(command)}", look=False)
        if self.case.files:
            words = f"brings {pluralize(len(self.case.files), 'file')}: {', '.join(map(printable, self.case.files))}"
            yield self.ask("files", ("files",), words, look=False)
        axes = [f"{name} {' '.join(map(printable, values))}" for name, values in self.case.matrix.axes.items()]
        if axes:
            yield self.ask("axes", ("matrix",), f"its axes: {', '.join(map(printable, axes))}", look=False)

    def _hosts(self) -> Iterator[ReviewItem]:
        """Every host that a text of the case names, wherever it stands: a long line shows only its beginning."""
        found: dict[str, Loc] = {}
        for loc, template in templates(self.case.model_dump(mode="json")):
            for text in self.texts(template):
                for match in _HOST.finditer(text):
                    found.setdefault(match[1] or match[2], loc)
        if found:
            words = f"names {pluralize(len(found), 'host')}: {', '.join(map(printable, found))}"
            yield self.ask("hosts", next(iter(found.values())), words, look=False)


def _gpus(text: str) -> str:
    return f"gets {pluralize(count, 'GPU')}" if (count := whole_number(text)) else ""


def _lines(text: str) -> str:
    return pluralize(len(text.splitlines()), "line")


def _image(text: str) -> str:
    first, slash, _ = text.partition("/")
    is_registry = slash and ("." in first or ":" in first or first == "localhost")
    return f"builds on the image {printable(text)}" + (f" of {printable(first)}" if is_registry else "")


def _network(text: str) -> str:
    return "runs with a network: it can reach what this host reaches, and send what it reads" if text != "none" else ""


def _ipc(text: str) -> str:
    return "shares memory with all programs of this host (ipc: host)" if text == "host" else ""


def _of_driver(text: str) -> str:
    return f"gets {printable(text)} of the GPU driver" if text not in ("compute", "utility") else ""


def _user(text: str) -> str:
    return f"runs as {printable(text)}" if text != "repro" else ""


def _git(text: str, at: str) -> str:
    if re.match(r"(?:https?|git)://", text):
        host = urllib.parse.urlsplit(text).hostname or ""
        return f"takes source code from {printable(host)}: {printable(text)} at {at}"
    if text.startswith("ssh://") or re.match(r"[\w.-]+@[\w.-]+:", text):
        return f"takes source code over SSH, with your keys: {printable(text)} at {at}"
    return f"takes source code from a repository of this host: {printable(text)} at {at}"


def _elsewhere(text: str) -> str:
    """A requirement that is not a plain name."""
    is_repository = re.search(r"\b(git|hg|svn|bzr)\+", text)
    place = "a repository" if is_repository else "an address" if "://" in text else "a file"
    return f"pip installs from {place}: {printable(text)}"


def _option(text: str) -> str:
    """Options of pip, unless they lead nowhere else."""
    before = ""
    for word in text.split():
        if word.partition("=")[0] not in HARMLESS and before not in {"--only-binary", "--no-binary"}:
            return f"hands pip {printable(text)}"
        before = word
    return ""
