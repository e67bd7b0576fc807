"""The trust in a case reaches its builds, trials, sources and records, and stays when a run goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from reprokit.case.cellspec import Limits, SourceSpec
from reprokit.case.read import Text
from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.cli import cli
from reprokit.core.errors import EngineError, Unsupported, UsageError
from reprokit.engine.protocol import Build, EngineInfo, Trial
from reprokit.environment.cases import load_text
from reprokit.environment.granting import RESERVE, Caps
from reprokit.environment.supply import Supply
from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import Ending, Verdict
from reprokit.evidence.records import CellRecord
from reprokit.run import loading, sources
from reprokit.run.admitting import check_run_time, grant_by_engine
from reprokit.run.approving import approve
from reprokit.run.images import image_for
from reprokit.run.invocation import load_again
from reprokit.run.plan import plan
from reprokit.run.request import Request
from reprokit.run.sources import SourceTrees
from reprokit.store.database import Store
from tests.unit.run.test_runner import CASE, Project

URL = "https://cases.example.org/toy.yaml"
GIB = 1024**3


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The toy case at an address of another host, and what was built for it."""
    found = Project(tmp_path)
    monkeypatch.setattr(loading, "fetch", lambda url: Text(path=url, text=CASE))
    return found


def levels(project: Project) -> set[Trust]:
    return {trial.trust for trial in project.engine.trials} | {cell.details.trust for cell in project.cells}


@pytest.mark.parametrize(
    ("cases", "more", "trust"),
    [
        ((URL,), {"yes": True}, Trust.STRANGER),
        ((URL,), {"reviewed": (load_text(URL, CASE).digest,)}, Trust.REVIEWED),
        (None, {}, Trust.OWN),
        (None, {"yes": True}, Trust.OWN),
        (None, {"reviewed": (load_text(URL, CASE).digest,)}, Trust.REVIEWED),
    ],
    ids=["url-yes", "url-reviewed", "file", "file-yes", "file-reviewed"],
)
def test_builds_trials_and_records_have_it(
    project: Project, cases: tuple[str, ...] | None, more: dict[str, object], trust: Trust
) -> None:
    built: list[Build] = []
    project.engine.make = built.append
    project.run(cases=cases or (str(project.case),), **more)
    assert {build.trust for build in built} == levels(project) == {trust}
    [recorded] = {cell.details.trust for cell in Store(project.folder / "store").run("last").cells}
    assert recorded is trust
    assert ("trust" in project.cells[0].details.to_json()) is (trust is not Trust.OWN)
    shown = CliRunner().invoke(cli, ["show", "last", "1", "--store", str(project.folder / "store")])
    assert (f"trust: {trust.value}" in shown.output) is (trust is not Trust.OWN)


