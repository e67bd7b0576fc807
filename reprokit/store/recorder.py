"""Keeps what one run decides: in its journal before anything is shown, and from there in the database.

A thread syncs the journal to the disk once a second. Another one brings the database up to date every few seconds, and
uploads logs where the store has a place for them. Where one of both does not take it, nothing is lost: the next run, or
`reprokit store sync`, tries again. Importing this imports no database.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from pathlib import Path
from typing import Any

from reprokit.core.errors import RecordError, UsageError
from reprokit.core.ownership import OwnerState, locked, lockless
from reprokit.evidence.origin import HostRecord, OwnerRecord
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store import delivery, errors, sqlite_file
from reprokit.store.errors import PASSING, StoreError, Trouble
from reprokit.store.files import files_of
from reprokit.store.journal import CaseTexts, Journal, entries, line_of, mark_pending, path_of
from reprokit.store.places import LOCK
from reprokit.store.remote import remote_of

IMPORT_SECONDS = 0.2
SYNC_SECONDS = 1.0
UPDATE_SECONDS = 5.0
LONGEST_SECONDS = 60.0  # between two attempts on a database that takes nothing
NEVER = (Trouble.FOREIGN, Trouble.NEWER, Trouble.OLDER, Trouble.PATH, Trouble.READ_ONLY)
"""What keeps a database from ever taking a run: said before the run begins."""


class Recorder:
    """Records one run, from any thread: each call returns when its record is kept. All raise RecordError.

    ``hurry``: set when the run was interrupted; records then wait for a full disk for seconds only.
    """

    def __init__(self, folder: Path) -> None:
        self.hurry = threading.Event()
        self._folder = folder
        self._journal: Journal | None = None
        self._end = threading.Event()
        self._failed: StoreError | None = None
        self._threads = [
            threading.Thread(target=work, name="recorder", daemon=True) for work in (self._sync, self._tend)
        ]

    def begin(self, run: RunRecord, texts: CaseTexts, *, resumed: bool = False) -> None:
        """Begin a new run, or go on with one that has been taken over (``resumed``): with its cells, decided or not.

        Raises StoreError where the database is another program's, or another version's, or may only be read, or is on
        a file system without locks, or on a server that does not take it now, and UsageError where another process
        goes on with that run.
        """
        lock = self._folder / LOCK
        if why := lockless(lock):
            raise errors.lockless(self._folder, why)
        self._check_database()
        self._journal = Journal(path_of(self._folder, run.id), self.hurry)
        known = self._journal.size > 0
        try:
            # One lock with whoever brings the database up to date: it takes the mark away from a run that is whole.
            with locked(lock):
                if known:
                    self._refuse_if_taken(run)
                for digest, text in texts.items():
                    self.know(digest, *text)
                if not known:
                    self._append("begin", run=run)
                if known or resumed:  # what was decided stays as it is
                    self._append("resume", owner=run.owner)
                mark_pending(self._folder, run.id)
                if files_of(self._folder):
                    mark = delivery.mark_of(self._folder, run.id)
                    mark.parent.mkdir(exist_ok=True)
                    mark.touch()
        except OSError as error:
            raise RecordError(
                f"the store {self._folder} cannot be written ({error}): name another store with --store"
            ) from error
        for thread in self._threads:
            thread.start()

    def _check_database(self) -> None:
        """Raise StoreError where it will never take this run. A server also gets what earlier runs left here."""
        if remote_of(self._folder) is not None:
            from reprokit.store.database import Store

            with contextlib.closing(Store(self._folder, up_to_date=True)) as store:
                store.check_writable()
            if place := files_of(self._folder):
                place.check()
                delivery.deliver_all(self._folder)
            return
        path = self._folder / sqlite_file.DATABASE
        try:
            if sqlite_file.version(path) and not sqlite_file.is_writable(path):
                raise errors.store_error(path, "attempt to write a readonly database")
        except StoreError as error:
            if error.trouble in NEVER:
                raise

    def _refuse_if_taken(self, run: RunRecord) -> None:
        assert self._journal is not None
        owner: OwnerRecord | None = None
        for entry in entries(self._journal.path):
            if entry.kind in ("begin", "resume"):
                began = entry.kind == "begin"
                owner = entry.read("run", RunRecord).owner if began else entry.read("owner", OwnerRecord)
            elif entry.kind == "finish":
                owner = None
        if owner is not None and not owner.is_this_process and owner.state is OwnerState.ALIVE:
            self._journal.close()
            self._journal = None
            raise UsageError(f"run {run.id} is being resumed by {owner}: wait for it, or stop it first")

    def know(self, digest: str, case_id: str, title: str, text: str) -> None:
        """Keep the text of a case."""
        self._append("case", digest=digest, id=case_id, title=title, text=text)

    def decide(self, cell: CellRecord) -> None:
        """Keep a decided cell, or one that was repeated, with all its trials."""
        self._append("decide", cell=cell)

    def find(self, key: str, value: Any) -> None:
        """Keep what a search learned or found (JSON)."""
        self._append("find", key=key, value=value)

    def finish(self, *, finished_at: str, exit_status: int, host: HostRecord) -> None:
        """Keep that the run has ended."""
        self._append("finish", finished_at=finished_at, exit_status=exit_status, host=host)

    def close(self) -> str:
        """Bring the database up to date; returns in words why it is not, else ''. The run is kept in any case.

        Raises RecordError where the database will not take it until a user does something about that: makes room, say.
        """
        if self._journal is None or self._end.is_set():
            return ""
        self._end.set()
        for thread in self._threads:
            thread.join()
        self._journal.close()
        # After an interrupt no second attempt on a server that is away: each takes seconds.
        error = self._failed if self._failed and self.hurry.is_set() else self._update()
        if error is None:
            return ""
        how = "is added to the database when that can be used"
        if remote_of(self._folder):
            how = "is delivered by the next run, or by `reprokit store sync`"
        text = f"{error}\nthis run is kept in {self._journal.path}, and {how}"
        if error.trouble not in PASSING or error.trouble is Trouble.FULL:
            raise RecordError(text) from error
        return text

    def _append(self, kind: str, /, **values: object) -> None:
        assert self._journal is not None
        self._journal.append(line_of(kind, **values))

    def _update(self) -> StoreError | None:
        from reprokit.store.database import Store

        assert self._journal is not None
        try:
            with contextlib.closing(Store(self._folder, up_to_date=True)) as store:
                if error := store.refused.get(self._journal.path.parent.name):
                    raise error
            delivery.deliver(self._folder, self._journal.path.parent.name)
            self._failed = None
        except StoreError as error:
            self._failed = error
        return self._failed

    def _sync(self) -> None:
        assert self._journal is not None
        while not self._end.wait(SYNC_SECONDS):
            self._journal.sync()

    def _tend(self) -> None:
        assert self._journal is not None
        pause, done = UPDATE_SECONDS, 0
        if not self._end.wait(IMPORT_SECONDS):
            # SQLAlchemy takes 0.2 s, in which programs run already: else the end of the run waits for it.
            importlib.import_module("reprokit.store.database")
        while not self._end.wait(pause):
            if (size := self._journal.size) > done:
                pause = min(2 * pause, LONGEST_SECONDS) if self._update() else UPDATE_SECONDS
                done = done if self._failed else size
