"""What is fuzzed: each target takes bytes and an empty folder, and raises where a property does not hold."""

from __future__ import annotations

import functools
import io
import json
import re
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from reprokit.case import facts, markdown, review, templates
from reprokit.case.files import digest_of
from reprokit.case.matrix import count, expand
from reprokit.case.model import Failure
from reprokit.case.render import TemplateProblem, render
from reprokit.core.errors import ReprokitError
from reprokit.engine.site import config
from reprokit.environment import cases
from reprokit.evidence import build_failure
from reprokit.evidence.judgement import judge
from reprokit.evidence.log_trimmer import LogTrimmer
from reprokit.evidence.model import Ending
from reprokit.github import issue
from reprokit.intake import drafting
from reprokit.intake.bug import write_cases
from reprokit.intake.draft import render as written
from reprokit.intake.importing import kinds
from reprokit.run import lock_file
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
    return "bugsinpy" if data.startswith(b"#file ") else "swe-bench"


def importing_bugs(data: bytes, folder: Path) -> None:
    """A data set: a row of SWE-bench, or the files of a bug of BugsInPy, each behind a line ``#file NAME``."""
    name, place = kind_of(data), folder / "rows.jsonl"
    if name == "bugsinpy":
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
    store = _store(folder)
    try:
        import_(store, export, NOW, ImportLimits(size=1 << 30, entries=1000))
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
}
