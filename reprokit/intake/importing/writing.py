"""Cases of a data set to files: each is valid before it is written, and one that is not does not stop the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from reprokit.core.errors import CaseError
from reprokit.core.files import write
from reprokit.environment.cases import load_text, schema_line
from reprokit.intake.draft import render
from reprokit.intake.importing.bug import BugEntry, PipChanges, WrongBug
from reprokit.intake.importing.drafting import UNCHANGED, draft_of


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What became of an entry: the file that was written, or why there is none. ``folder``: its sources' folder."""

    key: str
    file: Path | None = None
    why_not: str = ""
    sources: tuple[str, ...] = ()


def write_cases(
    entries: Iterable[BugEntry], out: Path, *, force: bool, changes: PipChanges = UNCHANGED
) -> Iterator[Imported]:
    """Write the case of each entry to ``out``, and say what became of it. A file that exists is kept, unless forced."""
    written: dict[str, str] = {}
    for entry in entries:
        try:
            bug = entry.read()
            file = out / f"{bug.case_id}.yaml"
            if file.name in written:
                raise WrongBug(f"its case would have the id {bug.case_id}, which {written[file.name]} has")
            text = schema_line(file) + render(draft_of(bug, changes))
            case = load_text(str(file), text).case
            if file.exists() and not force:
                raise WrongBug(f"{file} exists already: overwrite it with --force, or name another folder with --out")
            write(file, text)
        except WrongBug as error:
            yield Imported(key=entry.key, why_not=str(error))
        except CaseError as error:
            yield Imported(key=entry.key, why_not=f"its case would not be valid: {error}")
        except OSError as error:
            yield Imported(key=entry.key, why_not=f"{out} cannot be written: {error.strerror}")
        else:
            written[file.name] = entry.key
            yield Imported(key=entry.key, file=file, sources=tuple(case.sources))
