"""Debug files from servers that answer rightly, late, wrongly or not at all; the servers are on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.core.errors import Cancelled
from reprokit.run import debuggers as debug_files
from reprokit.run.debuggers import FILE, DebugFiles, NoDebugFile, has_build_id, make_room, servers
from tests.servers import free_port
from tests.unit.debug_elf import debug_file
from tests.unit.serving import Quiet

ID, OTHER = "ab" * 20, "cd" * 20
NOW = threading.Event()
Answer = Callable[[Quiet], None]


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """The address of a server that answers so, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(Quiet):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sends(data: bytes, status: int = 200, length: int | None = None) -> Answer:
    def answer(request: Quiet) -> None:
        request.answer(status, data, Content_Length=str(len(data) if length is None else length))
        request.close_connection = True

    return answer


def why(files: DebugFiles, build_id: str = ID) -> NoDebugFile:
    with pytest.raises(NoDebugFile) as caught:
        files.get(build_id, NOW)
    return caught.value


def left(folder: Path) -> list[str]:
    return sorted(str(place.relative_to(folder)) for place in folder.rglob("*") if place.suffix != ".lock")


def test_a_file_is_fetched_once_and_readable_in_a_container(tmp_path: Path) -> None:
    with serving(sends(debug_file(ID, "f"))) as (url, asked):
        place = DebugFiles([url], tmp_path).get(ID, NOW)
        assert DebugFiles([url], tmp_path).get(ID, NOW) == place
    assert asked == [f"/buildid/{ID}/debuginfo"]
    assert has_build_id(place / FILE, ID)
    assert (place.stat().st_mode & 0o777, (place / FILE).stat().st_mode & 0o777) == (0o755, 0o644)


def test_the_next_server_is_asked_where_one_has_none_or_fails(tmp_path: Path) -> None:
    with serving(sends(b"", 404)) as (first, _), serving(sends(debug_file(ID, "f"))) as (second, asked):
        assert DebugFiles(["http://127.0.0.1:1", first, second], tmp_path).get(ID, NOW)
        assert len(asked) == 1


@pytest.mark.parametrize(
    ("answer", "words", "absent"),
    [
        (sends(b"Not found", 404), "no server has its debug file", True),
        (sends(b"", 503), "answers 503", False),
        (sends(b"<html>Log in</html>"), "sent something else than the debug file of", False),
        (sends(debug_file(OTHER, "f")), "sent something else than the debug file of", False),
        (sends(debug_file(ID, "f")[:-200]), "sent something else than the debug file of", False),
        (sends(debug_file(ID, "f")[:100], length=100_000), "does not answer", False),
    ],
)
def test_what_is_not_the_file_is_not_kept(tmp_path: Path, answer: Answer, words: str, absent: bool) -> None:
    with serving(answer) as (url, _):
        error = why(DebugFiles([url], tmp_path))
    assert words in str(error)
    assert error.absent is absent
    assert left(tmp_path) == []


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_files, "MAX_FILE", 1_000_000)

    def endless(request: Quiet) -> None:
        request.send_response(200)
        request.end_headers()
        with suppress(OSError):  # the reader went away
            for _ in range(100_000):
                request.wfile.write(b"x" * 65536)

    with serving(endless) as (url, _):
        assert "larger than 1 MB" in str(why(DebugFiles([url], tmp_path)))
    assert left(tmp_path) == []


def test_a_server_that_is_silent_is_asked_once_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_files, "SILENCE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        files = DebugFiles([f"http://reader:pass@127.0.0.1:{server.getsockname()[1]}"], tmp_path)
        first = why(files)
        assert "does not answer: timed out" in str(first)
        assert "pass" not in str(first)
        monkeypatch.setattr(debug_files, "_fetched", None)  # would be a TypeError
        assert str(why(files)) == str(why(files, OTHER)) == str(first)


