"""What is fuzzed: each target takes bytes and an empty folder, and raises where a property does not hold."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import re
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO
from unittest.mock import AsyncMock, patch

import anyio
import click
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError

from reprokit.case import facts, markdown, review, templates
from reprokit.case.files import digest_of
from reprokit.case.matrix import count, expand, parse_group, parse_values
from reprokit.case.model import Failure
from reprokit.case.render import TemplateProblem, render
from reprokit.cli import agents, cli
from reprokit.cli.options import cell_of_run
from reprokit.core.errors import ReprokitError, UsageError
from reprokit.core.json_text import loads
from reprokit.engine.site import config
from reprokit.engine.wire import error_in
from reprokit.environment import cases
from reprokit.evidence import build_failure
from reprokit.evidence.judgement import judge
from reprokit.evidence.log_trimmer import LogTrimmer
from reprokit.evidence.model import Ending
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.github import issue
from reprokit.github.event import pinned, read_event
from reprokit.intake import drafting
from reprokit.intake.bug import write_cases
from reprokit.intake.draft import render as written
from reprokit.intake.facts import parse_answer
from reprokit.intake.importing import kinds
from reprokit.intake.unbundling import open_bundle
from reprokit.report.history.changes import moment
from reprokit.report.history.series import gather
from reprokit.run import lock_file
from reprokit.run.request import read_chosen, read_every_job
from reprokit.store import tables
from reprokit.store.archive import ImportLimits, import_
from reprokit.store.database import Store
from reprokit.store.journal import FILE
from reprokit.store.merging import merge, read
from reprokit.store.sqlite_file import DATABASE
from tests.fuzz.oracle import holds, located

Target = Callable[[bytes, Path], None]
NOW = "2026-01-01T00:00:00Z"
MOST = 20_000
"""Cells up to which a case is looked at further, as a plan would."""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def loading(data: bytes, folder: Path) -> None:
    """A case file: its problems are in its text; a valid one can be counted, described and rendered."""
    source = folder / "case.yaml"
    source.write_bytes(data)
    with located(_text(data).removeprefix("\ufeff")):
        [file] = cases.load(str(source))
    again = cases.load_text(file.path, file.text)
    holds(again.case == file.case and again.digest == file.digest, "the same text gives another case")
    matrix = file.case.matrix
    if count(matrix.axes, matrix.exclude, matrix.include) > MOST:
        return
    chosen = expand(matrix.axes, matrix.exclude, matrix.include)
    review.summary(file, chosen[:10])
    facts.rendered(file.case.resources.gpus, chosen[:10])
    for cell in chosen[:3]:
        for case in filter(None, (file.case, file.fixed)):
            try:
                render(case, cell)
            except TemplateProblem as error:
                raise ReprokitError(str(error)) from error


def reading_markdown(data: bytes, folder: Path) -> None:
    """Markdown and the text of an issue: what is run has the digest of what was reviewed."""
    text = _text(data)
    for block in markdown.blocks(text):
        holds(0 < block.first_line <= text.count("\n") + 1, "a block that begins outside of the text")
        holds(len(block.shifts) == block.text.count("\n"), "a block with lines of unknown place")
    found = issue.review(text)
    holds(found.digest == issue.digest_of(text), "the digest of the review is another than that of the label")
    holds(found.state != "valid" or found.file is not None, "valid, and no case")
    if found.file is not None:
        holds(found.file.text in issue.plain(text) or digest_of(found.file.text) == found.file.digest, "another text")
        again = issue.review(text.replace("\r\n", "\n").replace("\n", "\r\n"))
        holds(again.digest == found.digest, "line ends change the digest")
    source = folder / "issue.md"
    source.write_text(text, encoding="utf-8")
    cases.load(str(source))


def templating(data: bytes, folder: Path) -> None:
    """A template: inspected, then rendered within bounds, and to the same text each time."""
    text = _text(data)
    found = templates.inspect(text)
    if found.error:
        lines = len(re.split("\r\n|[\r\n]", text))  # the template language's
        holds(1 <= found.line <= lines + 1, f"line {found.line} of {lines}")
        return
    values = dict.fromkeys(sorted(found.names | found.guarded), "12.0")
    try:
        first = templates.render_text(text, values)
    except templates.RenderError:
        return
    holds(len(first) <= templates.MAX_TEXT, "more text than is allowed")
    holds(first == templates.render_text(text, values), "the same template gives another text")
    holds(" at 0x" not in first or " at 0x" in text, "an address of memory")


def judging(data: bytes, folder: Path) -> None:
    """A log: judged by a signature of its own first line, without an error whatever it holds."""
    head, _, rest = data.partition(b"\n")
    words = _text(head).replace("/", "").split("|")  # patterns are another reader's
    text = _text(rest)
    for code in (0, 1, 139):
        for failure in (Failure(), Failure.model_construct(message=words[0] or None, exception=words[-1] or None)):
            judged = judge(failure, Ending(exit_code=code, seconds=1.0, oom=False, timed_out=False), text)
            holds(bool(judged.reason), "an outcome without a reason")
            lines = text.count("\n") + 1
            for check in judged.checks:
                holds(all(0 < line <= lines for line in check.lines), "a line that the log does not have")


def trimming(data: bytes, folder: Path) -> None:
    """A log that floods: bounded, and the same however the stream is divided."""
    sizes, _, rest = data.partition(b"\n")
    whole = rest * (1 + (sizes[0] if sizes else 0) % 40)
    kept = []
    for step in (len(whole) or 1, 1 + (sizes[1] if len(sizes) > 1 else 6) * 97):
        path = folder / f"{step}.log"
        file = path.open("w+b", buffering=0)
        with LogTrimmer(file, Failure(output="needle"), head=2000, kept=2000, tail=1000) as trimmer:
            for start in range(0, len(whole), step):
                trimmer.feed(whole[start : start + step])
            done = trimmer.close()
        holds(done.seen == len(whole), "bytes that were not counted")
        kept.append(path.read_bytes())
    holds(kept[0] == kept[-1], "the division of the stream changes the file")


def explaining_builds(data: bytes, folder: Path) -> None:
    """The output of a build that failed: a cause in one line."""
    step, _, rest = _text(data).partition("\n")
    found = build_failure.explain(step, rest.split("\n"), "exit code: 1")
    holds(bool(found.cause) and "\n" not in found.reason, "a reason of several lines, or none")
    holds(len(found.cause) <= build_failure.MOST, "a cause that is longer than allowed")


def drafting_cases(data: bytes, folder: Path) -> None:
    """A bug report: the draft is YAML that is read as it was meant."""
    text = written(drafting.draft(_text(data)))
    with located(text):
        cases.load_text("draft.yaml", text)


def kind_of(data: bytes) -> str:
    """The kind of data set that an input is."""
    if data.startswith(b"#task"):
        return "harbor"
    return "bugsinpy" if data.startswith(b"#file ") else "swe-bench"


def importing_bugs(data: bytes, folder: Path) -> None:
    """A data set: a row of SWE-bench, or the files of a bug of BugsInPy, each behind a line ``#file NAME``, or of a
    task of Harbor, after a line ``#task``."""
    name, place = kind_of(data), folder / "rows.jsonl"
    if name == "harbor":
        place = folder / "task"
        for part in (b"\n" + data).split(b"\n#file ")[1:]:
            file, _, content = part.partition(b"\n")
            if file in (
                b"task.toml",
                b"environment/Dockerfile",
                b"environment/a",
                b"solution/solve.sh",
                b"tests/test.sh",
            ):
                (place / file.decode()).parent.mkdir(parents=True, exist_ok=True)
                (place / file.decode()).write_bytes(content)
        if not (place / "task.toml").is_file():
            return
    elif name == "bugsinpy":
        place = folder / "data"
        bug = place / "projects/p/bugs/1"
        bug.mkdir(parents=True)
        for part in (b"\n" + data).split(b"\n#file ")[1:]:
            file, _, content = part.partition(b"\n")
            if file in (b"bug.info", b"bug_patch.txt", b"requirements.txt", b"run_test.sh", b"setup.sh"):
                (bug / file.decode()).write_bytes(content)
        (place / "projects/p/project.info").write_text('github_url="https://example.com/o/p"')
    else:
        place.write_bytes(data)
    out = folder / "out"
    for one in write_cases(kinds()[name].entries(place, (), None), out, force=True):
        holds(bool(one.why_not) or one.file is not None, "neither a case nor a reason")
        if one.file is not None:
            holds(one.file.parent == out, "a case that is written elsewhere")
            loading(one.file.read_bytes(), folder)


