"""How an environment is made: Dockerfiles and ``docker run`` lines. Pure."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.requirements import InvalidRequirement, Requirement

from reprokit.intake.environments import images
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank
from reprokit.intake.environments.reading import BlockReader
from reprokit.intake.table import table

_INSTRUCTION = re.compile(
    r"(FROM|RUN|ENV|ARG|WORKDIR|COPY|ADD|CMD|ENTRYPOINT|USER|SHELL|LABEL|EXPOSE|VOLUME|ONBUILD|STOPSIGNAL|HEALTHCHECK|MAINTAINER)\s+(.*)",
    re.DOTALL,
)
_FROM = re.compile(r"FROM\s+(?:--platform=\S+\s+)?[\w$.{][\w$.{}:/@:-]*(?:\s+[Aa][Ss]\s+\S+)?$")
_PROMPT = re.compile(r"(?:[\w.@:~/()\[\] -]{0,60}[$#]\s+|!|%)?(?:sudo\s+(?:-E\s+)?)?")
_RUNNER = re.compile(r"(?:docker|podman|nvidia-docker|nerdctl)\s+(?:container\s+)?(?:run|create)\s")
_PIP = re.compile(r"(?:\S*python[\d.]*\s+-m\s+)?(?:uv\s+)?pip[\d.]*\s+install\s+(.*)", re.DOTALL)
_APT = re.compile(r"(?:apt-get|apt)\s+(?:-\S+\s+)*install\s+(.*)", re.DOTALL)
_HOUSEKEEPING = re.compile(
    r"(?:apt-get|apt)\s+(?:-\S+\s+)*(?:update|upgrade|clean|autoremove)|rm\s+-rf?\s+(?:/var/|/tmp|/root/\.cache|~/\.cache)|"
    r"(?:pip|conda)\s+(?:cache|clean)"
)
_OPTIONS = table()["recipes"]


@dataclass
class _Recipe:
    into: BlockReader
    env: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    apt: list[str] = field(default_factory=list)
    requirements: list[str] = field(default_factory=list)
    pip_options: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)

    def found(self, kind: str, first: int, last: int, values: Mapping[str, str]) -> EnvironmentBlock:
        return replace(
            self.into.found(kind, first, last, values),
            env=self.env,
            options=self.options,
            apt=tuple(dict.fromkeys(self.apt)),
            requirements=tuple(dict.fromkeys(self.requirements)),
            pip_options=tuple(dict.fromkeys(self.pip_options)),
            setup=tuple(self.setup),
        )

    def instruction(self, name: str, rest: str) -> None:
        """Read an instruction of a Dockerfile other than FROM and ARG."""
        if name == "RUN":
            self.shell(re.sub(r"^(?:--\w+=\S+\s+)+", "", rest))
        elif name == "ENV":
            self.env |= dict(_assignments(rest))
        elif name in ("WORKDIR", "USER"):
            self.options[name.lower()] = rest
        elif name in ("CMD", "ENTRYPOINT"):
            self.options["command"] = rest
        elif name in ("COPY", "ADD"):
            self.into.remarks.append(f"the Dockerfile uses files that the report does not have: {name} {rest}")

    def shell(self, text: str) -> None:
        """Read a RUN's commands; those that install nothing go to the set-up."""
        if re.match(r"(?:if|for|case|while)\s", text):  # it is not known which branch was taken
            self.setup.append(text)
            return
        for command in _commands(text):
            if pip := _PIP.match(command):
                self.pip(_words(pip[1]))
            elif apt := _APT.match(command):
                self.apt += [word for word in _words(apt[1]) if not word.startswith("-")]
            elif not _HOUSEKEEPING.match(command):
                self.setup.append(command)

    def pip(self, words: Sequence[str]) -> None:
        """Read the arguments of ``pip install``."""
        rest = iter(words)
        for word in rest:
            if word.startswith("-"):
                name, equals, value = word.partition("=")
                value = value if equals or name not in _OPTIONS["with_value"] else next(rest, "")
                if name in ("-e", "--editable", "-r", "--requirement") and value:
                    self.requirements.append(f"{name} {value}")
                elif name in _OPTIONS["kept"]:
                    self.pip_options.append(f"{name} {shlex.quote(value)}" if value else name)
                continue
            self.requirements.append(word)
            self._pinned(word)

    def _pinned(self, word: str) -> None:
        try:
            asked = Requirement(word)
        except InvalidRequirement:
            return
        pins = [one.version for one in asked.specifier if one.operator in ("==", "===") and "*" not in one.version]
        if pins:
            self.into.package(asked.name, pins[0], word)


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
        texts[-1] = texts[-1][:-1]
        if not lines[at].text.startswith("#"):  # a comment between continued lines does not end them
            texts.append(lines[at].text)
        else:
            texts[-1] += "\\"
    return " ".join(text.rstrip("\\").strip() for text in texts).strip(), at + 1


