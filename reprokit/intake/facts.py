"""What a reader of a report states, a person or a language model: the question, the format, and reading the answer.

Models vary a format, whatever they are asked for: an answer is read as far as it can be, and what is not read is said.
The report is untrusted text, and so is the answer: nothing of it is executed, and no shell reads it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from reprokit.case import read as reading
from reprokit.case.tree import listing
from reprokit.core.errors import UsageError
from reprokit.core.redaction import scrub
from reprokit.core.text import one_line

FORMAT: Literal["reprokit-facts/v1"] = "reprokit-facts/v1"
MOST = 200
"""Most facts of one report."""
_Line = Annotated[int, Field(ge=1, description="The number of the line of the report that states it.")]


class _Fact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    line: _Line


class VersionFact(_Fact):
    """A version of the environment in which it fails, or, with ``works``, of one in which it works."""

    fact: Literal["version"]
    of: str = Field(
        description="os, python, gcc, clang, cmake, cuda, cudnn or nccl; `package NAME` for what pip or conda installs "
        "by that name; `program NAME` for anything else."
    )
    value: str = Field(description="As written; of os the distribution and release, such as ubuntu-22.04.")
    works: bool = Field(default=False, description="It works with this one, by the report.")


class GpuFact(_Fact):
    """It fails on a GPU, or the failing program asks for one."""

    fact: Literal["gpu"]


class VariableFact(_Fact):
    """An environment variable that is set where it fails."""

    fact: Literal["env"]
    name: str
    value: str


class CommandFact(_Fact):
    """A command line of a shell that is run up to the failure, in order; what comes before it counts, too."""

    fact: Literal["command"]
    last: int = Field(default=0, description="Its last line, where it has several.")
    text: str = Field(default="", description="The command, where a prompt or a sentence is around it: as written.")


class ProgramFact(_Fact):
    """Lines of a program that reproduces it, without prompts and output; several are joined in their order."""

    fact: Literal["script"]
    last: int = Field(description="Its last line.")
    language: str = Field(default="python", description="As on a fence: python, cpp, cuda, js ...")
    name: str = Field(default="", description="The name of its file, where the report has one.")


class SourceFact(_Fact):
    """A repository that is checked out or that it is built from, also where only its branch or commit is named."""

    fact: Literal["source"]
    git: str = Field(
        default="",
        description="Its address, or the project's name where the report has no address, also of the report's own.",
    )
    ref: str = Field(default="", description="Tag, branch or commit; empty where none is stated.")


class ContrastFact(_Fact):
    """What is changed where it works, other than a version: an option, a line, a branch, the backend, the device."""

    fact: Literal["contrast"]
    name: str = Field(default="", description="What is changed, such as the name of a variable or an option; device.")
    fails: str = Field(default="", description="As written where it fails; empty where only the other has something.")
    works: str = Field(default="", description="As written where it works; empty where it works without it.")


class FailureFact(_Fact):
    """The failure that the report is about. Exactly one."""

    fact: Literal["failure"]
    kind: Literal["exception", "output", "signal", "hang", "slow", "wrong", "leak", "oom"] = Field(
        description="output: an error line that is printed; wrong: a wrong result; oom: out of memory."
    )
    last: int = Field(default=0, description="The last line of the traceback or message.")
    text: str = Field(default="", description="The telling part of one of these lines, as written.")
    signal: str = Field(default="", pattern=r"^(?:SIG[A-Z0-9]{2,8})?$", description="SIGSEGV, SIGABRT ...")


Fact = Annotated[
    VersionFact | GpuFact | VariableFact | CommandFact | ProgramFact | SourceFact | ContrastFact | FailureFact,
    Field(discriminator="fact"),
]


class FactsDocument(BaseModel):
    """What a reader states of a report."""

    model_config = ConfigDict(extra="forbid")
    format: Literal["reprokit-facts/v1"] = FORMAT
    facts: list[Fact] = Field(max_length=MOST)


_LARGEST = 4 * 1024**2
"""Characters of a file that are read."""
_FENCE = re.compile(r"```(?:json)?[ \t]{0,8}\n(?=[{\[])")
_FENCE_END = re.compile(r"\n[ \t]{0,8}```")
_OBJECT = re.compile(r'\{\s{0,80}"')
_OBJECT_LONGEST = 20_000
"""Most characters of a fact in an answer that is not whole."""


def read_file(source: str) -> list[Fact | str]:
    """The facts in a file, or on standard input for ``-``. Raises UsageError."""
    data = sys.stdin.read(_LARGEST) if source == "-" else reading.data(Path(source), _LARGEST).decode(errors="replace")
    return parse_answer(data, "<stdin>" if source == "-" else source)


def parse_answer(text: str, name: str) -> list[Fact | str]:
    """The facts of an answer, which may have words around it; for what cannot be read, a sentence that says why.

    ``name``: of the file, for messages. Raises UsageError where no fact can be read.
    """
    rows, wrong = _rows(text)
    facts = [_fact(row, number) for number, row in enumerate(rows, 1)]
    if rows and all(isinstance(one, str) for one in facts):
        wrong, rows = [str(one) for one in facts], []
    if not rows:
        advice = "`reprokit integrate schema facts` prints its schema, `reprokit new --from REPORT --ask` asks for it"
        raise UsageError("\n".join([*(f"{name}: {one}" for one in wrong), advice]))
    known = {"lines", *(key for kind in _KINDS.values() for key in kind.model_fields)}
    unknown = sorted({str(key) for row in rows if isinstance(row, Mapping) for key in row} - known)
    if unknown:
        wrong.append(f"Facts have no key {listing(one_line(key, 20) for key in unknown[:5])}: ignored.")
    return [*facts, *wrong]


def _rows(text: str) -> tuple[Sequence[object], list[str]]:
    """(the facts as they are written, what is wrong with the text around them)."""
    if fence := _FENCE.search(text):
        end = _FENCE_END.search(text, fence.end())
        text = text[fence.end() : end.start() if end else None]
    try:
        found = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        why = one_line(str(error), 100)
        rows = list(_objects(text))
        return rows, [
            f"The answer is not whole JSON ({why}): the facts that can be read in it are taken." if rows else why
        ]
    if isinstance(found, Mapping) and found.get("format", FORMAT) != FORMAT:
        return [], [f"format: {found['format']!r} is not {FORMAT}"]
    if isinstance(found, Mapping) and "facts" not in found:
        return [], ["an object with the key facts is expected"]
    listed = found["facts"] if isinstance(found, Mapping) else found
    if not (isinstance(listed, list) and 0 < len(listed) <= MOST):
        return [], [f"facts: a list of 1 to {MOST} facts is expected"]
    return listed, []


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The facts in an answer that is cut off, has one on each line, or has errors in it."""
    for at in islice(_OBJECT.finditer(text), 2 * MOST):
        try:
            found, _ = _JSON.raw_decode(text[at.start() : at.start() + _OBJECT_LONGEST])
        except (ValueError, RecursionError):
            continue
        if "fact" in found:
            yield found