def _store(folder: Path) -> Store:
    """A new store; its tables are made once and copied, which takes a tenth of the time."""
    target = folder / "own"
    (target / DATABASE).parent.mkdir()
    (target / DATABASE).write_bytes(_tables())
    return Store(target)


def warm() -> None:
    """Make what is made once, outside of any input's folder."""
    _tables()
    assert callable(anyio.open_process)  # which anyio imports when it is asked for


@functools.cache
def _tables() -> bytes:
    with tempfile.TemporaryDirectory() as made:
        Store(Path(made)).close()
        return (Path(made) / DATABASE).read_bytes()


def importing(data: bytes, folder: Path) -> None:
    """An export of a store: lines of journals, of which ``#run`` begins one; ``#log`` names a file beside them."""
    export = folder / "export.tar"
    members: dict[str, bytes] = {}
    name = f"runs/none/{FILE}"
    for line in _text(data).split("\n"):
        if line.startswith("#log ") and len(members) < 40:
            members[line[5:]] = b"a log\n"
        elif line.startswith("#run "):
            name = f"runs/{line[5:]}/{FILE}"
        elif line:
            members[name] = members.get(name, b"") + _journal_line(line)
    with tarfile.open(export, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name.replace("\0", ""))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    _import(folder, export, ImportLimits(size=1 << 30, entries=1000))