def test_an_answer_holds_for_the_whole_run(tmp_path: Path) -> None:
    files = DebugFiles(["http://127.0.0.1:1"], tmp_path)
    assert "does not answer" in str(why(files))
    place = tmp_path / ID
    place.mkdir()
    (place / FILE).write_bytes(debug_file(ID, "f"))
    assert why(files)  # the next trial sees what this one saw
    assert DebugFiles(["http://127.0.0.1:1"], tmp_path).get(ID, NOW) == place


def test_an_interrupt_ends_the_waiting_and_what_another_process_left_does_not_count(
    tmp_path: Path,
) -> None:
    (tmp_path / ID).mkdir()
    (tmp_path / ID / "debuginfo.part").write_bytes(b"half")
    release = threading.Event()
    with serving(lambda _: release.wait(60) and None) as (url, _):
        cancel = threading.Event()
        timer = threading.Timer(0.2, cancel.set)
        timer.start()
        with pytest.raises(Cancelled):
            DebugFiles([url], tmp_path).get(ID, cancel)
        timer.join()
        release.set()
    with serving(sends(debug_file(ID, "f"))) as (url, _):
        assert DebugFiles([url], tmp_path).get(ID, NOW)
    assert left(tmp_path) == [ID, f"{ID}/{FILE}"]


def test_runs_at_the_same_time_fetch_a_file_once(tmp_path: Path) -> None:
    with serving(sends(debug_file(ID, "f"))) as (url, asked):
        found: list[Path] = []
        threads = [
            threading.Thread(target=lambda: found.append(DebugFiles([url], tmp_path).get(ID, NOW))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(asked) == 1
    assert set(found) == {tmp_path / ID}
    assert len(found) == 8


def test_the_cache_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(("old", "new", "keep")):
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_bytes(b"x" * 100)
        os.utime(tmp_path / name / FILE, (number + 1, number + 1))
    monkeypatch.setattr(debug_files, "MAX_ALL", 250)
    make_room(tmp_path, keep=tmp_path / "keep")
    assert [name for name in ("old", "new", "keep") if (tmp_path / name / FILE).exists()] == ["new", "keep"]


def test_the_servers_are_those_of_the_configuration_else_of_elfutils() -> None:
    environ = {"DEBUGINFOD_URLS": "https://a.example/ ima:enforcing https://b.example  https://a.example"}
    assert servers((), environ) == ("https://a.example", "https://b.example")
    assert servers(("https://own.example",), environ) == ("https://own.example",)
    assert servers(("none",), environ) == ()
    assert servers((), {}) == ()


@given(st.binary(max_size=200) | st.tuples(st.integers(0, 600), st.binary(min_size=1, max_size=16)))
def test_no_file_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, change: bytes | tuple[int, bytes]) -> None:
    whole = debug_file(ID, "f")
    data = change if isinstance(change, bytes) else whole[: change[0]] + change[1] + whole[change[0] + len(change[1]) :]
    place = tmp_path_factory.getbasetemp() / "any.elf"
    place.write_bytes(data)
    assert has_build_id(place, OTHER) is False


@pytest.mark.skipif(not shutil.which("debuginfod"), reason="the server debuginfod of elfutils is not installed")
def test_the_server_of_elfutils_is_understood(tmp_path: Path) -> None:
    files, cached = tmp_path / "files", tmp_path / "cache"
    files.mkdir()
    (files / "lib.debug").write_bytes(debug_file(ID, "f"))
    port = free_port()
    command = ["debuginfod", "-F", "-d", str(tmp_path / "index.sqlite"), "-p", str(port), str(files)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + 60
            while True:  # it serves, and scans, in its own time
                try:
                    place = DebugFiles([f"http://127.0.0.1:{port}"], cached).get(ID, NOW)
                    break
                except NoDebugFile:
                    assert time.monotonic() < until
                    time.sleep(0.2)
            assert (place / FILE).read_bytes() == (files / "lib.debug").read_bytes()
            assert why(DebugFiles([f"http://127.0.0.1:{port}"], cached), OTHER).absent
        finally:
            server.kill()