_JSON = json.JSONDecoder(parse_float=str)
"""A version is not a number: 3.10 stays 3.10."""


def _fact(row: object, number: int) -> Fact | str:
    """A fact, or why it cannot be read: of a model's answer the others still count."""
    try:
        return _READER.validate_python(_usual(row) if isinstance(row, Mapping) else row)
    except ValidationError as error:
        kind = row.get("fact") if isinstance(row, Mapping) else ""
        why = "; ".join(": ".join([*map(str, one["loc"][-1:]), one["msg"]]) for one in error.errors())
        return f"Fact {number} ({one_line(str(kind or 'of no kind'), 20)}) is left out: {why}."


def _usual(row: Mapping[str, Any]) -> dict[str, Any]:
    """A fact as the format has it, of one with null for nothing, numbers as versions, and other words for a failure."""
    kind = str(row.get("fact"))
    fields = _KINDS[kind].model_fields if kind in _KINDS else {}
    found = {key: value for key, value in row.items() if value is not None and (key in fields or key == "fact")}
    for key, field in fields.items():
        if field.annotation is str and isinstance(found.get(key), (int, float)):
            found[key] = str(found[key])
    span = row.get("lines", row.get("line"))
    if not isinstance(span, int) and (numbers := re.findall("[0-9]{1,9}", str(span))):  # "3-5", [3, 5]
        found |= {"line": numbers[0]}
        found |= {"last": numbers[-1]} if "last" in fields and len(numbers) > 1 else {}
    if kind == "failure":
        called = re.sub(r"[\s_-]", "", str(row.get("kind", "")).lower())
        found["kind"] = next((usual for usual, words in _FAILURES.items() if called in words), found.get("kind"))
        signal = str(found.get("signal", "")).upper()
        found["signal"] = signal if re.fullmatch(r"SIG[A-Z0-9]{2,8}", signal) else ""
    return found