def _import(folder: Path, export: Path, limits: ImportLimits) -> None:
    store = _store(folder)
    try:
        import_(store, export, NOW, limits)
        _kept(store)
    finally:
        store.close()


def _journal_line(line: str) -> bytes:
    body = line.encode()[1:]  # what follows the brace
    return b'{"crc32":"%08x"' % zlib.crc32(body) + b"," + body + b"\n"


def merging(data: bytes, folder: Path) -> None:
    """The store of another job, as journals: the first line names the run, each further one is an entry's JSON."""
    name, _, rest = _text(data).partition("\n")
    name = "".join(letter for letter in name if letter not in "/\0")[:60]  # of 4 bytes each: no file has a longer one
    if name in ("", ".", ".."):
        return
    foreign = folder / "foreign"
    (foreign / "runs" / name).mkdir(parents=True)
    with (foreign / "runs" / name / FILE).open("wb") as journal:
        for line in rest.split("\n"):
            journal.write(_journal_line(line))
    store = _store(folder)
    try:
        merge([read("foreign", foreign)], store, None, NOW)
        _kept(store)
    finally:
        store.close()


def _kept(store: Store) -> None:
    """What was taken over can be read again, and then be removed."""
    for run in store.runs(limit=None):
        json.dumps(store.run(run.id).to_json())
        store.forget(run.id)


def locking(data: bytes, folder: Path) -> None:
    """A lock: read as it says, or refused with the line."""
    path = folder / "case.lock.yaml"
    path.write_bytes(data)
    lock = lock_file.load(path)
    if lock is not None:
        text = lock_file.dumps(lock, "case.yaml")
        path.write_text(text, encoding="utf-8")
        again = lock_file.load(path)
        holds(
            again is not None and lock_file.dumps(again, "case.yaml") == text, "a lock that is written is another one"
        )


def configuring(data: bytes, folder: Path) -> None:
    """The configuration of a project."""
    path = folder / "reprokit.toml"
    path.write_bytes(data)
    config.load({"REPROKIT_CONFIG": str(path), "HOME": str(folder)}, folder)


def selecting(data: bytes, folder: Path) -> None:
    """What options take: each line is read as cells to keep, values of an axis, a moment and a cell of a run."""
    for line in _text(data).split("\n")[:50]:
        with suppress(ValueError, OverflowError):  # as its documentation says
            moment(line, datetime.now(timezone.utc))
        for reader in (parse_group, parse_values, cell_of_run):
            with suppress(UsageError):
                reader(line)


def choosing(data: bytes, folder: Path) -> None:
    """An entry of ``--cells``, alone and as a whole matrix."""
    for reader in (read_every_job, read_chosen):
        with suppress(UsageError):
            reader(_text(data), "entry")


def stating(data: bytes, folder: Path) -> None:
    """What a language model answers about a report, whose text the input is, too."""
    found = parse_answer(_text(data), "answer")
    holds(all(found), "a fact without words")


def happening(data: bytes, folder: Path) -> None:
    """The event of a workflow, and the case that another job left."""
    (folder / "event").write_bytes(data)
    (folder / "case.yaml").write_bytes(data)
    holds(pinned(folder, sha256(data).hexdigest()).read_bytes() == data, "another text than the reviewed one")
    event = read_event({"GITHUB_EVENT_PATH": str(folder / "event")})
    issue.review(event.text("issue", "body"))
    event.number("issue", "number")