@pytest.mark.parametrize("trust", [Trust.STRANGER, Trust.REVIEWED])
def test_a_run_that_goes_on_keeps_it(project: Project, trust: Trust) -> None:
    def gone(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        raise EngineError("gone")

    digest = load_text(URL, CASE).digest
    behave, project.engine.behave = project.engine.behave, gone
    agreed = {"yes": True} if trust is Trust.STRANGER else {"reviewed": (digest,)}
    assert project.run(cases=(URL,), **agreed) == 3
    project.engine.behave = behave
    project.engine.trials.clear()
    project.session = project.new_session()
    project.session.resume(None)
    assert levels(project) == {trust}


def test_a_level_that_a_newer_version_recorded_gets_the_least(project: Project) -> None:
    project.run(cases=(URL,), yes=True)
    store = Store(project.folder / "store")
    [digest] = {cell.case_digest for cell in project.cells}
    newer = CellDetails.from_json({"trust": "half-reviewed"}).trust
    [file] = load_again(store, store.run("last"), Request(cases=(URL,)), {digest: (URL, newer)})
    assert file.trust is Trust.STRANGER


def test_a_record_of_an_older_version_is_the_users_own() -> None:
    assert CellDetails.from_json({}).trust is Trust.OWN
    known = {"number": 1, "case_id": "x", "case_path": URL, "case_digest": "d", "cell": {}}
    assert CellRecord.from_json(known).details.trust is Trust.OWN
    assert CellRecord.from_json({**known, "details": {"trust": "stranger"}}).details.trust is Trust.STRANGER


def test_cases_of_two_levels_share_no_image(project: Project) -> None:
    [file] = [load_text("toy.yaml", CASE)]
    keys = set()
    for trust in Trust:
        task = plan([replace(file, trust=trust)], Request(cases=("toy.yaml",)))[0]
        image = image_for(task, Supply(base_source="registry"), SourceTrees(lambda _: {}, print))
        assert image.trust is trust
        keys.add(image.key)
    assert len(keys) == len(Trust)


def test_what_was_agreed_to_is_reviewed_and_what_runs_unread_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    mine, theirs = load_text("own.yaml", CASE.replace("id: toy", "id: own")), load_text(URL, CASE)
    both = [mine, theirs]
    assert [one.trust for one in approve(both, Request(cases=()), ask=lambda _: True)] == [Trust.OWN, Trust.REVIEWED]
    assert [one.trust for one in approve(both, Request(cases=(), yes=True))] == [Trust.OWN, Trust.STRANGER]
    assert f"{URL}: runs unread" in capsys.readouterr().err
    for agreed in ({"yes": True}, {"reviewed": (mine.digest, theirs.digest)}, {}):
        with pytest.raises(UsageError, match="an untrusted case, reviewed or not, needs a container engine"):
            approve(both, Request(cases=(), engine="venv", **agreed), ask=lambda _: True)  # type: ignore[arg-type]
    assert approve([mine], Request(cases=(), yes=True, engine="venv")) == [mine]
    with pytest.raises(UsageError, match=r"own\.yaml: an untrusted case"):  # a workflow's file of another's text
        approve([mine], Request(cases=(), engine="venv", reviewed=(mine.digest,)))


@pytest.mark.parametrize("option", ["datasets", "sources"])
def test_folders_of_the_configuration_are_for_cases_that_someone_read(option: str, tmp_path: Path) -> None:
    name = f"--{option.removesuffix('s')} mine"
    configured = Request(cases=(), **{option: {"mine": tmp_path}})  # type: ignore[arg-type]
    for request, given in ((configured, False), (replace(configured, named=(name,)), True)):
        of = getattr(request, f"{option}_for")
        assert of(Trust.OWN) == of(Trust.REVIEWED) == {"mine": tmp_path}
        assert of(Trust.STRANGER) == ({"mine": tmp_path} if given else {})


REFUSED_SOURCES = [
    "git@host.example:o/r.git",
    "ssh://git@host.example/o/r",
    "ssh://-oProxyCommand=touch$IFS./pwned/x",
    "git://host.example/o/r",
    "http://host.example/o/r",
    "file:///etc",
    "/etc",
    "../sibling",
    "./here",
    "~/private",
    "/proc/self/root/etc",
    "HTTP://host.example/o/r",
]


@pytest.mark.parametrize("url", REFUSED_SOURCES)
def test_sources_of_an_untrusted_case_come_over_https_alone(url: str, tmp_path: Path) -> None:
    for fetch in (sources.fetch, sources.history):
        with pytest.raises(sources.SourceError, match=r"over https:// alone; read it and give --reviewed"):
            fetch("s", SourceSpec(git=url, ref="main", path="s"), Trust.STRANGER, kept=tmp_path)
    assert not list(tmp_path.rglob("*.git"))


@pytest.mark.parametrize("trust", list(Trust))
def test_git_finds_the_users_configuration_only_for_cases_that_someone_read(
    trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text('[canary]\n\tkey = 1\n[credential]\n\thelper = "!touch pwned"\n')
    (tmp_path / ".netrc").write_text("machine host.example login canary password canary\n")
    secrets = {"SSH_AUTH_SOCK": "/canary", "GIT_CONFIG_COUNT": "1", "GIT_SSH_COMMAND": "canary", "GH_TOKEN": "canary"}
    more = {"GIT_CONFIG_KEY_0": "canary.more", "GIT_CONFIG_VALUE_0": "1", "GIT_CONFIG_PARAMETERS": "'canary.x=1'"}
    for name, value in {"HOME": str(tmp_path), **secrets, **more}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GIT_CONFIG_PARAMETERS")
    environment = sources._environment(trust)
    listed = subprocess.run(["git", "config", "--list"], env=environment, cwd="/", capture_output=True, text=True)
    everything = ALLOWANCES[trust].any_source
    assert ("canary.key=1" in listed.stdout) is ("credential.helper" in listed.stdout) is everything
    assert ("canary" in " ".join(environment.values())) is everything
    if not everything:
        assert environment["GIT_ALLOW_PROTOCOL"] == "https"
        assert environment["HOME"] != str(tmp_path)
        done = subprocess.run(
            ["git", "ls-remote", f"file://{tmp_path}"], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert "not allowed" in done.stderr
    assert not (tmp_path / "pwned").exists()


def test_an_untrusted_tree_is_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "x.py").write_text("1")
    spec = SourceSpec(git="https://host.example/o/r", ref="main", path="s")
    kept = tmp_path / "kept"
    found = {trust: sources.fetch("s", spec, trust, stand_in=tmp_path / "tree", kept=kept) for trust in Trust}
    assert len({tree.digest for tree in found.values()}) == 1
    assert len({tree.archive for tree in found.values()}) == len(Trust)


MACHINE = EngineInfo(kind="fake", name="Fake", version="1", memory=16 * GIB)
SITE = Caps(timeout=86400.0, disk=20 * GIB, build_time=7200.0)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(timeout=3601.0), r"resources\.timeout 3601 s; this host grants at most 3600 s"),
        (Limits(pids=4097), r"resources\.pids 4097; this host grants at most 4096"),
        (Limits(network="bridge"), r"resources\.network, which an untrusted case does not get"),
        (Limits(ipc="host"), r"resources\.ipc, which an untrusted case does not get"),
        (Limits(memory=9 * GIB), r"resources\.memory 9 GiB; .* at most 8 GiB"),
        (Limits(shm_size=9 * GIB), r"resources\.shm_size 9 GiB; .* at most 8 GiB"),
    ],
    ids=["timeout", "pids", "network", "ipc", "memory", "shm_size"],
)
def test_an_untrusted_case_gets_less(limits: Limits, words: str) -> None:
    for trust in (Trust.OWN, Trust.REVIEWED):
        caps = SITE.within(trust)
        assert grant_by_engine(caps.grant(limits), MACHINE, caps)
    caps = SITE.within(Trust.STRANGER)
    with pytest.raises(Unsupported, match=words):
        grant_by_engine(caps.grant(limits), MACHINE, caps)


