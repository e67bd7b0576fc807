"""What a Dockerfile does, as parts of a case: an image or a system, shell that runs while it is built, and files.

An untrusted Dockerfile is never built itself: it would decide what its steps mount, and from where. Pure, but for
the files of its context, which are read.

A second implementation. Library: dockerfile-parse: it takes the lines of a here-document for instructions, and all 612
tasks of SWE-bench Multimodal have some. Ours is owned by intake.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprokit.core.files import read_regular
from reprokit.environment.catalog import OURS
from reprokit.intake.bug import MOST, WrongBug, path, python

WORKDIR = "/task"
"""Of cases of tasks, which may have a folder of our usual name."""
IMAGE = re.compile(r"[a-z0-9][\w./:@-]{0,250}")
_HEREDOC = re.compile(r"(?<!\S)\d*<<(-?)([\"']?)(\w+)\2(?!\S)")
_PAIR = re.compile(r"""([A-Za-z_]\w*)=((?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])*)""")
_OPTION = re.compile(r"(?:\\\n\s*)*--(\w+)(?:=(\S+))?\s+(?:\\\n\s*)?")
_OFFICIAL = re.compile(r"(?:docker\.io/)?(?:library/)?(\w+):([a-z0-9.]+?)(?:-slim)?(?:-[a-z]+)?(?:@sha256:\w+)?")
_RECOMMENDS = "mkdir -p /etc/apt/apt.conf.d; echo 'APT::Install-Recommends 1;' > /etc/apt/apt.conf.d/zz-recommends"
"""Builds of cases install what is asked for alone; a Dockerfile without that option means more: gcc and libc6-dev."""
_NO_EFFECT = ("CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "STOPSIGNAL", "VOLUME")
"""In a container that runs another command."""


@dataclass(kw_only=True)
class ImageSteps:
    """What builds an image, and what its containers begin with."""

    image: str = ""
    """The image to start from, '' where ``cell`` is it."""
    cell: Mapping[str, str] = field(default_factory=dict)
    setup: list[str] = field(default_factory=list)
    """Lines of shell that run while the image is built."""
    start: list[str] = field(default_factory=list)
    """Lines of shell that a container begins with: its variables and its folder."""
    files: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_files(folder: Path, below: str, place: Path) -> tuple[dict[str, Any], list[str]]:
    """(the texts at a place of an untrusted folder, as files of a case below ``below``, the names of other files).

    Raises WrongBug for a link that leads out of the folder, and for more than MOST bytes.
    """
    found: dict[str, Any] = {}
    other: list[str] = []
    left = MOST
    for file in sorted(one for one in place.rglob("*") if one.is_file()) if place.is_dir() else [place]:
        name = path(file.relative_to(folder).as_posix(), str(file))
        if not file.resolve().is_relative_to(folder.resolve()):
            raise WrongBug(f"{file}: it is a link that leads out of the task")
        try:
            data = read_regular(file, left)
        except OSError as error:
            raise WrongBug(f"{file}: it cannot be read: {error.strerror}") from None
        left -= len(data)
        text = data.decode("utf-8", "replace")
        if "\0" in text or text.encode() != data:
            other.append(name)
        else:
            found[f"{below}/{name}"] = {"content": text, "mode": "755"} if file.stat().st_mode & 0o100 else text
    return found, other


def translate(text: str, folder: Path) -> ImageSteps:
    """What a Dockerfile does, whose context is a folder. Raises WrongBug with the instruction that a case cannot do."""
    found = _Translation(folder=folder, recipe=ImageSteps())
    for name, rest, documents in _instructions(text):
        found.take(name, rest, documents)
    if not (found.recipe.image or found.recipe.cell):
        raise WrongBug("the Dockerfile has no FROM")
    if re.search(r"\bapt(?:-get)? ", text):
        found.recipe.setup.insert(0, _RECOMMENDS)
    return found.recipe


def _instructions(text: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """(name, its rest, its here-documents: how each ends and its text) of each instruction."""
    lines = iter(text.splitlines())
    for line in lines:
        whole = "" if line.lstrip().startswith("#") else line.strip()
        while whole.endswith("\\") and (following := next(lines, None)) is not None:
            whole += "" if following.lstrip()[:1] in ("", "#") else "\n" + following.rstrip()
        name, rest = (*whole.rstrip("\\").split(None, 1), "", "")[:2]
        documents: list[tuple[str, str]] = []
        for found in _HEREDOC.finditer(rest) if name.upper() in ("RUN", "COPY", "ADD") else ():
            body: list[str] = []
            while (one := next(lines, found[3])).lstrip("\t" if found[1] else "") != found[3]:
                body.append((one.lstrip("\t") if found[1] else one) + "\n")
            documents.append((found[3], "".join(body)))
        if name:
            yield name.upper(), rest, documents


def _expanding(text: str) -> str:
    """A text of a Dockerfile in quotes of a shell: ``$NAME`` and ``${NAME}`` alone are expanded in both."""
    if re.fullmatch("'[^']*'", text):
        return text
    plain = re.sub(r'\\(.)|"', r"\1", text)
    return '"' + re.sub(r"""["`\\]|\$(?![A-Za-z_{])""", r"\\\g<0>", plain) + '"'


def _words(text: str, shown: str) -> list[str]:
    try:
        return [*map("".join, json.loads(text))] if text.startswith("[") else shlex.split(text)
    except (ValueError, TypeError):
        raise WrongBug(shown) from None