def unbundling(data: bytes, folder: Path) -> None:
    """A bundle as a tar, of the files that lines ``#file NAME`` begin; other bytes as they are."""
    path = folder / "bug.tar.gz"
    path.write_bytes(data)
    if data.startswith(b"#file "):
        with tarfile.open(path, "w") as archive:
            for part in data.split(b"#file ")[1:30]:
                name, _, content = part.partition(b"\n")
                member = tarfile.TarInfo(name.decode("utf-8", "replace").replace("\0", "")[:200])
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    open_bundle(path, folder, "bug.tar.gz")


def databasing(data: bytes, folder: Path) -> None:
    """The database of another's store, of whose run each line replaces a column: ``COLUMN VALUE``."""
    store = _store(folder)
    store.put(RunRecord(id="r", started_at=NOW, version="1", cells=(CELL,)), {CELL.case_digest: ("c", "t", "id: c")})
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        for line in _text(data).split("\n")[:20]:
            name, _, value = line.encode("utf-8", "replace").decode().partition(" ")
            for table in (tables.cells, tables.runs, tables.cases, tables.layouts, tables.summaries):
                if name in table.c and name not in ("id", "run_id"):
                    with suppress(sqlite3.Error):
                        connection.execute(
                            f"UPDATE {table.name} SET {name} = ?", (value.encode("utf-8", "replace").decode(),)
                        )
        connection.commit()
    try:
        for look in (lambda: store.run("last").to_json(), lambda: list(store.outlines(9)), lambda: gather(store)):
            with suppress(ReprokitError):
                look()
    finally:
        store.close()


def archiving(data: bytes, folder: Path) -> None:
    """An archive of records as it comes, its headers with the sums that they should have."""
    path = folder / "export.tar"
    blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
    path.write_bytes(b"".join(_summed(block) if block[257:262] == b"ustar" else block for block in blocks))
    _import(folder, path, ImportLimits(size=1 << 24, entries=100))


def _summed(header: bytes) -> bytes:
    return header[:148] + b"%06o\0 " % (sum(header[:148] + header[156:]) + 8 * 32) + header[156:]


def requesting(data: bytes, folder: Path) -> None:
    """The request of a coding agent: the name of a tool, and its arguments as JSON on the other lines."""
    tool, _, text = _text(data).partition("\n")

    async def start(line: Sequence[str], *, stdout: BinaryIO, **streams: object) -> SimpleNamespace:
        name, *words = line[3:]
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        if any("\0" in word or len(word) > 131_071 for word in words):
            raise ValueError("as the system does")
        with suppress(click.UsageError), click.Context(command) as context:
            given = command.make_parser(context).parse_args([*words])[0]
            holds(not given.keys() & {"yes", "reviewed", "output", "help"}, f"options of its own: {given}")
            holds(given.get("store_folder") == "own" or name in ("new", "validate"), f"another store: {given}")
        stdout.write(b"[]" if "--cells" in words else b"{}")
        return SimpleNamespace(returncode=0, wait=AsyncMock())

    with patch.object(anyio, "open_process", start), suppress(ValueError, RecursionError):
        arguments = loads(text)
        if isinstance(arguments, dict):
            try:
                asyncio.run(SERVER.call_tool(tool, arguments))
            except UnexpectedToolError as error:
                holds(isinstance(error.__cause__, KeyError), repr(error.__cause__))  # the answer is empty here
            except ToolError:
                pass


SERVER = agents.server(Path("own"))


def answering(data: bytes, folder: Path) -> None:
    """What an engine answers: the lines of a stream."""
    for line in data.split(b"\n")[:100]:
        with suppress(ValueError):
            error_in(loads(line))


CELL = CellRecord(number=1, case_id="c", case_path="c.yaml", case_digest="sha256:1", cell={"a": "1"})

TARGETS: Mapping[str, Target] = {
    "case": loading,
    "markdown": reading_markdown,
    "template": templating,
    "log": judging,
    "trimmer": trimming,
    "build-log": explaining_builds,
    "report": drafting_cases,
    "data-set": importing_bugs,
    "export": importing,
    "journal": merging,
    "lock": locking,
    "config": configuring,
    "options": selecting,
    "cells": choosing,
    "facts": stating,
    "event": happening,
    "bundle": unbundling,
    "database": databasing,
    "answers": answering,
    "archive": archiving,
    "agents": requesting,
}