_FAILURES = {
    "exception": {"traceback", "raised", "assertion"},
    "output": {"error", "errormessage", "message", "build", "builderror", "compileerror", "compilation"},
    "signal": {"crash", "segfault", "abort", "coredump", "segmentationfault"},
    "hang": {"timeout", "freeze", "deadlock", "stuck"},
    "slow": {"slowdown", "performance", "regression"},
    "wrong": {"wrongresult", "wrongoutput", "incorrect", "incorrectresult", "nan"},
    "leak": {"memoryleak"},
    "oom": {"outofmemory", "cudaoom"},
}
"""What models call a kind of failure, in small letters without blanks, by its name in the format."""
_KINDS: dict[str, type[_Fact]] = {
    "version": VersionFact, "gpu": GpuFact, "env": VariableFact, "command": CommandFact, "script": ProgramFact,
    "source": SourceFact, "contrast": ContrastFact, "failure": FailureFact,
}  # fmt: skip
_READER: TypeAdapter[Fact] = TypeAdapter(Fact)


QUESTION = (Path(__file__).parent / "data" / "question.txt").read_text("utf-8").replace("FORMAT", FORMAT)


def question(lines: Sequence[str]) -> str:
    """What to ask a language model about the lines of a report: the instructions, and the lines with their numbers."""
    width = len(str(len(lines)))
    return QUESTION + "".join(f"{number:>{width}} {line}\n" for number, line in enumerate(lines, 1))


# -- the program that answers ------------------------------------------------------------------------------------------

SECONDS = 600.0
"""The most that a reader may take: a model on a processor alone needs minutes for a long report."""
LARGEST = 4 * 1024**2
"""Most bytes of an answer."""
_LAST_LINES, _LAST_BYTES = 5, 10_000
"""How much of the end of a reader's standard error a message shows."""
_LINGER = 1.0
"""Seconds after which what the program left behind is killed: it may hold the pipe."""


def words_of(command: str) -> list[str]:
    """The words of a reader's command, as a shell splits them. Raises ValueError saying what is expected."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"words with closed quotes ({error})") from None
    if not words:
        raise ValueError("a program and its arguments, such as: llm -m qwen3")
    return words


def ask_reader(command: str, asked: str, *, seconds: float = SECONDS, largest: int = LARGEST) -> list[Fact | str]:
    """The facts that the program of ``command`` states, and sentences on what of its answer is not read.

    ``asked``: the question, given on standard input. Raises UsageError where the program cannot be started, fails,
    answers nothing in which a fact can be read, or takes more than ``seconds`` or prints more than ``largest`` bytes.
    """
    try:
        words = words_of(command)
    except ValueError as error:
        raise UsageError(f"--reader {command!r}: expected {error}") from None
    name = f"--reader {one_line(shlex.join(words), 80)}"
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(asked.encode("utf-8", "replace"))
        given.seek(0)
        try:
            process = subprocess.Popen(
                words, stdin=given, stdout=subprocess.PIPE, stderr=errors, bufsize=0, start_new_session=True
            )
        except OSError as error:
            raise UsageError(f"{name}: {words[0]} cannot be started: {error.strerror or error}") from None
        answer, why = _answer_of(process, seconds, largest)
        if not why and process.returncode:
            why = f"it ended with exit status {process.returncode}"
        if why:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LAST_BYTES))
            # Without secrets: programs print their configuration.
            lines = scrub(errors.read().decode("utf-8", "replace")).text.splitlines()
            shown = "".join(
                f"\n  {one_line(line, 200)}" for line in [one for one in lines if one.strip()][-_LAST_LINES:]
            )
            raise UsageError(f"{name}: {why}{f'; the end of its standard error:{shown}' if shown else ''}")
    if not answer.strip():
        raise UsageError(f"{name}: it printed nothing; JSON with facts is expected on standard output")
    return parse_answer(answer.decode("utf-8", "replace"), name)


def _answer_of(process: subprocess.Popen[bytes], seconds: float, largest: int) -> tuple[bytes, str]:
    """(what it printed, why it was stopped; '' where it ended by itself). Nothing of its group stays."""
    assert process.stdout is not None
    late = threading.Event()

    def kill() -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    def watch() -> None:
        try:
            process.wait(seconds)
            read.wait(_LINGER)
        except subprocess.TimeoutExpired:
            late.set()
        kill()

    read = threading.Event()
    watcher = threading.Thread(target=watch, daemon=True)
    parts: list[bytes] = []
    try:
        watcher.start()
        while sum(map(len, parts)) <= largest and (data := process.stdout.read(65536)):
            parts.append(data)
        large = sum(map(len, parts)) > largest
        if large:
            kill()
    finally:
        read.set()
        if sys.exc_info()[0]:
            kill()
        watcher.join()
        process.stdout.close()
    if late.is_set():
        return b"", f"it took more than {seconds:g} s and was stopped"
    return b"".join(parts), f"it printed more than {largest} bytes, and was stopped" if large else ""
