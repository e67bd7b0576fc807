"""Asks a reader of the user's own for the facts of a report: a program that answers on standard output.

The report is untrusted text, and so is the answer: it is read as facts, held against the report, and nothing of
it is executed. The program is started without a shell, with the words that the user or their configuration wrote.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress

from reprokit.core.errors import UsageError
from reprokit.core.redaction import scrub
from reprokit.core.text import one_line
from reprokit.intake import facts_file
from reprokit.intake.facts_file import Fact

SECONDS = 600.0
"""The most that a reader may take: a model on a processor alone needs minutes for a long report."""
LARGEST = 4 * 1024**2
"""Most bytes of an answer."""
_LAST_LINES, _LAST_BYTES = 5, 10_000
"""How much of the end of a reader's standard error a message shows."""
_TICK = 1.0
"""Seconds without output after which it is looked whether the program ended: one that it left may hold its pipes."""


def words_of(command: str) -> list[str]:
    """The words of a reader's command, as a shell splits them. Raises ValueError saying what is expected."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"words with closed quotes ({error})") from None
    if not words:
        raise ValueError("a program and its arguments, such as: llm -m qwen3")
    return words


def read_facts(command: str, question: str, *, seconds: float = SECONDS, largest: int = LARGEST) -> list[Fact | str]:
    """The facts that the program of ``command`` states, and sentences on what of its answer is not read.

    ``question``: given on standard input. Raises UsageError where the program cannot be started, fails, answers
    nothing in which a fact can be read, or takes more than ``seconds`` or prints more than ``largest`` bytes.
    """
    try:
        words = words_of(command)
    except ValueError as error:
        raise UsageError(f"--reader {command!r}: expected {error}") from None
    name = f"--reader {one_line(shlex.join(words), 80)}"
    with tempfile.TemporaryFile() as asked:
        asked.write(question.encode("utf-8", "replace"))
        asked.seek(0)
        try:
            process = subprocess.Popen(
                words, stdin=asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except OSError as error:
            raise UsageError(f"{name}: {words[0]} cannot be started: {error.strerror or error}") from None
    with process:
        try:
            answer, errors, why = _output(process, seconds, largest)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # it leads a group, of which nothing is to stay
    if why or process.returncode:
        ended = why or f"it ended with exit status {process.returncode}"
        shown = "".join(f"\n  {line}" for line in _last_lines(errors))
        raise UsageError(f"{name}: {ended}{f'; the end of its standard error:{shown}' if shown else ''}")
    if not answer.strip():
        raise UsageError(f"{name}: it printed nothing; JSON with facts is expected on standard output")
    return facts_file.load(answer.decode("utf-8", "replace"), name)


def _output(process: subprocess.Popen[bytes], seconds: float, largest: int) -> tuple[bytearray, bytearray, str]:
    """(what it printed, the end of its standard error, why it was stopped; '' where it ended by itself)."""
    until = time.monotonic() + seconds
    answer, errors = bytearray(), bytearray()
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ, answer)
        waiting.register(process.stderr, selectors.EVENT_READ, errors)
        while waiting.get_map():
            left = until - time.monotonic()
            if left <= 0:
                return answer, errors, f"it took more than {seconds:g} s and was stopped"
            ready = waiting.select(min(left, _TICK))
            if not ready and process.poll() is not None:
                break
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                key.data.extend(data)
                if not data:
                    waiting.unregister(key.fileobj)
            del errors[:-_LAST_BYTES]
            if len(answer) > largest:
                return answer, errors, f"it printed more than {largest} bytes, and was stopped"
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return answer, errors, f"it took more than {seconds:g} s and was stopped"
    return answer, errors, ""


def _last_lines(errors: bytearray) -> list[str]:
    """The last lines of what a reader wrote to standard error, without secrets: programs print their configuration."""
    lines = scrub(errors.decode("utf-8", "replace")).text.splitlines()
    return [one_line(line, 200) for line in lines if line.strip()][-_LAST_LINES:]
