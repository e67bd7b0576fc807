"""The argument CASE of a command: a path as it is, and the id of a case as the path of its file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.case.read import MARKDOWN_SUFFIXES, MAX_BYTES, YAML_SUFFIXES, is_lock, looks_like_case
from reprokit.case.trust import FROM
from reprokit.core.errors import UsageError
from reprokit.core.files import read_regular, shipped
from reprokit.core.near_match import near

if TYPE_CHECKING:
    from reprokit.store.database import Store

PASSED_BY = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""Folders in which no one keeps cases."""

EXAMPLE = "ptxas-unknown-arch"
"""The id of the case that comes with reprokit, so that a first verdict needs no checkout."""
_EXAMPLE_FILE = "cases/ptxas_unknown_arch.yaml"

Given = tuple[str, ...] | str | None
"""The values of an argument: several, one, or none."""


def paths(store_path: Callable[[Path | None], Path]) -> Callable[[click.Context, click.Parameter, Given], Given]:
    """A click callback: each CASE as what can be read. ``store_path``: --store, or None -> the store's folder.

    The callback raises UsageError for what is neither a path nor a known id.
    """

    def callback(ctx: click.Context, param: click.Parameter, given: Given) -> Given:
        def path(text: str) -> str:
            return _path(text, lambda: store_path(ctx.params.get("store_folder")))

        return path(given) if isinstance(given, str) else given and tuple(map(path, given))

    return callback


def _path(text: str, store_folder: Callable[[], Path]) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", text) or Path(text).exists():
        return text
    ids = dict(_ids_below(Path()))
    if files := [path for path, name in ids.items() if name == text]:
        own = [path for path in files if path.suffix.lower() in YAML_SUFFIXES] or files
        if len(own) > 1:  # a Markdown file that shares a case does not count beside the case
            raise UsageError(f"{text}: {' and '.join(map(str, own))} have this id: name one of the files")
        return str(own[0])
    from reprokit.store.database import Store

    folder = store_folder()
    store = Store(folder) if folder.is_dir() else None
    known = store.case_keys() if store else []
    example = str(shipped(_EXAMPLE_FILE)) if text == EXAMPLE else ""
    if store and text in known:
        return _recorded(store, text, example)
    if example:
        return example
    others = [key.partition(FROM)[2] for key in known if key.startswith(text + FROM)]
    hint = f"; another author's case of this id was run, from {', '.join(others)}: name that address" if others else ""
    raise UsageError(
        f"{text}: there is no such file or folder, and no case of this id was run or lies below this folder"
        f"{hint or near(text, (*known, *ids.values(), EXAMPLE), prefix='; ')}"
    )


def _recorded(store: Store, case_id: str, otherwise: str) -> str:
    """Where a case of the user was last run from; ``otherwise``, unless '', where it is not there any more."""
    run_id, path = store.last_path(case_id)
    if "://" in path:
        return path
    for asked in map(Path, store.run(run_id).request.cases):  # absolute, unlike the path of the record
        for file, name in _ids_below(asked) if asked.is_dir() else [(asked, _id_of(asked))]:
            if name == case_id:
                return str(file)
    if otherwise:
        return otherwise
    raise UsageError(f"{case_id}: the case was run from {path}, which does not hold it any more: name its file")


def _ids_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files below a folder that hold a case, with its id."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in PASSED_BY)
        for name in sorted(names):
            path = Path(parent, name)
            readable = path.suffix.lower() in (*YAML_SUFFIXES, *MARKDOWN_SUFFIXES) and not is_lock(name)
            if readable and (found := _id_of(path)):
                yield path, found


def _id_of(path: Path) -> str:
    """The id of the case that a file seems to hold, read without parsing it; ''."""
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    found = re.search(r"""^id\s*:\s*["']?([a-z0-9-]+)["']?\s*(#.*)?$""", text, re.MULTILINE)
    return found[1] if found and looks_like_case(text) else ""
