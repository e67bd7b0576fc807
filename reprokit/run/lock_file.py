"""The lock file beside a case: read with the line of every value, written so that a change shows as changed lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reprokit.case import emit
from reprokit.case.emit import Flow
from reprokit.case.read import LOCK_SUFFIX as SUFFIX
from reprokit.case.read import MARKDOWN_SUFFIXES
from reprokit.case.tree import CaseTree, parse, value_at
from reprokit.core.errors import UsageError
from reprokit.core.files import read_regular
from reprokit.core.text import whole_number
from reprokit.environment.lock import (
    FORMAT,
    GROUPS,
    Artefact,
    Lock,
    LockedBase,
    LockedCell,
    LockedSource,
    LockEntry,
    Pins,
    base_reference,
    supply_of,
)

HEAD = """\
# Written by `reprokit lock`, to be committed with the case and not to be edited: what does not give the image that is
# named here is refused. `reprokit run --locked {name}` builds from this and from nothing else;
# `reprokit lock --upgrade {name}` makes it again.
"""
LARGEST = 64 << 20
"""Bytes of a lock that is read: one of a hundred environments has some of them."""
BASE_SOURCES = ("bootstrap", "registry", "image")
_NEW = "make it again: reprokit lock --upgrade"
# What goes into a file of the build is one word of its own syntax, and can begin nothing else there.
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~:!_-]*")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:_-]*")
_URL = re.compile(r"\S+")
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}(?:[0-9a-f]{24})?)?")  # none for a plain folder
_IMAGE = re.compile(r"reprokit/img:[0-9a-f]+")


def path_of(case_path: str, case_id: str) -> Path:
    """``cases/foo.yaml`` -> ``cases/foo.lock.yaml``. Raises UsageError for a case that is not a file."""
    if case_path == "<stdin>" or "://" in case_path:
        raise UsageError(
            f"{case_path}: a lock lies beside a case's file, and this is not a file; save it to a file first"
        )
    path = Path(case_path)
    if path.suffix.lower() in MARKDOWN_SUFFIXES:  # it may hold several cases
        return path.with_name(f"{path.stem}.{case_id}{SUFFIX}")
    return path.with_name(path.stem + SUFFIX)


def load(path: Path) -> Lock | None:
    """The lock at ``path``; None where there is none. Raises UsageError, with the line, where it is not a lock."""
    try:
        text = read_regular(path, LARGEST).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}; {_NEW}") from error
    tree = parse(str(path), text)
    if tree.problems:
        first = tree.problems[0]
        # The hint is about how a case begins where the file is not a mapping.
        raise UsageError(f"{first if isinstance(tree.data, dict) else replace(first, hint='')}; {_NEW}")
    return _Reader(tree).lock()


def dumps(lock: Lock, case_name: str) -> str:
    """The file's text."""
    bases = {entry.pins.base.reference: entry.pins.base for entry in lock.entries}
    document = {
        "lock": FORMAT,
        "case": lock.case,
        "reprokit": lock.version,
        **_given(
            bases={reference: _base(bases[reference]) for reference in sorted(bases)},
            environments=[_entry(entry) for entry in lock.entries],
            unsupported=[_cell(one) for one in lock.unsupported],
        ),
    }
    return HEAD.format(name=case_name) + emit.document(document, bare_counts=lambda loc: False)


def _base(base: LockedBase) -> dict[str, Any]:
    return _given(name=base.name, source=base.source, recipe=base.recipe, packages=_sorted(base.packages))


def _entry(entry: LockEntry) -> dict[str, Any]:
    pins = entry.pins
    return _given(
        image=entry.image,
        platform=entry.platform,
        cells=[_cell(one) for one in entry.cells],
        date=pins.date,
        base=pins.base.reference,
        providers=Flow(entry.providers),
        served_by=_sorted(entry.served_by),
        sources={name: Flow(commit=one.commit, digest=one.digest) for name, one in sorted(entry.sources.items())},
        **{group: _artefacts(pins.group(group)) for group in GROUPS},
        pip_steps=[_artefacts(step) for step in pins.pip_steps],
        local=_sorted(pins.local),
        apt=_sorted(pins.apt),
    )


def _cell(one: LockedCell) -> Flow:
    reason = {"reason": one.reason} if one.reason else {}
    return Flow(cell=Flow(one.cell), variant=one.variant, asked=one.asked, **reason)


def _artefacts(group: Sequence[Artefact]) -> dict[str, Any]:
    return {one.name: _artefact(one) for one in group}


def _artefact(one: Artefact) -> dict[str, Any]:
    url = {"url": one.url} if one.url else {}
    return Flow(version=one.version, hash=f"sha256:{one.sha256}", size=one.size, file=one.file, **url)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in ("", {}, [])}


def _sorted(values: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(values.items()))