@dataclass(kw_only=True)
class _Translation:
    folder: Path
    recipe: ImageSteps
    arguments: dict[str, str] = field(default_factory=dict)
    user: str = "root"

    def take(self, name: str, rest: str, documents: list[tuple[str, str]]) -> None:
        one, setup = rest.replace("\\\n", ""), self.recipe.setup
        shown, already = f"the Dockerfile has {name} {one[:60]!r}, which a case cannot do", len(setup)
        if name == "FROM" and not (self.recipe.image or self.recipe.cell):
            words = [word for word in one.split() if not word.startswith("--platform=")]
            image = re.sub(r"\$\{?(\w+)\}?", lambda one: self.arguments.get(one[1], ""), words[0] if words else "")
            if not IMAGE.fullmatch(image) or image == "scratch":
                raise WrongBug(shown)
            self.recipe.image, self.recipe.cell, said = system_of(image)
            self.recipe.notes += [said] if said else []
        elif name in ("ARG", "ENV"):
            old = name == "ENV" and not re.match(r"[A-Za-z_]\w*=", one)
            pairs = [(*one.split(None, 1), "", "")[:2]] if old else _PAIR.findall(one)
            self.arguments.update({key: value.strip("\"'") for key, value in pairs if name == "ARG"})
            setup += [f"export {shlex.quote(key)}={_expanding(value)}" for key, value in pairs]
        elif name == "WORKDIR":
            setup.append(f"mkdir -p {_expanding(one)} && cd {_expanding(one)}")
        elif name == "USER":
            self.user = one.split(":")[0]
        elif name == "RUN" and self.user in ("root", "0"):
            self._run(rest, documents, shown)
        elif name in ("COPY", "ADD") and not documents:
            self._copy(one, shown)
        elif name not in _NO_EFFECT:
            raise WrongBug(shown)
        self.recipe.start += setup[already:] if name in ("ENV", "WORKDIR") else []

    def _run(self, rest: str, documents: list[tuple[str, str]], shown: str) -> None:
        while option := _OPTION.match(rest):
            parts = dict(part.partition("=")[::2] for part in (option[2] or "").split(","))
            if option[1] != "mount" or "from" in parts:
                raise WrongBug(shown)
            if parts.get("type", "bind") == "bind":  # the other kinds are empty, or are not there
                to, here = shlex.quote(parts.get("target", "")), self._context(parts.get("source", ""), shown)
                self.recipe.setup.append(f"[ -e {to} ] || {{ mkdir -p $(dirname {to}); cp {here} {to}; }}")
            rest = rest[option.end() :]
        text = rest + "\n" + "".join(f"{body}{word}\n" for word, body in documents)
        if len(documents) == 1 and _HEREDOC.fullmatch(rest.strip()):
            text = documents[0][1]
        elif rest.startswith("["):
            text = shlex.join(_words(rest.replace("\\\n", ""), shown)) + "\n"
        end = "STEP"
        while end in text.split("\n"):
            end += "_"
        run = "chmod 755 /tmp/step && /tmp/step" if text.startswith("#!") else "/bin/sh /tmp/step"
        self.recipe.setup += [f"cat > /tmp/step <<'{end}'", *text.removesuffix("\n").split("\n"), end, run]

    def _copy(self, rest: str, shown: str) -> None:
        while option := _OPTION.match(rest):
            if option[1] not in ("chown", "chmod", "link"):  # a file has the mode that it has in the task
                raise WrongBug(shown)
            rest = rest[option.end() :]
        *sources, target = _words(rest, shown) or [""]
        place, within = _expanding(target), len(sources) > 1 or target.endswith(("/", "."))
        for source in sources:
            if here := self._context(source, shown):
                folder = place if within or here.endswith("/.") else f'"$(dirname {place})"'
                self.recipe.setup.append(f"mkdir -p {folder} && cp -R {here} {place}")

    def _context(self, source: str, shown: str) -> str:
        """Where a file of the context is in the image, a folder ending in ``/.``; '' for one that is not a text."""
        name = source.removeprefix("/").removeprefix("./").rstrip("/")
        found = self.folder / path(name, shown) if name not in ("", ".") else self.folder
        if not found.exists() or re.search(r"\.(?:tar|tgz|tar\.\w+)$", source):
            raise WrongBug(shown)
        files, other = read_files(self.folder, "context", found)
        self.recipe.notes += [f"Left out: {name} of the Dockerfile: {one[:60]} is not a text." for one in other[:1]]
        self.recipe.files.update(files)
        return shlex.quote(f"{WORKDIR}/context/{name}") + "/." * found.is_dir() if files else ""


def system_of(image: str) -> tuple[str, Mapping[str, str], str]:
    """(an image, {}, ''), or ('', the axes of a cell that an official one of Debian, Ubuntu, Python is, a comment)."""
    family, tag = found.groups() if (found := _OFFICIAL.fullmatch(image)) else ("", "")
    for name, release in OURS.releases().items():
        if family == release.family and tag in (release.codename, name.partition("-")[2]):
            return "", {"os": name}, ""
    if family == "python" and re.fullmatch(r"\d+\.\d+(?:\.\d+)?", tag):
        cell, why = python(tag)
        return "", cell, f"In place of the image {image}: the same Python. {why}".strip()
    return image, {}, ""
