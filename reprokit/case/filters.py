"""Choosing cases by tag, framework and need: the one place that every command asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.core.text import pluralize

if TYPE_CHECKING:
    from reprokit.case.facts import CaseFacts
    from reprokit.case.files import CaseFile

NOTHING = "none"
"""The word for cases that need nothing."""
NOT = "no-"
"""What turns a need into its opposite."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Any of ``tags`` (if given), and any of ``frameworks``, and all of ``needs``: ``gpu``, ``no-gpu``, ``none`` ..."""

    tags: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        options = (("--tag", self.tags), ("--framework", self.frameworks), ("--needs", self.needs))
        return " ".join(f"{option} {word}" for option, words in options for word in words)


def choose(files: Sequence[CaseFile], wanted: Filter) -> list[CaseFile]:
    """The cases that fit. Raises UsageError for a word that no case knows, and when no case is left."""
    _check_tags(files, wanted.tags)
    chosen = [file for file in files if not wanted.tags or set(wanted.tags) & set(file.case.tags)]
    if wanted.frameworks or wanted.needs:
        from reprokit.case.facts import facts

        known = {id(file): facts(file.case) for file in files}
        fits = _fits(known.values(), wanted)
        chosen = [file for file in chosen if fits(known[id(file)])]
    if not chosen:
        raise UsageError(f"none of the {pluralize(len(files), 'case')} fits {wanted}")
    return chosen


def _check_tags(files: Iterable[CaseFile], given: Sequence[str]) -> None:
    known = {tag for file in files for tag in file.case.tags}
    for tag in given:
        if tag not in known:
            raise UsageError(f"no case has the tag {tag!r}{near(tag, known, prefix='; ')}; the tags are: {_all(known)}")


def _fits(known: Iterable[CaseFacts], wanted: Filter) -> Callable[[CaseFacts], bool]:
    from reprokit.case.facts import FRAMEWORKS, NEEDS

    names = _known_frameworks(known, wanted.frameworks)
    for need in wanted.needs:
        if need != NOTHING and need.removeprefix(NOT) not in NEEDS:
            words = (*NEEDS, *(NOT + name for name in NEEDS), NOTHING)
            has = f"{', '.join(NEEDS)}, each with {NOT} before it for the opposite, and {NOTHING}"
            raise UsageError(f"--needs {need}: no such need{near(need, words, prefix='; ')}; there are: {has}")

    def fits(facts: CaseFacts) -> bool:
        if names and not names & {*facts.frameworks, *(set(facts.packages) - set(FRAMEWORKS))}:
            return False
        for need in wanted.needs:
            if need == NOTHING:
                met = not facts.needs
            elif need.startswith(NOT):
                met = need.removeprefix(NOT) not in facts.needs
            else:
                met = need in facts.needs
            if not met:
                return False
        return True

    return fits


def _known_frameworks(known: Iterable[CaseFacts], given: Sequence[str]) -> set[str]:
    """The frameworks, and packages, that the words mean."""
    from reprokit.case.facts import ALIASES, FRAMEWORKS, canonical

    if not given:
        return set()
    known = list(known)
    frameworks = {name for facts in known for name in facts.frameworks}
    # A package that is a framework by another name is looked for as that framework.
    packages = {name for facts in known for name in facts.packages} - set(FRAMEWORKS)
    found = set()
    for word in given:
        name = ALIASES.get(canonical(word), canonical(word))
        if name not in frameworks | packages:
            aliases = {alias for alias, meant in ALIASES.items() if meant in frameworks}
            hint = near(name, frameworks | packages | aliases, prefix="; ")
            raise UsageError(
                f"--framework {word}: no case installs it{hint}; the frameworks are: {_all(frameworks)}"
                + (f"; other packages that cases install: {_all(packages)}" if packages else "")
            )
        found.add(name)
    return found


def _all(words: Iterable[str]) -> str:
    return ", ".join(sorted(words)) or "none"
