"""The record of runs: SQLite in ``.reprokit/`` of the project by default, or a team's database on a server."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Row, and_, or_, select

from reprokit.case.trust import keys_named
from reprokit.core.errors import UsageError
from reprokit.core.json_record import member
from reprokit.core.ownership import locked
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellOutline, CellPlace, CellRecord, RunRecord, mark_reused
from reprokit.store import summaries, tables, writing
from reprokit.store.delivery import mark_of
from reprokit.store.errors import StoreError, Trouble, unreadable
from reprokit.store.files import files_of
from reprokit.store.folder import make_folder
from reprokit.store.index import open_index
from reprokit.store.journal import PENDING, CaseTexts, Journal, line_of, mark_pending, path_of
from reprokit.store.places import LOCK, RUNS, below, remove_run
from reprokit.store.remote import shown
from reprokit.store.summaries import Layout, Summary
from reprokit.store.writing import bare_run, cell_of, rows_of

Name = TypeVar("Name", str, CellPlace)
SOME = 200  # runs or cells that one query names


class Store:
    """Runs, cells and trials, recorded for the store in ``folder``. Safe to use from several threads.

    All methods raise StoreError, with what to do, where the database cannot be used.
    """

    def __init__(self, folder: Path, url: str | None = None, *, up_to_date: bool = False) -> None:
        """Open, and create when new. ``url``: another database than the folder's (``$REPROKIT_DATABASE``).

        What its journals have is added. Where it cannot be written now, a copy is read that has all that;
        ``up_to_date``: raise StoreError instead.
        """
        self.folder = make_folder(folder)
        self._index = open_index(folder, url, up_to_date=up_to_date)

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine, for queries of your own."""
        return self._index.engine

    @property
    def file(self) -> Path | None:
        """SQLite's file, or the copy of it that is read; None for another database."""
        return self._index.path

    @property
    def where(self) -> str:
        """The database, for messages: a path, or an address without its password."""
        return self._index.where

    @property
    def refused(self) -> Mapping[str, StoreError]:
        """Runs of this host that the database does not take, and why: they are in their journals alone."""
        return self._index.refused

    @property
    def damage(self) -> Sequence[str]:
        """What journals had that no reprokit wrote, in words: it was set aside when they were added just now."""
        return self._index.damage

    def close(self) -> None:
        """Give the database back."""
        self._index.close()

    def faults(self) -> list[str]:
        """What is wrong with the database itself, in words; [] for nothing."""
        with self.engine.connect() as connection:
            return self._index.dialect.faults(connection)

    def check_writable(self) -> None:
        """Raise StoreError where this user may not write."""
        with self.engine.connect() as connection:
            why = self._index.dialect.check_writable(connection)
        if why:
            raise StoreError(
                f"the store's database {self.where} cannot be written: {why}; name another store with --store",
                Trouble.READ_ONLY,
            )

    def _write(self, run_id: str, lines: Iterable[bytes]) -> None:
        """Add lines to the journal of a run, and from there to the database. Raises RecordError, StoreError."""
        path = path_of(self.folder, run_id)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                stack.enter_context(locked(self.folder / LOCK))  # else its mark is removed meanwhile
            with contextlib.closing(Journal(path)) as journal:
                mark_pending(self.folder, run_id)
                for line in lines:
                    journal.append(line)
            if self._index.catch_up(self.folder, run_id) and self._index.scratch is None:
                below(self.folder, PENDING, run_id).unlink(missing_ok=True)

    def put(self, run: RunRecord, texts: CaseTexts, findings: Mapping[str, Any] | None = None) -> None:
        """Write a run with all its cells, in place of what is there under its id.

        ``texts``: case digest -> (id, title, text). ``findings``: of a search, beside those that are there.
        """
        self._write(run.id, lines_of(run, texts, findings or {}))

    def record(self, run_id: str) -> None:
        """Give the journal of a run what the database alone has of it. Raises RecordError."""
        run = self.run(run_id)
        texts = self.texts(cell.case_digest for cell in run.cells)
        lines = lines_of(run, texts, self.findings(run_id), kind="begin")
        if run.finished_at:  # a run that the journal has is not begun again
            lines.append(line_of("finish", finished_at=run.finished_at, exit_status=run.exit_status, host=run.host))
        self._write(run_id, lines)

    def decide(self, run_id: str, *cells: CellRecord, texts: CaseTexts | None = None) -> None:
        """Write decided cells with their trials, in place of what is there. ``texts``: of the case that judged them."""
        self._write(run_id, [*_case_lines(texts or {}), *(line_of("decide", cell=cell) for cell in cells)])

    def find(self, run_id: str, key: str, value: Any) -> None:
        """Keep what a search learned or found (JSON); what was kept under the key before is replaced."""
        self._write(run_id, [line_of("find", key=key, value=value)])

    def replay(self, folder: Path, runs: Iterable[str]) -> None:
        """Add what the journals of these runs of the store in ``folder`` have, and this one does not."""
        for run_id in runs:
            self._index.catch_up(folder, run_id)

    def was_written(self, run_id: str) -> bool:
        """Whether a run was decided, and not only put, by a journal that the database has."""
        with self.engine.connect() as connection:
            return writing.was_written(connection, run_id)

    def forget(self, run_id: str) -> None:
        """Remove a run with its cells, trials, findings, journal and logs."""
        mark = below(self.folder, PENDING, run_id)
        if files := files_of(self.folder):  # first: where that fails, it can be asked for again
            files.remove(f"{RUNS}/{run_id}")
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                stack.enter_context(locked(self.folder / LOCK))  # no one brings it back from its journal meanwhile
            mark.unlink(missing_ok=True)
            with self._index.transaction() as connection:
                self._index.dialect.writing(connection, run_id)
                writing.forget(connection, run_id)
            remove_run(self.folder, run_id)
            mark_of(self.folder, run_id).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A connection whose rows are read by the block. Raises StoreError for one that reprokit did not write so."""
        with self.engine.connect() as connection:
            try:
                yield connection
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise unreadable(self.where, error) from error

    def texts(self, digests: Iterable[str]) -> CaseTexts:
        """Of cases that are known: digest -> (id, title, text)."""
        table, wanted = tables.cases.c, set(digests)
        with self._reading() as connection:
            rows = connection.execute(select(table.digest, table.id, table.title, table.text))
            return {row.digest: (row.id, row.title, row.text) for row in rows if row.digest in wanted}

    def findings(self, run_id: str) -> dict[str, Any]:
        """What a search learned and found, by key; its result is under ``ANSWER``."""
        with self._reading() as connection:
            query = select(tables.findings.c.key, tables.findings.c.value).where(tables.findings.c.run_id == run_id)
            return {row.key: row.value for row in connection.execute(query)}

    def run(self, reference: str) -> RunRecord:
        """A run by id, by a unique beginning of it, or ``last``. Raises UsageError when there is none."""
        with self._reading() as connection:
            whole = (tables.runs.c.id != reference).asc()  # an id is found though another begins with it
            query = rows_of(tables.runs).order_by(whole, tables.runs.c.started_at.desc(), tables.runs.c.id.desc())
            if reference != "last":
                query = query.where(tables.runs.c.id.startswith(reference, autoescape=True))
            rows = connection.execute(query.limit(2)).all()
            if not rows:
                raise UsageError(
                    f"{shown(self.folder)} holds no run"
                    + (f" {reference!r}" if reference != "last" else "")
                    + "; `reprokit history` lists what there is"
                )
            if len(rows) > 1 and reference != "last" and rows[0].id != reference:
                raise UsageError(f"{reference!r} begins several run ids: give more of it")
            return _run(connection, rows[0])

    def runs(self, limit: int | None = 100) -> list[RunRecord]:
        """The newest runs first, without their cells. ``limit`` None: all of them."""
        with self._reading() as connection:
            query = rows_of(tables.runs).order_by(tables.runs.c.started_at.desc(), tables.runs.c.id.desc()).limit(limit)
            return [bare_run(row) for row in connection.execute(query)]

    def outlines(self, limit: int | None) -> Iterator[tuple[RunRecord, Sequence[CellOutline]]]:
        """The newest runs first, each without its cells, and what these came to."""
        table = tables.cells.c
        kept = table.run_id, table.case_key, table.verdict, table.expected, table.as_expected, table.reused_from
        runs = self.runs(limit)
        words: dict[str | None, Verdict | None] = {None: None}
        for at in range(0, len(runs), SOME):
            some = {run.id: (run, list[CellOutline]()) for run in runs[at : at + SOME]}
            with self._reading() as connection:
                query = select(*kept).where(table.run_id.in_(some)).order_by(table.run_id, table.number)
                for run_id, case_key, verdict, expected, *others in connection.execute(query):
                    one = CellOutline(case_key, _verdict(verdict, words), _verdict(expected, words), *others)
                    some[run_id][1].append(one)
            yield from some.values()

    def verdicts(
        self, runs: Collection[str], *, case_key: str | None = None, digest: str | None = None
    ) -> dict[str, set[Verdict | None]]:
        """What the cells that ran in these runs came to; of a case, or of that state of one, where it is named."""
        table, found = tables.cells.c, dict[str, set[Verdict | None]]()
        query = select(table.run_id, table.verdict).distinct().where(table.reused_from.is_(None))
        if case_key is not None:
            query = query.where(table.case_key == case_key)
        if digest is not None:
            query = query.where(table.case_digest == digest)
        for some in _chunks(runs):
            with self._reading() as connection:
                for run_id, verdict in connection.execute(query.where(table.run_id.in_(some))):
                    found.setdefault(run_id, set()).add(_verdict(verdict, {None: None}))
        return found

    def summaries(self, cases: Collection[str] = ()) -> tuple[dict[str, Layout], list[Summary]]:
        """What the cells of all runs came to, of all cases or of these; see :mod:`.summaries`."""
        with self._reading() as connection:
            self._index.dialect.reading(connection)
            return summaries.read(connection, cases)

    def records(self, places: Collection[CellPlace], *, lean: bool = False) -> dict[CellPlace, CellRecord]:
        """The whole cells that are in these places; ``lean``: without trials, Dockerfile and repeat line."""
        found: dict[CellPlace, CellRecord] = {}
        table = tables.cells.c
        with self._reading() as connection:
            for some in _chunks(places):
                # By run: of pairs in a list, SQLite looks at every cell.
                runs = itertools.groupby(some, lambda place: place[0])
                of_runs = (and_(table.run_id == run, table.number.in_([at for _, at in each])) for run, each in runs)
                left_out = ("dockerfile", "repeat", "trials") if lean else ()
                for cell in connection.execute(rows_of(tables.cells, left_out).where(or_(*of_runs))):
                    found[cell.run_id, cell.number] = cell_of(cell)
        return found

    def failed(self, runs: Collection[str]) -> dict[CellPlace, tuple[str | None, bool | None, str]]:
        """The cells of these runs that did not pass as expected: the verdict, whether it is as expected, the reason."""
        table = tables.cells.c
        passed = and_(table.verdict == Verdict.NOT_REPRODUCED.value, table.as_expected.is_not(False))
        query = select(table.run_id, table.number, table.verdict, table.as_expected, table.reason, table.reused_from)
        query = query.where(or_(table.verdict.is_(None), ~passed))
        found: dict[CellPlace, tuple[str | None, bool | None, str]] = {}
        with self._reading() as connection:
            for some in _chunks(runs):
                for row in connection.execute(query.where(table.run_id.in_(some))):
                    reason = mark_reused(row.reason, row.reused_from)
                    found[row.run_id, row.number] = row.verdict, row.as_expected, reason
        return found

    def of_case(self, key: str, digest: str) -> list[tuple[RunRecord, CellRecord]]:
        """Every recorded cell of that state of a case with its run, the newest first, without trials."""
        table = tables.cells.c
        query = rows_of(tables.cells, ("trials",)).join(tables.runs)
        query = query.where(table.case_key == key, table.case_digest == digest)
        order = tables.runs.c.started_at.desc(), tables.runs.c.id.desc(), tables.cells.c.number
        with self._reading() as connection:
            rows = connection.execute(query.order_by(*order)).all()
            of_rows = rows_of(tables.runs).where(tables.runs.c.id.in_({row.run_id for row in rows}))
            runs = {row.id: bare_run(row) for row in connection.execute(of_rows)}
            return [(runs[row.run_id], cell_of(row)) for row in rows]

    def last_seen(self, case_key: str) -> tuple[RunRecord, list[CellRecord]] | None:
        """The newest run of a case with the case's cells in it, without trials; None when it was never run.

        Searches are left out: they ask for some cells only, and of cases that they rewrite.
        """
        with self._reading() as connection:
            of_case = select(tables.cells.c.run_id).where(tables.cells.c.case_key == case_key)
            plain = tables.runs.c.request["search"].as_string().is_(None)
            newest = rows_of(tables.runs).where(tables.runs.c.id.in_(of_case), plain)
            order = tables.runs.c.started_at.desc(), tables.runs.c.id.desc()
            run = connection.execute(newest.order_by(*order).limit(1)).one_or_none()
            if run is None:
                return None
            cells = rows_of(tables.cells, ("trials",)).where(tables.cells.c.run_id == run.id)
            rows = connection.execute(cells.where(tables.cells.c.case_key == case_key).order_by(tables.cells.c.number))
            return bare_run(run), [cell_of(row) for row in rows]

    def last_path(self, case_key: str) -> tuple[str, str]:
        """The newest run of a case that was run, and the file or address that it was loaded from."""
        table = tables.cells.c
        query = select(table.run_id, table.case_path).join(tables.runs)
        newest = query.where(table.case_key == case_key).order_by(tables.runs.c.started_at.desc(), table.id.desc())
        with self._reading() as connection:
            found = connection.execute(newest.limit(1)).one()
            return found.run_id, found.case_path

    def case_keys(self) -> list[str]:
        """What names each case that was ever run here: see :func:`reprokit.case.trust.case_key`."""
        with self._reading() as connection:
            return sorted(connection.scalars(select(tables.cells.c.case_key).distinct()))

    def cases_named(self, text: str) -> list[str]:
        """The keys of cases that a text names; of other authors' cases only where it does not name a run.

        Raises UsageError as :func:`reprokit.case.trust.keys_named` does.
        """
        known = self.case_keys()
        if text not in known:
            with contextlib.suppress(UsageError):
                self.run(text)
                return []
        return keys_named(text, known)

    def image_cases(self) -> dict[str, set[str]]:
        """Tag of an image -> keys of the cases whose cells ran in it."""
        table, found = tables.cells.c, dict[str, set[str]]()
        with self._reading() as connection:
            for image, case_key in connection.execute(select(table.image, table.case_key)):
                if image:
                    found.setdefault(image["tag"], set()).add(case_key)
        return found

    def case_text(self, digest: str) -> str:
        """The case file as it was when it ran; '' when unknown."""
        with self._reading() as connection:
            return connection.scalar(select(tables.cases.c.text).where(tables.cases.c.digest == digest)) or ""


def lines_of(run: RunRecord, texts: CaseTexts, findings: Mapping[str, Any], kind: str = "put") -> list[bytes]:
    """The lines of a journal that put a run into a store: see :meth:`Store.put`; ``begin``: only what this lacks."""
    found = (line_of("find", key=key, value=value) for key, value in findings.items())
    return [*_case_lines(texts), line_of(kind, run=run), *found]


def _case_lines(texts: CaseTexts) -> Iterator[bytes]:
    for digest, (case_id, title, text) in texts.items():
        yield line_of("case", digest=digest, id=case_id, title=title, text=text)


def _chunks(names: Collection[Name]) -> Iterator[Sequence[Name]]:
    """As many at a time as any database takes in one query."""
    ordered = sorted(names)
    return (ordered[at : at + SOME] for at in range(0, len(ordered), SOME))


def _run(connection: Connection, row: Row[Any]) -> RunRecord:
    query = rows_of(tables.cells).where(tables.cells.c.run_id == row.id).order_by(tables.cells.c.number)
    return replace(bare_run(row), cells=tuple(map(cell_of, connection.execute(query))))


def _verdict(word: str | None, known: dict[str | None, Verdict | None]) -> Verdict | None:
    """The verdict of a word; ``known``: those seen before, since there are many rows."""
    if word not in known:
        known[word] = member(Verdict, word)
    return known[word]
