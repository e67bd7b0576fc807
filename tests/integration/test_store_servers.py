"""A team's store: its database on a real PostgreSQL, its files in a real S3 server, and the network to both cut."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from reprokit.cli import invoke
from reprokit.core.errors import RecordError, UsageError
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.report.html import writing
from reprokit.store import delivery, recorder, targets, upkeep
from reprokit.store.database import Store
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.files import BucketFiles
from reprokit.store.journal import pending
from reprokit.store.places import read_log
from reprokit.store.remote import folder_of
from tests.integration.test_run import User
from tests.integration.test_store import CASE
from tests.servers import (
    PostgresServer,
    free_port,
    port_of,
    postgres_programs,
    postgres_server,
    s3_server,
    tcp_proxy,
    wait_until,
)
from tests.unit.serving import Quiet
from tests.unit.store import test_store as on_sqlite
from tests.unit.store.test_archive import EXTRACT
from tests.unit.store.test_journal import END, begun, stop
from tests.unit.store.test_store import TRIAL, cell, run

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(postgres_programs() is None, reason="Debian's package postgresql is not installed"),
]
BUCKET = "reprokit-test"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    programs = postgres_programs()
    assert programs is not None
    with postgres_server(programs) as started:
        yield started


@pytest.fixture(autouse=True)
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without settings of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("PGPASSWORD", "PGPASSFILE", "REPROKIT_STORE", "REPROKIT_FILES", "REPROKIT_DATABASE", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def address(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """An empty database."""
    return server.makes(re.sub(r"\W", "_", request.node.name)[-50:])


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The address of a place in a bucket."""
    s3_host(s3, monkeypatch)
    s3fs().mkdir(BUCKET, exist_ok=True) if not s3fs().exists(BUCKET) else None
    return f"s3://{BUCKET}/{request.node.name}"


def s3_host(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def s3fs():  # type: ignore[no-untyped-def]
    import s3fs

    return s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)


def decided(folder: Path, run_id: str, number: int) -> CellRecord:
    """A decided cell, whose trial wrote a log."""
    log = f"runs/{run_id}/cell-{number}.log"
    path = folder / log
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"the log of cell {number} of {run_id}\n")
    return cell(number, verdict=Verdict.REPRODUCED, reason="so", trials=(dataclasses.replace(TRIAL, log=log),))


def numbers(store: Store, run_id: str) -> list[int]:
    return [one.number for one in store.run(run_id).cells if one.verdict is not None]


@pytest.mark.parametrize(
    "check",
    [
        on_sqlite.test_what_was_decided_is_read_back_whole_and_the_rest_is_undecided,
        on_sqlite.test_what_was_last_seen_of_a_case_is_its_newest_run,
        on_sqlite.test_a_run_is_found_by_a_unique_beginning,
        on_sqlite.test_what_the_cells_of_runs_came_to_is_read_without_the_cells,
    ],
    ids=["whole", "last", "beginning", "outlines"],
)
def test_what_holds_on_sqlite_holds_on_postgresql(
    check,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,  # type: ignore[no-untyped-def]
) -> None:
    monkeypatch.setenv("REPROKIT_DATABASE", address)
    check(tmp_path / "folder")
    Store(tmp_path / "folder").check_writable()
    assert len(Store(tmp_path / "folder").runs()) > 0
    assert not (tmp_path / "folder" / "reprokit.db").exists()


def test_texts_that_no_column_or_index_of_postgresql_takes_are_kept(address: str) -> None:
    store = Store(folder_of(address))
    huge = cell(1, case_id="c" * 3000, cell={"text": "".join(map(chr, range(500, 9000)))}, reason="a\0b \ud800")
    store.put(run("run-1", huge, cell(2)), {})
    assert store.run("run-1").cells[0].cell == huge.cell
    assert store.run("run-1").cells[0].reason == "a\ufffdb ?"
    assert store.case_keys() == ["c", "c" * 3000]


