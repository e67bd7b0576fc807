"""Machines that share nothing but a registry, a PostgreSQL and a bucket: one history, and no image built twice."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.evidence.records import RunRecord
from reprokit.store.database import Store
from reprokit.store.places import read_log
from reprokit.store.remote import folder_of
from tests.integration.test_run import User
from tests.integration.test_sharing import Machines
from tests.integration.test_store_servers import s3fs
from tests.registry_server import Registry, registry_server
from tests.servers import PostgresServer, postgres_programs, postgres_server, s3_server, tcp_proxy, wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not shutil.which("docker-registry"), reason="docker-registry is not installed"),
    pytest.mark.skipif(postgres_programs() is None, reason="Debian's package postgresql is not installed"),
]
BUCKET = "reprokit-machines"


class Team(Machines):
    """Machines with one history. Each has folders of its own for all that is not on a server.

    This process reads what they recorded as one more machine does.
    """

    def __init__(self, folder: Path, registry: str, database: str, s3: str) -> None:
        super().__init__(folder, registry)
        self.database = database
        self.servers = {
            "REPROKIT_STORE": database,
            "REPROKIT_FILES": f"s3://{BUCKET}/{self.case_id}",
            "AWS_ENDPOINT_URL": s3,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def machine(self, name: str, engine: str = "docker", **environment: str) -> User:
        home = self._folder / name
        own = {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
        return super().machine(name, engine, **own, **self.servers, **environment)

    def ends(self, process: subprocess.Popen[str], status: int = 0) -> None:
        said, _ = process.communicate(timeout=600)
        assert process.returncode == status, said

    @property
    def folder(self) -> Path:
        return folder_of(self.database, self.servers["REPROKIT_FILES"])

    def recorded(self) -> list[RunRecord]:
        """The runs of all machines, the oldest first."""
        with contextlib.closing(Store(self.folder)) as store:
            found = [store.run(run.id) for run in reversed(store.runs())]
        self.tags |= {cell.image.tag for run in found for cell in run.cells if cell.image}
        return found

    def made(self, run: RunRecord) -> str:
        """What the build of the image wrote in which a run's first trial ran, and no other build writes."""
        return read_log(self.folder, run.cells[0].trials[0].log).decode()


class HeldPushes:
    """What a proxy before a registry sees: ``held`` is set when an image is pushed, which waits for ``passed``."""

    def __init__(self) -> None:
        self.held, self.passed = threading.Event(), threading.Event()

    def __call__(self, data: bytes) -> None:
        if b"POST /v2/team/own/" in data:
            self.held.set()
            self.passed.wait(600)


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    programs = postgres_programs()
    assert programs is not None
    with postgres_server(programs) as started:
        yield started


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with registry_server(tmp_path / "registry") as found:
        yield found


@pytest.fixture
def team(
    tmp_path: Path, database: PostgresServer, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Team]:
    with s3_server() as s3:
        found = Team(tmp_path, registry.address, database.makes(f"team-{uuid.uuid4().hex}"), s3)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "reader"))
        for name, value in found.servers.items():
            monkeypatch.setenv(name, value)
        if not s3fs().exists(BUCKET):
            s3fs().mkdir(BUCKET)
        yield found
        found.forget()


def created(image: str, *host: str) -> str:
    """When an image was built, as the engine has it."""
    words = ["docker", *host, "image", "inspect", "-f", "{{.Id}} {{.Created}}", image]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    return said.removeprefix("sha256:")[:90]


def verdicts(run: RunRecord) -> list[str]:
    return [str(cell.verdict) for cell in run.cells]


def built(run: RunRecord) -> list[tuple[bool, bool]]:
    """Of each cell's image, whether it was built and whether it was fetched."""
    return [(cell.image.built, cell.image.fetched) for cell in run.cells if cell.image]


