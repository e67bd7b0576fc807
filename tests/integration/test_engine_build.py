"""Builds with BuildKit over the Engine API: secrets, caches, failures, cancellation."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.core.errors import BuildFailed, Cancelled, EngineError
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.protocol import Progress
from reprokit.engine.site import Site
from reprokit.engine.site.assembly import RELAYED
from reprokit.engine.site.gateway import SiteAccess
from tests.conftest import build_of, docker, never, remove_image, trial
from tests.engine_proxy import EngineProxy, engine_proxy
from tests.registry_server import registry_server
from tests.servers import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.engines]


@pytest.fixture
def tag() -> Iterator[str]:
    """A tag of its own, removed afterwards."""
    name = f"reprokit-test/build:{uuid.uuid4().hex[:12]}"
    yield name
    remove_image(name)


def read(engine: DockerEngine, image: str, script: str) -> str:
    out: list[bytes] = []
    engine.run(trial(image, script), out.append, never())
    return b"".join(out).decode()


def test_context_labels_and_progress(engine: DockerEngine, tiny: str, tag: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "run.sh").write_text("echo ran\n")
    (tree / "sub" / "run.sh").chmod(0o700)
    (tree / "link").symlink_to("sub/run.sh")
    steps: list[Progress] = []
    dockerfile = f"FROM {tiny}\nCOPY src /src\nCOPY one.txt /one.txt\nRUN echo counted to {tag} && cat /one.txt\n"
    built = engine.build(build_of(tag, dockerfile, {"src": tree, "one.txt": b"one\n"}), Site(), steps.append, never())
    assert built.tag == tag
    assert built.labels["org.reprokit.image"] == "1"
    assert engine.image(tag) == built
    assert read(engine, tag, "sh /src/link; ls -l /src/sub/run.sh").startswith("ran\n-rwxr-xr-x    1 root     root")
    logs = "".join(step.log for step in steps)
    assert f"counted to {tag}\none\n" in logs
    assert {step.total for step in steps if step.name.startswith("RUN")} == {4}


def test_secrets_are_read_and_do_not_stay(engine: DockerEngine, tiny: str, tag: str) -> None:
    word = uuid.uuid4().hex
    dockerfile = (
        f"FROM {tiny}\n"
        "RUN --mount=type=secret,id=conda_channel --mount=type=secret,id=netrc "
        f": {tag}; head -c 8 /run/secrets/conda_channel > /seen; ls /run/secrets >> /seen\n"
    )
    site = Site(secrets={"conda_channel": word.encode(), "unused": b"x" * 400_000})
    engine.build(build_of(tag, dockerfile), site, lambda _: None, never())
    # What is not set on this host is not mounted, and no error.
    assert read(engine, tag, "cat /seen") == word[:8] + "conda_channel\n"
    assert word not in docker("history", "--no-trunc", tag) + docker("inspect", tag)


@pytest.fixture
def proxy(engine: DockerEngine) -> Iterator[EngineProxy]:
    """A proxy in front of the engine."""
    target = Path(engine.wire.endpoint.url.removeprefix("http+").removeprefix("unix://"))
    with tempfile.TemporaryDirectory(prefix="rk-") as folder, engine_proxy(target, Path(folder)) as proxy:
        yield proxy


def test_builds_work_where_the_deprecated_session_is_gone(
    engine: DockerEngine, proxy: EngineProxy, tiny: str, tag: str
) -> None:
    big = uuid.uuid4().hex * 12_000  # more than one message carries
    dockerfile = (
        f"FROM {tiny}\nRUN --mount=type=secret,id=conda_channel : {tag}; tail -c 32 /run/secrets/conda_channel\n"
    )
    steps: list[Progress] = []
    proxy.refuse("^/session")
    newer = DockerEngine({"DOCKER_HOST": proxy.url})
    site = Site(secrets={"conda_channel": big.encode()})
    assert newer.build(build_of(tag, dockerfile), site, steps.append, never()) == engine.image(tag)
    assert big[-32:] in "".join(step.log for step in steps)
    wait_until(lambda: "gRPC" not in proxy.paths())  # the session ends with the build
    proxy.refuse("^/(session|grpc)")
    with pytest.raises(EngineError, match="no BuildKit"):
        newer.build(build_of(tag, dockerfile), site, steps.append, never())


def test_what_fails_is_an_error_where_streams_have_the_deprecated_field_no_more(
    engine: DockerEngine, proxy: EngineProxy, tiny: str, tag: str, tmp_path: Path
) -> None:
    proxy.rename(b'"error":', b'"err0r":')
    newer = DockerEngine({"DOCKER_HOST": proxy.url})
    with registry_server(tmp_path, read_only=True) as full:  # an engine with a network of its own does not reach it
        name = f"{full.address}/{tag}"
        engine.tag(tiny, name)
        try:
            with pytest.raises(EngineError):
                newer.push(name, never())
        finally:
            engine.remove_image(name)
    with pytest.raises(EngineError):
        newer.pull("registry.invalid/none:1", Trust.OWN, never())
    with pytest.raises(BuildFailed, match="exit code: 3"):
        newer.build(build_of(tag, f"FROM {tiny}\nRUN exit 3 # {tag}\n"), Site(), lambda _: None, never())
    (tmp_path / "no.tar").write_bytes(b"no archive" * 1000)
    with pytest.raises(EngineError):
        newer.load(tmp_path / "no.tar", tag)
    with pytest.raises(EngineError):
        newer.import_rootfs(tmp_path / "no.tar", tag, {})


def test_a_secret_does_not_change_the_cache_key(engine: DockerEngine, tiny: str, tag: str) -> None:
    dockerfile = f"FROM {tiny}\nRUN --mount=type=secret,id=conda_channel echo {tag} > /x\n"
    engine.build(build_of(tag, dockerfile), Site(secrets={"conda_channel": b"one"}), lambda _: None, never())
    steps: list[Progress] = []
    engine.build(build_of(tag, dockerfile), Site(secrets={"conda_channel": b"two"}), steps.append, never())
    assert any(step.cached and step.name.startswith("RUN") for step in steps)


def test_a_build_from_nothing_runs_every_step(engine: DockerEngine, tiny: str, tag: str) -> None:
    def built(*, fresh: bool) -> str:
        made = replace(build_of(tag, f"FROM {tiny}\nRUN head -c 8 /dev/urandom > /{tag[-8:]}\n"), fresh=fresh)
        return engine.build(made, Site(), lambda _: None, never()).id

    first = built(fresh=False)
    assert built(fresh=False) == first
    assert len({first, built(fresh=True), built(fresh=True)}) == 3


def test_a_proxy_of_the_site_reaches_no_step(engine: DockerEngine, tiny: str, tag: str) -> None:
    dockerfile = f"FROM {tiny}\nRUN --mount=type=secret,id=site_env echo {tag}; cat /run/secrets/site_env; env\n"
    steps: list[Progress] = []
    proxies = {"http_proxy": "http://user:pr0xypass@proxy.invalid:3128", "no_proxy": "intern"}
    engine.build(build_of(tag, dockerfile), Site(access=SiteAccess(proxies=proxies)), steps.append, never())
    logs = "".join(step.log for step in steps)
    assert f"export http_proxy={RELAYED}\n" in logs, "the step has the gateway in its place"
    assert "no_proxy=127.0.0.1,localhost,::1,intern" in logs
    assert "proxy.invalid" not in logs + docker("history", "--no-trunc", tag) + docker("inspect", tag)
    again: list[Progress] = []
    engine.build(build_of(tag, dockerfile), Site(), again.append, never())
    assert any(step.cached and step.name.startswith("RUN") for step in again)


def test_failing_step_is_named_with_its_last_lines(engine: DockerEngine, tiny: str, tag: str) -> None:
    dockerfile = f"FROM {tiny}\nRUN seq 1000; echo '{tag}: no such option'; exit 7\nRUN echo never\n"
    with pytest.raises(BuildFailed) as failed:
        engine.build(build_of(tag, dockerfile), Site(), lambda _: None, never())
    assert failed.value.step.startswith("RUN seq 1000")
    assert failed.value.tail[-1] == f"{tag}: no such option"
    assert failed.value.tail[0] == "602"
    assert len(failed.value.tail) == 400
    assert "exit code: 7" in str(failed.value)
    assert engine.image(tag) is None


@pytest.mark.parametrize("processes", [1, 4])
def test_each_build_of_a_step_that_fails_gets_what_it_printed(
    engine: DockerEngine, tiny: str, tag: str, processes: int
) -> None:
    def one(number: int) -> BuildFailed:
        # What another engine object knows is as far away as what another process does.
        runner = engine if processes == 1 else DockerEngine()
        shared = f"RUN --mount=type=bind,source=f,target=/f sleep 1; echo 'for want of {tag}'; exit 100"
        dockerfile = f"FROM {tiny}\nCOPY f /f\n{shared}\nRUN echo {number}\n"
        with pytest.raises(BuildFailed) as failed:
            runner.build(build_of(f"{tag}-{number}", dockerfile, {"f": b"x"}), Site(), lambda _: None, never())
        return failed.value

    with ThreadPoolExecutor(4) as pool:
        failures = list(pool.map(one, range(4)))
    assert [failed.tail for failed in failures] == [(f"for want of {tag}",)] * 4
    assert all(failed.step.endswith("exit 100") and not failed.reason for failed in failures)


@pytest.mark.parametrize(
    ("dockerfile", "words"),
    [("FROM {base}\nRUNN x\n", "RUNN"), ("FROM {base}\nCOPY absent /x\n", "absent"), ("FROM {base}\nADD\n", "ADD")],
)
def test_wrong_dockerfiles_are_build_failures(
    engine: DockerEngine, tiny: str, tag: str, dockerfile: str, words: str
) -> None:
    with pytest.raises(BuildFailed, match=words):
        engine.build(build_of(tag, dockerfile.format(base=tiny)), Site(), lambda _: None, never())


def test_a_base_that_is_not_available(engine: DockerEngine, tag: str) -> None:
    with pytest.raises(EngineError, match="base_images"):
        engine.build(build_of(tag, "FROM registry.invalid/none:1\n"), Site(), lambda _: None, never())


def test_cancel_stops_the_engine_too(engine: DockerEngine, tiny: str, tag: str, tmp_path: Path) -> None:
    cancel = threading.Event()
    lines: list[str] = []

    def watch(step: Progress) -> None:
        lines.append(step.log)
        if "tick" in step.log:
            cancel.set()

    dockerfile = f"FROM {tiny}\nRUN echo {tag}; echo tick; sleep 5; echo too late > /too-late\n"
    with pytest.raises(Cancelled):
        engine.build(build_of(tag, dockerfile), Site(), watch, cancel)
    time.sleep(5)
    assert engine.image(tag) is None
    steps: list[Progress] = []
    engine.build(build_of(tag, dockerfile.replace("sleep 5", "sleep 5")), Site(), steps.append, never())
    # Had the engine gone on, the step would be cached by now.
    assert not any(step.cached and step.name.startswith("RUN") for step in steps)


def test_parallel_builds_have_their_own_secrets(engine: DockerEngine, tiny: str, tag: str) -> None:
    def one(number: int) -> str:
        mine = f"{tag}-{number}"
        dockerfile = (
            f"FROM {tiny}\nRUN --mount=type=secret,id=conda_channel echo {mine}; cat /run/secrets/conda_channel > /s\n"
        )
        site = Site(secrets={"conda_channel": f"secret {number}".encode()})
        engine.build(build_of(mine, dockerfile), site, lambda _: None, never())
        return read(engine, mine, "cat /s")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(4))) == [f"secret {number}" for number in range(4)]
    remove_image(*(f"{tag}-{number}" for number in range(4)))


def test_labels_are_what_was_asked(engine: DockerEngine, tiny: str, tag: str) -> None:
    engine.build(build_of(tag, f"FROM {tiny}\n"), Site(), lambda _: None, never())
    labels = json.loads(docker("inspect", "-f", "{{json .Config.Labels}}", tag))
    assert labels == {"org.reprokit.image": "1", "org.reprokit.test": 'quotes " and $dollar'}


def test_pull_of_an_unreachable_registry(engine: DockerEngine) -> None:
    with pytest.raises(EngineError, match="does not answer"):
        engine.pull("registry.invalid/none:1", Trust.OWN, never())