def _dockerfile(lines: Sequence[ReportLine], at: int) -> tuple[EnvironmentBlock | None, int]:
    arguments, first = _before(lines, at)
    stages: dict[str, _Recipe] = {}
    recipe = _Recipe(BlockReader(Rank.STATED))
    image, count, end, last = "", 0, at, at
    while end < len(lines):
        line = lines[end]
        if line.edge or line.fence != lines[at].fence:
            break
        if line.blank or line.text.startswith("#"):
            end += 1
            continue
        text, after = _logical(lines, end)
        found = _INSTRUCTION.match(text)
        if not found:
            break
        name, rest = found[1], _filled(found[2], arguments)
        if name == "FROM":
            words = [word for word in rest.split() if not word.startswith("--")]
            if words[0] in stages:
                recipe = copy.deepcopy(stages[words[0]])
            else:
                recipe, image = _Recipe(BlockReader(Rank.STATED)), words[0]
                images.read(image, recipe.into)
            if len(words) == 3:
                stages[words[2]] = recipe
        elif name == "ARG":
            arguments |= dict(_assignments(rest))
        else:
            recipe.instruction(name, rest)
        end, last, count = after, after - 1, count + 1
    if count == 1 and not re.search(r"[:/]", image):  # such as FROM users, which is SQL or prose
        return None, max(end, at + 1)
    return recipe.found("dockerfile", lines[first].number, lines[last].number, {"FROM": image}), max(end, at + 1)


def _before(lines: Sequence[ReportLine], at: int) -> tuple[dict[str, str], int]:
    """The ARGs before the first FROM, and the index of the first of them."""
    arguments: dict[str, str] = {}
    first = at
    for place in range(at - 1, max(at - 20, -1), -1):
        line = lines[place]
        if line.edge or line.fence != lines[at].fence or not (line.blank or re.match(r"ARG\s|#", line.text)):
            break
        if line.text.startswith("ARG"):
            arguments, first = {**dict(_assignments(line.text[3:].strip())), **arguments}, place
    return arguments, first


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """The assignments in ``A=b C="d e"``, or in the older form ``A b``; a name without a value is ignored."""
    words = _words(text)
    if len(words) > 1 and "=" not in words[0]:
        yield words[0], " ".join(words[1:])
        return
    for word in words:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            yield name, value


def _filled(text: str, arguments: Mapping[str, str]) -> str:
    """A text with the defaults of ARGs filled in."""
    return re.sub(
        r"\$(?:\{(\w+)(?::-[^{}]*)?\}|(\w+))", lambda found: arguments.get(found[1] or found[2], found[0]), text
    )


def _docker_run(text: str, first: int, last: int) -> EnvironmentBlock | None:
    recipe = _Recipe(BlockReader(Rank.STATED))
    words = iter(_words(_RUNNER.sub("", text, count=1)))
    if text.startswith("nvidia-docker"):
        recipe.options["gpus"] = "all"
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
            recipe.env |= {one: text for one, sign, text in [value.partition("=")] if sign}
        elif name in ("-v", "--volume", "--mount"):
            volumes.append(value)
        elif name in _OPTIONS["options"]:
            recipe.options[_OPTIONS["options"][name]] = value
    if not re.fullmatch(r"[\w${][\w./:@${}-]{0,200}", image):
        return None
    if recipe.options.get("runtime") == "nvidia":
        recipe.options.setdefault("gpus", "all")
    images.read(image, recipe.into)
    if command := " ".join(words):
        recipe.options["command"] = command
    values = {"docker image": image} | ({"docker volumes": ", ".join(volumes)} if volumes else {})
    return recipe.found("docker run", first, last, values)


def _commands(text: str) -> Iterator[str]:
    """The commands of a shell line, split at ``&&``, ``||`` and ``;`` outside of quotes."""
    start, quote, at = 0, "", 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == ";" or text[at : at + 2] in ("&&", "||"):
            if command := text[start:at].strip():
                yield command
            at += char != ";"
            start = at + 1
        at += 1
    if command := text[start:].strip():
        yield command


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an unclosed quote
        return text.split()