@pytest.mark.parametrize("trust", list(Trust))
def test_only_an_untrusted_case_is_warned_that_such_cases_get_less(trust: Trust) -> None:
    with pytest.raises(Unsupported, match=r"max_timeout in the configuration") as refused:
        SITE.within(trust).grant(Limits(timeout=100_000.0))
    assert ("untrusted" in str(refused.value)) is (trust is Trust.STRANGER)


@pytest.mark.parametrize("trust", list(Trust))
def test_what_a_case_leaves_open_has_a_limit(trust: Trust) -> None:
    caps = SITE.within(trust)
    found = grant_by_engine(caps.grant(Limits()), MACHINE, caps)
    stranger = trust is Trust.STRANGER
    assert found.memory == int(16 * GIB * (0.5 if stranger else 1 - RESERVE))
    assert found.disk == (5 if stranger else 20) * GIB
    assert found.build_time == (3600.0 if stranger else 7200.0)
    assert found.timeout == Limits().timeout


def test_no_memory_limit_is_asked_of_an_engine_that_holds_none() -> None:
    rootless = replace(MACHINE, unenforced=frozenset({"memory"}))
    assert grant_by_engine(Limits(), rootless, Caps()).memory is None
    assert grant_by_engine(Limits(), replace(MACHINE, memory=0), Caps()).memory is None


def test_the_trials_of_an_untrusted_case_take_two_days_at_most() -> None:
    file = load_text("toy.yaml", CASE.replace("env: {A", "trials: 30\nenv: {A"))
    request = Request(cases=("toy.yaml",))
    check_run_time(plan([file], request), Caps())
    theirs = plan([replace(file, trust=Trust.STRANGER)], request)
    with pytest.raises(UsageError, match=r"may take more than 2880 min .* --only, or fewer trials with --trials"):
        check_run_time(theirs, Caps())
    with pytest.raises(UsageError, match="may take more than 1 min"):
        check_run_time(plan([file], request), Caps(run_time=60.0))


def test_limits_are_in_the_record(project: Project) -> None:
    info, project.engine.unenforced = project.engine.info, frozenset({"build memory"})
    project.engine.info = lambda: replace(info(), memory=16 * GIB)  # type: ignore[method-assign]
    project.run(cases=(URL,), yes=True)
    [limits] = {cell.details.limits for cell in Store(project.folder / "store").run("last").cells}
    assert limits is not None
    assert (limits.memory, limits.disk, limits.build_time) == (8 * GIB, 5 * GIB, 3600.0)
    assert project.cells[0].details.unenforced == ("build memory",)
    assert {trial.limits.disk for trial in project.engine.trials} == {5 * GIB}


def test_more_than_an_untrusted_case_gets_is_unsupported(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = CASE.replace("command:", "resources: {network: bridge}\ncommand:")
    monkeypatch.setattr(loading, "fetch", lambda url: Text(path=url, text=greedy))
    project.run(cases=(URL,), yes=True)
    assert {cell.verdict for cell in project.cells} == {Verdict.UNSUPPORTED}
    project.session = project.new_session()
    project.run(cases=(URL,), reviewed=(load_text(URL, greedy).digest,))
    assert {cell.verdict for cell in project.cells} == {Verdict.REPRODUCED, Verdict.NOT_REPRODUCED}