class _Reader:
    """Plain data -> a Lock; what is missing or of another kind is reported with its line."""

    def __init__(self, tree: CaseTree) -> None:
        self.tree = tree

    def lock(self) -> Lock:
        found = self.text(("lock",))
        if found != FORMAT:
            raise self.refuse(("lock",), f"expected {FORMAT}, found {found}")
        count = len(self.list(("environments",)))
        return Lock(
            path=self.tree.path,
            case=self.text(("case",)),
            version=self.text(("reprokit",)),
            entries=tuple(self.entry(("environments", number)) for number in range(count)),
            unsupported=self.cells(("unsupported",)),
            lines={loc: place.key_line or place.line for loc, place in self.tree.places.items()},
        )

    def entry(self, at: tuple[str | int, ...]) -> LockEntry:
        reference = self.text((*at, "base"))
        groups = {group: self.artefacts((*at, group)) for group in GROUPS}
        own = {group: groups.pop(group) for group in ("pip_itself", "cuda", "cudnn", "pip")}
        earlier = [(*at, "pip_steps", number) for number in range(len(self.list((*at, "pip_steps"))))]
        sources = self.mapping((*at, "sources"))
        return LockEntry(
            image=self.text((*at, "image"), like=_IMAGE, what="reprokit/img: and hexadecimal digits"),
            platform=self.text((*at, "platform")),
            cells=self.cells((*at, "cells")),
            pins=Pins(
                base=self.base(reference, at),
                date=self.text((*at, "date"), like=_DATE, what="a date such as 2026-01-31T12:00:00Z"),
                apt=self.versions((*at, "apt")),
                local=self.versions((*at, "local")),
                trees={name: found for name, found in groups.items() if found},
                pip_steps=tuple(map(self.artefacts, earlier)),
                pip_itself=own["pip_itself"],
                cuda=own["cuda"],
                cudnn=own["cudnn"],
                pip=own["pip"],
            ),
            providers=self.providers((*at, "providers")),
            served_by=self.texts((*at, "served_by")),
            sources={
                name: LockedSource(
                    commit=self.text((*at, "sources", name, "commit"), "", like=_COMMIT, what="a full commit"),
                    digest=self.text((*at, "sources", name, "digest")),
                )
                for name in sources
            },
        )

    def cells(self, at: tuple[str | int, ...]) -> tuple[LockedCell, ...]:
        return tuple(
            LockedCell(
                cell=self.texts((*at, number, "cell")),
                variant=self.text((*at, number, "variant")),
                asked=self.text((*at, number, "asked")),
                reason=self.text((*at, number, "reason"), None if at[0] == "unsupported" else ""),
            )
            for number in range(len(self.list(at)))
        )

    def base(self, reference: str, entry: tuple[str | int, ...]) -> LockedBase:
        at = ("bases", reference)
        if not self.mapping(at):
            raise self.refuse((*entry, "base"), f"{reference} is not among the bases")
        found = LockedBase(
            name=self.text((*at, "name")),
            source=self.text((*at, "source")),
            reference=reference,
            recipe=self.text((*at, "recipe"), ""),
            packages=self.versions((*at, "packages")),
        )
        if found.source not in BASE_SOURCES:
            raise self.refuse((*at, "source"), f"expected {' or '.join(BASE_SOURCES)}, found {found.source!r}")
        if found.source != "bootstrap":
            if not re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", reference):
                raise self.refuse(at, "expected an image's name with its digest (NAME@sha256:...)")
        elif reference != (made := base_reference(found.name, found.recipe, found.packages)):
            raise self.refuse(at, f"name, recipe and packages make {made}: they were edited")
        return found

    def providers(self, at: tuple[str | int, ...]) -> dict[str, str]:
        self.text((*at, "base"))
        found = self.texts(at)
        try:
            supply_of(found)
        except UsageError as error:
            raise self.refuse(at, str(error)) from None
        return found

    def artefacts(self, at: tuple[str | int, ...]) -> tuple[Artefact, ...]:
        found = []
        for name in self.names(at):
            written, digest = self.text((*at, name, "size")), self.text((*at, name, "hash"))
            if (size := whole_number(written)) is None:
                raise self.refuse((*at, name, "size"), f"expected a number of bytes, found {written!r}")
            if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
                raise self.refuse((*at, name, "hash"), f"expected sha256: and 64 hexadecimal digits, found {digest!r}")
            found.append(
                Artefact(
                    name=name,
                    version=self.text((*at, name, "version"), like=_VERSION, what="a version"),
                    file=self.text((*at, name, "file")),
                    sha256=digest.removeprefix("sha256:"),
                    size=size,
                    url=self.text((*at, name, "url"), "", like=_URL, what="an address"),
                )
            )
        return tuple(found)

    def text(
        self,
        loc: tuple[str | int, ...],
        default: str | None = None,
        *,
        like: re.Pattern[str] | None = None,
        what: str = "",
    ) -> str:
        """``like``: what all of the text is; ``what``: the same in words."""
        value = value_at(self.tree.data, loc)
        if isinstance(value, str):
            if like is not None and not like.fullmatch(value):
                raise self.refuse(loc, f"expected {what}, found {value!r}")
            return value
        if value is None and default is not None:
            return default
        raise self.refuse(loc, "this is missing" if value is None else "expected text")

    def mapping(self, loc: tuple[str | int, ...]) -> Mapping[str, Any]:
        value = value_at(self.tree.data, loc)
        if value is None or isinstance(value, dict):
            return value or {}
        raise self.refuse(loc, "expected a mapping")

    def list(self, loc: tuple[str | int, ...]) -> Sequence[Any]:
        value = value_at(self.tree.data, loc)
        if value is None or isinstance(value, list):
            return value or []
        raise self.refuse(loc, "expected a list")

    def names(self, loc: tuple[str | int, ...]) -> Iterator[str]:
        for name in self.mapping(loc):
            if not _PACKAGE.fullmatch(name):
                raise self.refuse((*loc, name), "expected a package's name")
            yield name

    def versions(self, loc: tuple[str | int, ...]) -> dict[str, str]:
        return {name: self.text((*loc, name), like=_VERSION, what="a version") for name in self.names(loc)}

    def texts(self, loc: tuple[str | int, ...]) -> dict[str, str]:
        return {name: self.text((*loc, name)) for name in self.mapping(loc)}

    def refuse(self, loc: tuple[str | int, ...], message: str) -> UsageError:
        line, _ = self.tree.position(loc)
        name = ".".join(str(part) for part in (loc[1:] if loc[0] == "environments" and loc[1:] else loc))
        return UsageError(f"{self.tree.path}:{line}: {name}: {message}; {_NEW}")
