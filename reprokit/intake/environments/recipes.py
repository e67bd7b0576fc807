"""How an environment is made: Dockerfiles and ``docker run`` lines. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from reprokit.intake.commands import CommandLine, split
from reprokit.intake.environments import images
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank
from reprokit.intake.environments.reading import BlockReader
from reprokit.intake.installing import Installed, installs
from reprokit.intake.table import table

_INSTRUCTION = re.compile(
    r"(FROM|RUN|ENV|ARG|WORKDIR|COPY|ADD|CMD|ENTRYPOINT|USER|EXPOSE|SHELL|LABEL|VOLUME)\s+(.*)", re.S
)
_FROM = re.compile(r"FROM\s+(?:--platform=\S+\s+)?([\w$.{][\w$.{}:/@:-]*)(?:\s+[Aa][Ss]\s+\S+)?$")
_PROMPT = re.compile(r"(?:[\w.@:~/()\[\] -]{0,60}[$#]\s+|!|%)?(?:sudo\s+(?:-E\s+)?)?")
_RUNNER = re.compile(r"(?:docker|podman|nvidia-docker|nerdctl)\s+(?:container\s+)?(?:run|create)\s")
_HOUSEKEEPING = re.compile(
    r"(?:apt-get|apt)\s+(?:-\S+\s+)*(?:update|upgrade|clean)|(?:yum|dnf)\s+(?:-\S+\s+)*(?:update|upgrade|clean|makecache)|rm\s+-rf?\s|pip\s+cache"
)
_OPTIONS = table()["recipes"]


@dataclass
class _Recipe:
    """What a Dockerfile says behind its FROM."""

    env: dict[str, str] = field(default_factory=dict)
    runs: list[CommandLine] = field(default_factory=list)
    command: str = ""
    remarks: list[str] = field(default_factory=list)

    def instruction(self, name: str, rest: str, line: int) -> None:
        """Read an instruction other than FROM."""
        if name == "RUN":
            self.runs += [CommandLine(text=text, line=line, role="setup") for text in split(rest)]
        elif name == "ENV":
            self.env |= {one: value for one, sign, value in map(_assigned, _words(rest)) if sign}
        elif name in ("CMD", "ENTRYPOINT"):
            self.command = rest
        elif name in ("COPY", "ADD"):
            self.remarks.append(f"the Dockerfile uses files that the report does not have: {name} {rest}")


def _assigned(word: str) -> tuple[str, str, str]:
    return word.partition("=")


def find(lines: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    """Every Dockerfile and ``docker run`` in the lines, in order."""
    at = 0
    while at < len(lines):
        line = lines[at]
        found, end = None, at + 1
        if not line.blank and _FROM.match(line.text):
            found, end = _dockerfile(lines, at)
        elif not line.blank and _RUNNER.match(_unprompted(line.text)):
            text, end = _logical(lines, at)
            found = _docker_run(_unprompted(text), line.number, lines[end - 1].number)
        if found:
            yield found
        at = end


def _unprompted(text: str) -> str:
    prompt = _PROMPT.match(text)
    return text[prompt.end() :] if prompt else text


def _logical(lines: Sequence[ReportLine], at: int) -> tuple[str, int]:
    """The line with those that a backslash joins to it, and the index of the next line."""
    texts = [lines[at].text]
    while texts[-1].endswith("\\") and at + 1 < len(lines) and not lines[at + 1].edge:
        at += 1
        texts.append(lines[at].text)
    return " ".join(text.rstrip("\\").strip() for text in texts).strip(), at + 1


def _dockerfile(lines: Sequence[ReportLine], at: int) -> tuple[EnvironmentBlock | None, int]:
    """The environment of a Dockerfile's last stage, and the index of the line behind it."""
    recipe, image, count, end, last = _Recipe(), "", 0, at, at
    while end < len(lines) and not lines[end].edge:
        line = lines[end]
        if line.blank or line.text.startswith("#"):
            end += 1
            continue
        text, after = _logical(lines, end)
        found = _INSTRUCTION.match(text)
        if not found:
            break
        if stage := _FROM.match(text):
            recipe, image = _Recipe(), stage[1]
        else:
            recipe.instruction(found[1], found[2], line.number)
        end, last, count = after, after - 1, count + 1
    if count == 1 and not re.search(r"[:/]", image):  # such as FROM users, which is SQL or prose
        return None, max(end, at + 1)
    into = BlockReader(Rank.STATED, remarks=recipe.remarks)
    if "$" not in image:
        images.read(image, into)
    installed = installs(recipe.runs)
    other = [one.text for one in recipe.runs if installs([one]) == Installed() and not _HOUSEKEEPING.match(one.text)]
    block = replace(
        into.found("dockerfile", lines[at].number, lines[last].number, {"FROM": image}),
        env=recipe.env,
        options={"command": recipe.command} if recipe.command else {},
        apt=installed.apt,
        dnf=installed.dnf,
        requirements=installed.pip,
        pip_options=installed.options,
        setup=tuple(other),
    )
    return block, max(end, at + 1)


def _docker_run(text: str, first: int, last: int) -> EnvironmentBlock | None:
    into = BlockReader(Rank.STATED)
    words = iter(_words(_RUNNER.sub("", text, count=1)))
    options = {"gpus": "all"} if text.startswith("nvidia-docker") else {}
    env: dict[str, str] = {}
    volumes: list[str] = []
    image = ""
    for word in words:
        if not word.startswith("-"):
            image = word
            break
        name, equals, value = word.partition("=")
        if not equals and name not in _OPTIONS["flags"]:
            value = next(words, "")
        if name in ("-e", "--env"):
            env |= {one: text for one, sign, text in [value.partition("=")] if sign}
        elif name in ("-v", "--volume", "--mount"):
            volumes.append(value)
        elif name in _OPTIONS["options"]:
            options[_OPTIONS["options"][name]] = value
    if not re.fullmatch(r"[\w${][\w./:@${}-]{0,200}", image):
        return None
    if options.pop("runtime", "") == "nvidia":
        options.setdefault("gpus", "all")
    images.read(image, into)
    if command := " ".join(words):
        options["command"] = command
    values = {"docker image": image} | ({"docker volumes": ", ".join(volumes)} if volumes else {})
    return replace(into.found("docker run", first, last, values), env=env, options=options)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an unclosed quote
        return text.split()
