"""What the command lines that install something install: packages, options, trees. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from reprokit.intake import commands
from reprokit.intake.commands import BUILDS_TREE, CommandLine, split


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What setup lines install."""

    pip: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    dnf: tuple[str, ...] = ()
    clones: tuple[tuple[str, str, str], ...] = ()
    """(address, folder, branch) of ``git clone``."""
    refs: tuple[str, ...] = ()


_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?(?:(?:===?|~=|!=|[<>]=?)[\w.*+!-]+(?:,(?:===?|~=|!=|[<>]=?)[\w.*+!-]+)*)?"
)
_PIP_VALUES = frozenset(
    {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-c", "--constraint", "--trusted-host"}
)
_KEPT_OPTIONS = {
    **{name: name for name in ("--index-url", "--extra-index-url", "--find-links")},
    "-i": "--index-url",
    "-f": "--find-links",
}
_PIP_FLAGS = frozenset({"--pre", "--no-build-isolation"})


def of_tree(line: CommandLine) -> bool:
    """Whether a setup line installs a tree, or what a file lists, so that only the command can hold it."""
    return bool(BUILDS_TREE.search(line.text))


def installs(lines: Sequence[CommandLine]) -> Installed:
    """What the setup lines install. Requirements are kept as written; ``-r FILE`` is ignored."""
    pip: list[str] = []
    options: list[str] = []
    apt: list[str] = []
    dnf: list[str] = []
    clones: list[tuple[str, str, str]] = []
    refs: list[str] = []
    for words in (_words(part) for line in lines for part in split(line.text.replace("\\\n", " "))):
        before = words[: words.index("install")] if "install" in words else []
        if any(re.search(r"pip\d?(?:\.\d+)?$", word) for word in before):
            found, opts = _pip(words[words.index("install") + 1 :])
            pip += found
            options += opts
        elif before and {"apt", "apt-get"} & set(before):
            rest = words[words.index("install") + 1 :]
            apt += [word for word in rest if re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", word)]
        elif before and {"yum", "dnf", "microdnf"} & set(before):
            rest = words[words.index("install") + 1 :]
            dnf += [word for word in rest if re.fullmatch(r"\w[\w.+-]+", word)]
        elif words[:2] == ["git", "clone"] and (clone := _clone(words[2:])):
            clones.append(clone)
        elif words[:2] in (["git", "checkout"], ["git", "switch"]) and len(words) > 2:
            refs += [word for word in words[2:] if re.fullmatch(r"\w[\w./-]*", word)][:1]
    return Installed(
        pip=tuple(dict.fromkeys(pip)),
        options=tuple(dict.fromkeys(options)),
        apt=tuple(dict.fromkeys(apt)),
        dnf=tuple(dict.fromkeys(dnf)),
        clones=tuple(dict.fromkeys(clones)),
        refs=tuple(refs),
    )


def _words(text: str) -> list[str]:
    bare = _REDIRECTED.sub(" ", re.split(r"\s[#(]|\|", text)[0])
    try:
        return shlex.split(bare)
    except ValueError:
        return bare.split()


_REDIRECTED = re.compile(r"(?<=\s)(?:\d|&)?>{1,2}(?:&\d|\s?[\w./~-]+)(?=\s|$)")
"""Where the output of a command goes."""


def _pip(words: Sequence[str]) -> tuple[list[str], list[str]]:
    found: list[str] = []
    options: list[str] = []
    skip = ""
    for word in words:
        if skip:
            if skip in _KEPT_OPTIONS and word.startswith("http"):
                options.append(f"{_KEPT_OPTIONS[skip]} {shlex.quote(word)}")
            skip = ""
        elif word in commands.words():  # the rest of a sentence
            break
        elif word in _PIP_VALUES or word in {"-r", "--requirement", "-e", "--editable", "-t", "--target"}:
            skip = word
        elif word in _PIP_FLAGS:
            options.append(word)
        elif word.startswith("--") and (name := word.partition("=")[0]) in _KEPT_OPTIONS and "=http" in word:
            options.append(f"{name} {shlex.quote(word.partition('=')[2])}")
        elif (_REQUIREMENT.fullmatch(word) and not word.endswith((".whl", ".gz", ".zip"))) or re.match(
            r"(?:git\+)?https://\S+", word
        ):
            found.append(word)
    return found, options


def _clone(words: Sequence[str]) -> tuple[str, str, str] | None:
    branch, places = "", []
    rest = iter(words)
    for word in rest:
        if word in {"-b", "--branch"}:
            branch = next(rest, "")
        elif word in {"--depth", "-j", "--jobs"}:
            next(rest, "")
        elif not word.startswith("-"):
            places.append(word)
    if not places or not re.fullmatch(r"(?:https?://|git@)[\w.@/~+:-]+", places[0]):
        return None
    url = re.sub(r"^git@([\w.-]+):", r"https://\1/", places[0])
    folder = url.rstrip("/").removesuffix(".git").rpartition("/")[2]
    folder = places[1] if len(places) > 1 and re.fullmatch(r"[\w-][\w.-]*", places[1]) else folder
    if not re.fullmatch(r"[\w-][\w.-]*", folder) or not re.fullmatch(r"[\w./-]*", branch):
        return None
    return url.removesuffix(".git").rstrip("/"), folder, branch