def test_a_second_machine_builds_nothing_and_both_have_one_history(
    team: Team, podman_service: str, capsys: pytest.CaptureFixture[str]
) -> None:
    team.machine("one").types("run", "case.yaml")
    team.machine("two", "podman", CONTAINER_HOST=podman_service).types("run", "case.yaml")
    first, second = team.recorded()
    assert (first.engine, second.engine) == ("docker", "podman")
    assert (built(first), built(second)) == ([(True, False)] * 2, [(False, True)] * 2)
    assert verdicts(first) == verdicts(second) == ["not-reproduced", "reproduced"]
    made = team.made(first)
    assert team.made(second) == made
    (tag,) = team.tags
    assert created(tag, "-H", podman_service) == created(tag)  # by the engine's own word, nothing was built there

    team.forget()
    three = team.machine("three")
    three.types("run", "case.yaml", "--reuse")
    *_, third = team.recorded()
    assert [cell.reused_from for cell in third.cells] == [f"{first.id}:1", f"{first.id}:2"]
    assert team.made(third) == made  # a log of its own, by way of the bucket
    assert built(third) == [(False, False)] * 2
    three.write("case.yaml", (three.folder / "case.yaml").read_text().replace("}} = good", "}} = neither"))
    three.types("run", "case.yaml", "--reuse", status=1)
    *_, last = team.recorded()
    assert (verdicts(last), built(last)) == (["reproduced"] * 2, [(False, True)] * 2)
    assert [cell.reused_from for cell in last.cells] == [None] * 2  # it is another text of the case

    assert invoke(["history", team.case_id, "--json"]) == 0
    history = json.loads(capsys.readouterr().out)["cells"]
    assert [(cell["engine"], cell["cell"]["how"], len(cell["results"])) for cell in history] == [
        ("docker", "good", 2),
        ("docker", "bad", 2),
        ("podman", "good", 1),
        ("podman", "bad", 1),
    ]
    assert invoke(["history", "--since", "7d", "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)
    found = [change for change in changes["changes"] if change["before"]]
    assert [(one["cell"]["how"], one["engine"], one["words"]) for one in found] == [
        ("good", "docker", "not reproducing -> reproducing")
    ]
    assert invoke(["store", "check"]) == 0


@pytest.mark.nightly
def test_machines_that_are_killed_or_build_the_same_at_once_cost_the_others_nothing(
    team: Team, database: PostgresServer, registry: Registry, podman_service: str
) -> None:
    import psycopg

    port = int(registry.address.rpartition(":")[2])
    with contextlib.ExitStack() as held:
        pushes = HeldPushes(), HeldPushes()
        for one in pushes:
            held.callback(one.passed.set)
        proxies = [held.enter_context(tcp_proxy(port, one)) for one in pushes]
        shares = [{"REPROKIT_REGISTRY_IMAGES": f"127.0.0.1:{one.port}/team"} for one in proxies]
        one = team.machine("one", **shares[0])
        two = team.machine("two", "podman", CONTAINER_HOST=podman_service, **shares[1])
        assert team.recorded() == []  # which makes the tables
        with psycopg.connect(team.database) as connection:
            connection.execute("LOCK TABLE cells IN SHARE ROW EXCLUSIVE MODE")
            killed = one.starts("run", "case.yaml")
            try:
                assert pushes[0].held.wait(300)
                waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = '{}'"
                wait_until(lambda: database.says(waiting.format(team.database.rpartition("/")[2])) != "0", 300)
            finally:
                killed.kill()
                killed.communicate()
        assert team.recorded() == []  # of the transaction that was cut off there is nothing

        proxies[0].cut()  # else Docker would go on with the push that no one waits for any more
        proxies[0].listen()
        pushes[0].held.clear()
        both = two.starts("run", "case.yaml"), one.starts("run", "case.yaml")
        assert all(each.held.wait(300) for each in pushes)  # each has an image of its own, and the registry none
        for each in pushes:
            each.passed.set()
        for process in both:
            team.ends(process)
    lost, *found = team.recorded()
    assert lost.exit_status is None  # what was in the journal of the killed one was delivered by the next run there
    assert [verdicts(run) for run in found] == [["not-reproduced", "reproduced"]] * 2
    mine, theirs = (next(run for run in found if run.engine == kind) for kind in ("docker", "podman"))
    assert (built(mine), built(theirs)) == ([(False, False)] * 2, [(True, False)] * 2)
    assert team.made(mine) != team.made(theirs)

    team.forget()
    team.machine("three").types("run", "case.yaml")
    *_, last = team.recorded()
    assert built(last) == [(False, True)] * 2
    assert team.made(last) in (team.made(mine), team.made(theirs))
    assert invoke(["store", "check"]) == 0
