"""The relay between the user's terminal and a program's."""

from __future__ import annotations

import os
import threading
import tty as raw
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from reprokit.core import tty
from reprokit.core.errors import Cancelled, UsageError
from tests.terminals import PATIENCE, Master, TerminalUser, User, users_terminal


@contextmanager
def attached(
    user: TerminalUser, tick: Callable[[], None] = lambda: None
) -> Iterator[tuple[Future[None], User, list[tuple[int, int]]]]:
    """A relay in a thread, with the program's end of it, and the sizes that it got."""
    master, slave = os.openpty()
    raw.setraw(slave)
    sizes: list[tuple[int, int]] = []
    peer = Master(master)

    def resize(size: os.terminal_size) -> None:
        peer.resize(size)
        sizes.append((size.columns, size.lines))

    with ThreadPoolExecutor() as pool:
        try:
            yield pool.submit(tty.relay, user.terminal, peer, resize, tick), User(slave), sizes
        finally:
            with suppress(OSError):
                os.close(slave)
    os.close(master)


def test_keys_go_to_the_program_and_its_output_to_the_user_until_its_end() -> None:
    with users_terminal() as user, attached(user) as (relay, program, _):
        program.types(b"?")
        user.sees(b"?")
        user.types(b"\x03 ok\r")  # Ctrl-C is the program's
        program.sees(b"\x03 ok\r")
        program.types(b"$ ")
        user.sees(b"$ ")
        program.types(b"bye")
        user.sees(b"bye")
        os.close(program.master)
        relay.result(PATIENCE)


def test_what_is_longer_than_a_terminal_holds_arrives_whole() -> None:
    text = b"0123456789" * 20_000
    with users_terminal() as user, attached(user) as (relay, program, _):
        writer = threading.Thread(target=lambda: (program.types(text), program.types(b"END")))
        writer.start()
        assert user.sees(b"END") == text
        writer.join(PATIENCE)
        os.close(program.master)
        relay.result(PATIENCE)


def test_the_program_gets_each_size() -> None:
    with users_terminal() as user:
        Master(user.master).resize(os.terminal_size((120, 40)))
        with attached(user) as (relay, program, sizes):
            program.types(b"$")
            user.sees(b"$")
            assert os.get_terminal_size(program.master) == (120, 40)
            Master(user.master).resize(os.terminal_size((90, 20)))
            os.write(user.changed, b"0")
            os.close(program.master)
            relay.result(PATIENCE)
        assert sizes[0] == (120, 40)


def test_the_terminal_is_as_before_whatever_ends_the_relay() -> None:
    end = threading.Event()

    def tick() -> None:
        if end.is_set():
            raise Cancelled("ended")

    with users_terminal() as user:
        before = user.modes()
        with attached(user, tick) as (relay, program, _):
            program.types(b"$")
            user.sees(b"$")
            assert user.modes() != before
            end.set()
            with pytest.raises(Cancelled):
                relay.result(PATIENCE)
        assert user.modes() == before


def test_a_terminal_that_is_hung_up_ends_the_relay() -> None:
    with users_terminal() as user, attached(user) as (relay, program, _):
        program.types(b"$")
        user.sees(b"$")
        os.close(user.master)
        with pytest.raises(Cancelled, match="the terminal went away"):
            relay.result(PATIENCE)


def test_without_a_terminal_there_is_a_command_that_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, name in ((None, "input"), (open(os.devnull), "input")):  # noqa: PTH123, SIM115
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(UsageError, match=rf"standard {name} is not a terminal.*reprokit exec CASE CELL -- COMMAND"):
            tty.at_hand().__enter__()