def test_a_database_takes_every_text_or_is_refused(server: PostgresServer) -> None:
    """`createdb` makes SQL_ASCII on a server whose locale is C, as in a bare container."""
    for encoding in ("SQL_ASCII", "LATIN1"):
        options = f"OWNER open ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        server.says(f"CREATE DATABASE {encoding.lower()} {options}")
    recorded = run("run-1", cell(1, reason="原因 ≠"))
    store = Store(folder_of(server.address("sql_ascii")))
    store.put(recorded, {})
    assert store.run("run-1") == recorded
    with pytest.raises(StoreError, match="has the encoding LATIN1") as raised:
        Store(folder_of(server.address("latin1")))
    assert server.address("latin1") in str(raised.value)


def test_a_database_of_an_earlier_version_is_refused_and_made_again_from_journals(
    address: str, server: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(address)
    recorder = begun(folder, "run-1", cell(1))
    recorder.decide(cell(1, trials=(TRIAL,), verdict=Verdict.REPRODUCED))
    stop(recorder)
    Store(folder).close()
    name = address.rpartition("/")[2]
    server.says("UPDATE version SET number = 5", database=name)
    with pytest.raises(StoreError, match=r"earlier reprokit \(version 5 .*createdb.*store rebuild") as refused:
        Store(folder)
    assert refused.value.trouble is Trouble.OLDER
    server.says(f'DROP DATABASE "{name}"')
    server.makes(name)
    assert invoke(["store", "rebuild", "--store", address]) == 0, capsys.readouterr().err
    assert Store(folder).run("run-1").cells[0].trials[0].exit_code == 255


WRITERS = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from tests.integration.test_store_servers import decided
from tests.unit.store.test_journal import END
from tests.unit.store.test_store import cell, run
from reprokit.store import recorder as module
from reprokit.store.remote import folder_of

module.UPDATE_SECONDS = 0.2
folder = folder_of(sys.argv[1])

def write(run_id):
    recorder = module.Recorder(folder)
    texts = [f"sha256:{number}" for number in range(12)]
    if int(run_id[-1]) % 2:
        texts.reverse()
    recorder.begin(run(run_id, *map(cell, range(1, 13))), {digest: ("c", "t", digest) for digest in texts})
    for number in range(1, 13):
        recorder.decide(decided(folder, run_id, number))
        threading.Event().wait(0.1)
    recorder.finish(**END)
    return recorder.close()

with ThreadPoolExecutor(4) as pool:
    late = [text for text in pool.map(write, sys.argv[2:]) if text]
assert not late, late
"""


def test_16_runs_of_4_hosts_write_at_once_and_nothing_is_lost_or_twice(address: str, tmp_path: Path) -> None:
    hosts = [[f"run-{host}-{number}" for number in range(4)] for host in range(4)]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITERS, address, *ids],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / ids[0]), "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for ids in hosts
    ]
    said = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 4, said
    store = Store(folder_of(address))
    every = sorted(one for ids in hosts for one in ids)
    assert sorted(one.id for one in store.runs()) == every
    for one in every:
        assert [(each.number, each.verdict, len(each.trials)) for each in store.run(one).cells] == [
            (number, Verdict.REPRODUCED, 1) for number in range(1, 13)
        ]
    assert sum(len(cells) for _, cells in store.outlines(None)) == 16 * 12
    assert store.faults() == []


def test_a_journal_that_the_database_refuses_is_in_the_way_of_no_other(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(address)
    for run_id, number in (("run-1", 1), ("run-2", 2**40), ("run-3", 3)):
        recorder = begun(folder, run_id, cell(1))
        recorder.decide(cell(number, verdict=Verdict.REPRODUCED, trials=(TRIAL,)))
        recorder.finish(**END)
        if number == 2**40:
            with pytest.raises(RecordError, match="refuses a value"):
                recorder.close()
        else:
            assert recorder.close() == ""
    assert sorted(one.id for one in Store(folder).runs()) == ["run-1", "run-3"]
    assert invoke(["store", "sync", "--store", address]) == 3
    assert "run run-2: the store's database" in capsys.readouterr().out
    assert invoke(["store", "sync", "--json", "--store", address]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (list(found["refused"]), found["not_ended"]) == (["run-2"], [])
    assert invoke(["store", "check", "--store", address]) == 3
    assert "run-2" in capsys.readouterr().out


def test_a_run_that_two_hosts_write_has_what_both_decided(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = folder_of(address)
    killed = begun(first, "run-1", cell(1), cell(2))
    killed.decide(decided(first, "run-1", 1))
    stop(killed)
    record = Store(first).run("run-1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "second"))
    second = folder_of(address)
    assert second != first
    taken = recorder.Recorder(second)
    taken.begin(dataclasses.replace(record, started_at="2026-01-01T00:00:01Z"), {})
    taken.decide(decided(second, "run-1", 2))
    taken.finish(**END)  # type: ignore[arg-type]
    assert taken.close() == ""
    assert numbers(Store(second), "run-1") == [1, 2]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert numbers(Store(first), "run-1") == [1, 2]


def test_a_database_that_is_gone_in_mid_run_gets_all_when_it_is_back(
    server: PostgresServer, address: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "UPDATE_SECONDS", 0.1)
    database = address.rpartition("/")[2]
    with tcp_proxy(server.port) as proxy:
        folder = folder_of(server.address(database, port=proxy.port), bucket)
        going = begun(folder, "run-1", *map(cell, range(1, 5)))
        going.decide(decided(folder, "run-1", 1))
        wait_until(lambda: going._journal and "run-1" in {one.id for one in Store(folder_of(address)).runs()})
        proxy.cut()
        for number in (2, 3, 4):
            going.decide(decided(folder, "run-1", number))
        wait_until(lambda: going._failed)
        going.finish(**END)  # type: ignore[arg-type]
        with pytest.raises(RecordError) as raised:
            going.close()
        assert "cannot be reached" in str(raised.value)
        assert f"kept in {folder}/runs/run-1/journal.jsonl" in str(raised.value)
        assert "`reprokit store sync`" in str(raised.value)
        assert "run-1" in pending(folder)
        with pytest.raises(UsageError, match="cannot be reached"):
            begun(folder, "run-2", cell(1))
        proxy.listen()
        assert invoke(["store", "sync", "--store", str(folder)]) == 0
        assert invoke(["store", "sync", "--store", str(folder)]) == 0
        store = Store(folder)
        assert numbers(store, "run-1") == [1, 2, 3, 4]
        assert [len(one.trials) for one in store.run("run-1").cells] == [1] * 4
        assert pending(folder) == delivery.undelivered(folder) == []
        assert invoke(["store", "check", "--store", str(folder)]) == 0


def test_files_of_one_host_are_read_on_another(
    address: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = folder_of(address, bucket)
    going = begun(first, "run-1", cell(1))
    going.decide(decided(first, "run-1", 1))
    going.finish(**END)  # type: ignore[arg-type]
    assert going.close() == ""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "second"))
    second = folder_of(address, bucket)
    assert invoke(["store", "check", "--store", str(second)]) == 0
    assert read_log(second, "runs/run-1/cell-1.log") == b"the log of cell 1 of run-1\n"
    with pytest.raises(FileNotFoundError):
        read_log(second, "runs/run-1/cell-2.log")
    Store(second).forget("run-1")
    assert s3fs().find(f"{bucket}/runs") == []


def test_files_that_the_network_keeps_back_are_delivered_later(
    address: str, s3: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "UPDATE_SECONDS", 0.1)
    look, name = s3fs(), bucket.partition("://")[2]
    assert not look.exists(name)  # it is connected, before the address is another one
    with tcp_proxy(port_of(s3)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        folder = folder_of(address, bucket)
        going = begun(folder, "run-1", cell(1), cell(2))
        going.decide(decided(folder, "run-1", 1))
        wait_until(lambda: look.exists(f"{name}/runs/run-1/cell-1.log"))
        proxy.cut()
        going.decide(decided(folder, "run-1", 2))
        going.finish(**END)  # type: ignore[arg-type]
        with pytest.raises(RecordError, match=r"(?s)the store's files, s3://.*`reprokit store sync`"):
            going.close()
        assert numbers(Store(folder), "run-1") == [1, 2]  # the database has it: the bucket alone is away
        proxy.listen()
        next_one = begun(folder, "run-2", cell(1))  # the next run delivers
        next_one.finish(**END)  # type: ignore[arg-type]
        assert next_one.close() == ""
        assert look.exists(f"{name}/runs/run-1/cell-2.log")
        assert delivery.undelivered(folder) == []


@pytest.mark.parametrize("kind", ["missing", "refused", "away"])
def test_a_bucket_that_takes_nothing_stops_a_run_before_it_begins(
    kind: str, address: str, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_host(s3, monkeypatch)
    with refusing() as refused:
        endpoint = {"missing": s3, "refused": refused, "away": f"http://127.0.0.1:{free_port()}"}[kind]
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(UsageError) as raised:
            begun(folder_of(address, "s3://no-such-bucket/x"), "run-1", cell(1))
    expected = {"missing": "does not exist", "refused": "refuses this user", "away": "cannot be used"}[kind]
    assert f"s3://no-such-bucket/x, {expected}" in str(raised.value)
    assert Store(folder_of(address)).runs() == []


class refusing:
    """An S3 server that refuses everything."""

    def __enter__(self) -> str:
        class Handler(Quiet):
            def do_GET(self) -> None:
                self.do_PUT()

            def do_HEAD(self) -> None:
                self.do_PUT()

            def do_PUT(self) -> None:
                body = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
                self.answer(403, body, Content_Length=str(len(body)))

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_report_goes_to_a_bucket_whole_or_not_at_all(
    bucket: str, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Store(tmp_path / "own").put(run("run-1", cell(1)), {})
    report = ["report", "run-1", "--format", "csv", "--store", str(tmp_path / "own"), "-o"]
    assert invoke([*report, f"{bucket}/out.csv"]) == 0
    assert invoke([*report, f"file://{tmp_path}/out.csv"]) == 0
    assert s3fs().cat_file(f"{bucket}/out.csv") == (tmp_path / "out.csv").read_bytes()
    assert s3fs().find(bucket) == [f"{bucket}/out.csv".removeprefix("s3://")]
    assert invoke([*report, "s3://reprokit-none/out.csv"]) == 2
    assert invoke([*report, bucket.rpartition("/")[0]]) == 2
    assert "write s3://BUCKET/KEY" in capsys.readouterr().err
    with tcp_proxy(port_of(s3)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        sent = contextlib.ExitStack()
        sent.enter_context(targets.sent(f"{bucket}/out.csv")).write_text("another report")
        proxy.cut()
        with pytest.raises(StoreError, match="the place of this file, s3://"):
            sent.close()
    s3_host(s3, monkeypatch)
    assert s3fs().cat_file(f"{bucket}/out.csv") == (tmp_path / "out.csv").read_bytes()


def no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_pages_go_to_a_bucket_with_what_leads_to_them_last(
    bucket: str, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "own")
    for at in (1, 2):
        store.put(run(f"run-{at}", decided(tmp_path / "own", f"run-{at}", 1)), {"sha256:1": ("c", "t", "text")})
    report = ["report", "--store", str(tmp_path / "own"), "-o"]
    monkeypatch.chdir(tmp_path)
    root = bucket.removeprefix("s3://")
    assert invoke([*report, str(tmp_path / "site")]) == 0
    assert invoke([*report, f"{bucket}/"]) == 0
    said = capsys.readouterr().out
    assert f"{bucket}/index.html: 1 case, 2 pages of cells" in said
    own = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*") if path.is_file()}
    assert {name.removeprefix(f"{root}/") for name in s3fs().find(root)} == own
    for name in own:
        assert s3fs().cat_file(f"{root}/{name}") == (tmp_path / "site" / name).read_bytes()
    kinds = {name: s3fs().info(f"{root}/{name}")["ContentType"] for name in ("index.html", "data/overview.js")}
    assert kinds == {"index.html": "text/html; charset=utf-8", "data/overview.js": "text/javascript; charset=utf-8"}

    s3fs().pipe_file(f"{root}/robots.txt", b"theirs")
    store.forget("run-1")
    assert invoke([*report, bucket]) == 0
    now = {name.removeprefix(f"{root}/") for name in s3fs().find(root)}
    assert now < {*own, "robots.txt"}  # pages of the run that is gone are gone, and what is not ours stays
    assert {"robots.txt", "index.html"} < now

    index = s3fs().cat_file(f"{root}/index.html")
    store.put(run("run-3", cell(1, case_id="another")), {})
    put = BucketFiles.put
    with tcp_proxy(port_of(s3)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")

        def cut(files: BucketFiles, path: Path, name: str, kind: str = "") -> None:
            if name == "data/overview.js":
                proxy.cut()
            put(files, path, name, kind)

        monkeypatch.setattr(BucketFiles, "put", cut)
        assert invoke([*report, bucket]) == 2
        assert f"the place of the pages, {bucket}, cannot be used" in capsys.readouterr().err
    monkeypatch.undo()
    s3_host(s3, monkeypatch)
    assert s3fs().cat_file(f"{root}/index.html") == index
    assert b"another" not in s3fs().cat_file(f"{root}/data/overview.js")
    assert invoke([*report, bucket]) == 0  # it can be done again
    assert b"another" in s3fs().cat_file(f"{root}/data/overview.js")

    s3fs().pipe_file(f"{root}-else/theirs", b"")
    for target, words in (
        (f"{bucket}-else", "holds theirs and is not a report of reprokit"),
        ("s3://reprokit-none/site", "does not exist"),
        ("s3://me@host/site", "write s3://BUCKET/PREFIX"),
        (f"{bucket}-else/theirs?versionId=1", "leave out ?versionId="),  # or their object would be gone
    ):
        assert invoke([*report, target]) == 2
        assert words in capsys.readouterr().err
    assert invoke([*report, f"{bucket}-else/theirs?versionId=1", "--format", "csv"]) == 2
    assert s3fs().exists(f"{root}-else/theirs")

    s3fs().call_s3("put_object", Bucket=BUCKET, Key=f"{root.partition('/')[2]}-new/", Body=b"")  # a console's folder
    with monkeypatch.context() as full:
        full.setattr(writing.Folder, "text", no_space)
        assert invoke([*report, f"{bucket}-new"]) == 3
        assert "the report cannot be written: No space left on device" in capsys.readouterr().err
    assert invoke([*report, f"{bucket}-new"]) == 0
    with refusing() as refused:
        monkeypatch.setenv("AWS_ENDPOINT_URL", refused)
        assert invoke([*report, bucket]) == 2
    assert "refuses this user" in capsys.readouterr().err


def test_a_bundle_is_read_from_a_bucket(
    bucket: str, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    s3fs().pipe_file(f"{bucket}/bug.tar", b"not a bundle")
    run_it = ["run", "--store", str(tmp_path / "own")]

    def refused(address: str, *words: str) -> None:
        assert invoke([*run_it, address]) == 2
        said = capsys.readouterr().err
        assert all(word in said for word in (address, *words)), said
        assert not list(tmp_path.glob("*reprokit*"))  # no copy stays

    refused(f"{bucket}/bug.tar", "copy it again")
    refused(f"{bucket}/none.tar.gz", "there is no such object in the bucket")
    refused("s3://reprokit-none/bug.tar", "there is no such object")
    refused(f"{bucket}/case.yaml", "bundles at s3://BUCKET/KEY")
    with refusing() as forbidden:
        monkeypatch.setenv("AWS_ENDPOINT_URL", forbidden)
        assert invoke([*run_it, "s3://reprokit-none/bug.tar"]) == 2
    assert "the place of this file, s3://reprokit-none, refuses this user" in capsys.readouterr().err
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    assert invoke([*run_it, f"{bucket}/bug.tar"]) == 2
    assert "cannot be used" in capsys.readouterr().err


def test_a_store_is_copied_to_a_server_and_back_and_an_interrupted_copy_goes_on(
    address: str, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    store = Store(folder)
    for name in ("run-1", "run-2", "run-3"):
        store.put(run(name, decided(folder, name, 1), cell(2)), {"sha256:1": ("c", "t", "text")}, {"answer": [name]})
    target = folder_of(address, bucket)
    interrupted = Store(target)
    monkeypatch.setattr(interrupted, "findings", Mock(side_effect=KeyboardInterrupt))  # read once a run is there
    with pytest.raises(KeyboardInterrupt):
        upkeep.copy(store, interrupted)
    assert [one.id for one in Store(target).runs()] == ["run-1"]
    monkeypatch.setenv("REPROKIT_FILES", bucket)
    assert invoke(["store", "copy", str(folder), address]) == 0
    assert "2 runs and 2 logs copied, 1 there already" in capsys.readouterr().out
    assert invoke(["store", "copy", str(folder), address]) == 0
    assert "0 runs and 0 logs copied, 3 there already" in capsys.readouterr().out
    assert invoke(["store", "copy", address, str(tmp_path / "back")]) == 0
    assert "compared by digest: 3 runs, 6 cells, 3 trials: all the same" in capsys.readouterr().out
    back = Store(tmp_path / "back")
    assert [back.run(one.id) for one in back.runs()] == [store.run(one.id) for one in store.runs()]
    assert back.findings("run-2") == {"answer": ["run-2"]}
    assert (tmp_path / "back" / "runs" / "run-3" / "cell-1.log").read_bytes() == b"the log of cell 1 of run-3\n"


def test_a_run_that_was_gone_on_with_elsewhere_is_not_overwritten_by_a_copy(address: str, tmp_path: Path) -> None:
    store, target = Store(tmp_path / "folder"), folder_of(address)
    store.put(run("run-1", cell(1)), {})
    going = begun(target, "run-1", cell(1))
    going.decide(decided(target, "run-1", 1))
    going.finish(**END)  # type: ignore[arg-type]
    assert going.close() == ""
    done = upkeep.copy(store, Store(target))
    assert "stays there" in done.problems[0]
    assert numbers(Store(target), "run-1") == [1]


def test_a_backup_of_a_server_is_a_store_in_a_folder(address: str, bucket: str, tmp_path: Path) -> None:
    folder = folder_of(address, bucket)
    going = begun(folder, "run-1", cell(1))
    going.decide(decided(folder, "run-1", 1))
    going.finish(**END)  # type: ignore[arg-type]
    assert going.close() == ""
    (folder / "runs/run-1/cell-1.log").unlink()  # as where another host wrote it
    assert invoke(["store", "backup", str(tmp_path / "backup.tar"), "--store", str(folder)]) == 0
    with tarfile.open(tmp_path / "backup.tar") as archive:
        archive.extractall(tmp_path / "restored", **EXTRACT)
    assert Store(tmp_path / "restored").run("run-1") == Store(folder).run("run-1")
    assert invoke(["store", "check", "--store", str(tmp_path / "restored")]) == 0


def test_a_database_that_cannot_be_used_is_refused_with_what_to_do(
    server: PostgresServer, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = address.rpartition("/")[2]
    Store(folder_of(address)).put(run("run-1", cell(1)), {})
    server.says("GRANT SELECT ON ALL TABLES IN SCHEMA public TO closed", database=database)

    def refused(given: str, *parts: str) -> None:
        assert invoke(["history", "--store", given]) == 2
        said = capsys.readouterr().err
        assert all(part in said for part in (*parts, given)), said
        with pytest.raises(StoreError):
            begun(folder_of(given), "run-2", cell(1))

    refused(server.address("no-such"), 'database "no-such" does not exist', "createdb")
    refused(server.address(database, port=free_port()), "cannot be reached", "Connection refused")
    refused(server.address(database, user="closed"), "no password supplied", "~/.pgpass or PGPASSWORD")
    monkeypatch.setenv("PGPASSWORD", "wrong-word")
    refused(server.address(database, user="closed"), "password authentication failed", "~/.pgpass or PGPASSWORD")
    assert "wrong-word" not in capsys.readouterr().err
    monkeypatch.setenv("PGPASSWORD", "secret-word")
    only_read = server.address(database, user="closed")
    assert invoke(["history", "--store", only_read]) == 0
    assert "run-1" in capsys.readouterr().out
    with pytest.raises(StoreError, match="no INSERT on the table runs") as raised:
        begun(folder_of(only_read), "run-2", cell(1))
    assert raised.value.trouble is Trouble.READ_ONLY
    server.says(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    with pytest.raises(StoreError, match="read-only"):
        begun(folder_of(address), "run-2", cell(1))
    server.says(f'ALTER DATABASE "{database}" RESET default_transaction_read_only')
    server.says("UPDATE version SET number = 99", database=database)
    refused(address, "was written by a newer reprokit (version 99", "upgrade reprokit")
    server.says("DROP TABLE cases", database=database)
    refused(address, "its tables are another program's")


def test_check_and_backup_of_a_server_that_is_newer_read_only_or_goes_away(
    server: PostgresServer,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = address.rpartition("/")[2]
    folder = folder_of(address)
    for name in ("run-1", "run-2"):
        Store(folder).put(run(name, decided(folder, name, 1), cell(2)), {"sha256:1": ("c", "t", "text")})
    server.says("GRANT SELECT ON ALL TABLES IN SCHEMA public TO closed", database=database)
    monkeypatch.setenv("PGPASSWORD", "secret-word")
    archive = tmp_path / "backup.tar"

    def asked(given: str, status: int, *words: str) -> None:
        """``store check`` and ``store backup`` say so, and no half of an archive stays."""
        for line in (["check"], ["backup", str(archive)]):
            assert invoke(["store", *line, "--store", given]) == (status if line == ["check"] else min(status, 2))
            printed = capsys.readouterr()
            assert all(word in printed.out + printed.err for word in words), (line, printed)
        assert archive.exists() is (status == 0)
        assert [path.name for path in tmp_path.glob(".backup*")] == []
        archive.unlink(missing_ok=True)

    reader = server.address(database, user="closed")
    asked(reader, 0)  # who may only read can do both; the logs are on the host that ran

    with tcp_proxy(server.port) as proxy:
        away = server.address(database, port=proxy.port)
        taken = Store.run

        def cut(store: Store, reference: str):  # type: ignore[no-untyped-def]
            if reference == "run-1":  # the older one: in the middle
                proxy.cut()
            return taken(store, reference)

        monkeypatch.setattr(Store, "run", cut)
        asked(away, 3, "cannot be reached")
        monkeypatch.setattr(Store, "run", taken)

    server.says("INSERT INTO cells SELECT * FROM cells LIMIT 0", database=database)
    server.says("ALTER TABLE cells DROP CONSTRAINT cells_run_id_fkey", "DELETE FROM runs", database=database)
    assert invoke(["store", "check", "--store", address]) == 3
    assert "4 rows of cells belong to nothing in runs" in capsys.readouterr().out
    server.says("UPDATE version SET number = 99", database=database)
    asked(address, 3, "was written by a newer reprokit (version 99", "upgrade reprokit")


def test_a_server_that_is_stopped_in_mid_run_leaves_every_verdict_on_record(
    server: PostgresServer, tmp_path: Path
) -> None:
    """By the command line, on the real engine."""
    address = server.makes("stopped")
    user = User(tmp_path)
    user.environment |= {"REPROKIT_STORE": address, "REPROKIT_FILES": (tmp_path / "shared").as_uri()}
    (tmp_path / "shared").mkdir()
    user.write(
        "case.yaml", CASE.replace("id: stored", "id: stored-on-a-server") % ", ".join(f'"{n}"' for n in range(24))
    )
    user.types("run", "--build-only", "case.yaml")
    process = user.starts("run", "case.yaml", "--jobs", "1")
    assert process.stdout is not None
    seen = iter(process.stdout.readline, "")
    next(line for line in seen if "[3/24]" in line)
    server.stop()
    try:
        said = "".join(seen)
        assert process.wait(timeout=300) == 3, said
    finally:
        if process.poll() is None:
            process.kill()
        server.start()
    assert "cannot be reached" in said
    assert "reprokit store sync" in said
    user.types("store", "sync")
    [case] = json.loads(user.types("show", "--json"))["cases"]
    assert [one["verdict"] for one in case["cells"]] == ["not-reproduced"] * 24
    assert "24 logs: nothing is wrong" in user.types("store", "check")
    assert len(list((tmp_path / "shared" / "runs").rglob("*.log"))) == 24
