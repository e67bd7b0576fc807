"""Locked Dockerfiles take only what the lock holds, and what a build refuses is reported with the lock's line."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from reprokit.case.trust import Trust
from reprokit.core.errors import BuildFailed, Unsupported
from reprokit.engine import bootstrap
from reprokit.engine.protocol import Engine, EngineInfo, Trial
from reprokit.environment.catalog import OURS
from reprokit.environment.dockerfile import render
from reprokit.environment.installing import index_options
from reprokit.environment.lock import Artefact, Lock, LockedBase, LockedCell, LockEntry, Pins, base_reference
from reprokit.environment.measured import Measured
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from reprokit.evidence.model import Ending
from reprokit.run import lock_file
from reprokit.run.loading import load_all
from reprokit.run.lock_making import _asked_inside, _check_providers
from reprokit.run.locked_build import base_departures as base_departures
from reprokit.run.locked_build import departures, ensure_base, explain_by_lock
from reprokit.run.plan import plan
from reprokit.run.request import Request
from tests.unit.environment.builders import cell
from tests.unit.fakes import FakeEngine

CASES = Path(__file__).parents[3] / "cases"


def artefact(name: str, version: str = "1.0", size: int = 10) -> Artefact:
    return Artefact(name=name, version=version, file=f"{name}.whl", sha256=name[0] * 64, size=size)


PINS = Pins(
    base=LockedBase(name="debian-12", source="bootstrap", reference=base_reference("debian-12", "1", {}), recipe="1"),
    date="2026-11-21T12:00:00Z",
    apt={"ca-certificates": "2023", "python3": "3.11.2"},
    pip_itself=(artefact("apip"),),
    cuda=(artefact("bcuda"),),
    cudnn=(artefact("ccudnn"),),
    pip=(artefact("dnumpy"), artefact("etorch", size=10**9)),
)


def test_what_conda_forge_serves_is_not_locked() -> None:
    axes = {"os": "ubuntu-18.04", "cuda": "10.1", "cudnn": "7.6", "python": "3.5"}
    with pytest.raises(
        Unsupported, match=r"python 3\.5\.5 and cuda 10\.1\.243 and cudnn 7\.6\.5\.32 of conda-forge are"
    ):
        _check_providers(resolve(cell(axes), Supply(base_source="registry")))
    _check_providers(resolve(cell({"cuda": "11.8", "cudnn": "8.6"}), Supply(base_source="bootstrap")))


@pytest.mark.system
def test_no_step_of_any_case_installs_what_the_lock_does_not_name() -> None:
    tasks = plan(load_all([str(CASES)]), Request(cases=(str(CASES),)))
    seen = 0
    for task in tasks:
        try:
            environment = resolve(task.spec, Supply(base_source="bootstrap"))
        except Unsupported:
            continue
        rendered = render(environment, replace(task.spec, sources={}), sources={}, given_datasets=set(), pins=PINS)
        image = rendered.dockerfile.rpartition("\nFROM ")[2]  # stages that are thrown away come before
        assert "apt-get" not in image, task.case.id
        for words in re.findall(r"pip install(.*)", image):
            assert re.search(r"--require-hashes -r /run/reprokit/\w+\.lock(?: \\)?$", words), (task.case.id, words)
        seen += 1
    assert seen > 100


def test_the_lock_travels_in_the_context_and_decides_the_identity() -> None:
    task = plan(load_all([str(CASES / "ptxas_unknown_arch.yaml")]), Request(cases=("x",)))[0]
    environment = resolve(task.spec, Supply(base_source="bootstrap"))

    def rendered(pins: Pins | None) -> tuple[dict[str, object], str]:
        one = render(environment, task.spec, sources={}, given_datasets=set(), pins=pins)
        return dict(one.context), one.tag("base")

    context, tag = rendered(PINS)
    assert context["reprokit/apt.lock"] == b"ca-certificates=2023\npython3=3.11.2\n"
    assert context["reprokit/pip_large.lock"] == f"etorch==1.0 --hash=sha256:{'e' * 64}\n".encode()
    assert context["reprokit/pip_small.lock"] == f"dnumpy==1.0 --hash=sha256:{'d' * 64}\n".encode()
    tampered = replace(PINS, cuda=(replace(PINS.cuda[0], sha256="0" * 64),))
    assert len({tag, rendered(tampered)[1], rendered(None)[1]}) == 3


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--extra-index-url", "https://x", "numpy<2"], ["--extra-index-url", "https://x"]),
        (["-r", "requirements.txt", "--pre"], ["--pre"]),
        (["--find-links=https://x", "--no-deps", "-U"], ["--find-links=https://x"]),
    ],
)
def test_of_pips_words_those_stay_that_say_where_files_come_from(words: list[str], kept: list[str]) -> None:
    assert index_options(words) == kept


def test_a_lock_installs_in_the_steps_of_the_case(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "schema: reprokit/v1\nid: x\ntitle: X\ncommand: go\nfiles: {w/setup.py: ''}\nenvironment:\n  pip:\n"
        "  - [apip, six==1.15.0, etorch]\n  - requirements: [old==1, six==1.16.0]\n"
        "    options: [--no-build-isolation, --upgrade]\n  - [./w]\n  - [last]\n"
    )
    [task] = plan(load_all([str(tmp_path / "x.yaml")]), Request(cases=("x",)))
    environment = resolve(task.spec, Supply(base_source="bootstrap"))
    six, newer = artefact("six", "1.15.0"), artefact("six", "1.16.0")
    pins = replace(
        PINS,
        pip_steps=((six, artefact("etorch", size=10**9)), (newer, artefact("old")), (artefact("brought"),)),
        pip=(artefact("last"),),
        local={"w": "0.0.0"},
    )
    made = render(environment, task.spec, sources={}, given_datasets=set(), pins=pins)
    words = [line.partition("pip install ")[2] for line in made.dockerfile.splitlines() if "&& pip install " in line]
    lock = "--no-deps --require-hashes -r /run/reprokit/"
    assert [word.removesuffix(" \\") for word in words][1:] == [
        f"{lock}pip_large.lock",
        f"{lock}pip_small.lock",
        f"--no-deps --no-build-isolation {lock.removeprefix('--no-deps ')}pip_small_2.lock",
        f"{lock}pip_small_3.lock",
        "--no-index --no-deps --no-build-isolation ./w",
        f"{lock}pip_small_4.lock",
        "--no-index --no-deps --no-build-isolation last",
    ]
    context = made.context
    assert context["reprokit/pip_small.lock"] == f"six==1.15.0 --hash=sha256:{'s' * 64}\n".encode()
    assert bytes(context["reprokit/pip_small_2.lock"]).startswith(b"six==1.16.0 ")  # type: ignore[arg-type]
    assert pins.installed["six"] == "1.16.0"
    assert pins.installed["w"] == "0.0.0"


@pytest.fixture
def locked(tmp_path: Path) -> tuple[Lock, LockEntry]:
    cells = (LockedCell(cell={}, variant="case", asked=""),)
    written = Lock(
        path="",
        case="x",
        version="0",
        entries=(
            LockEntry(
                image="reprokit/img:0", platform="amd64", cells=cells, pins=PINS, providers={"base": "bootstrap"}
            ),
        ),
    )
    path = tmp_path / "x.lock.yaml"
    path.write_text(lock_file.dumps(written, "x.yaml"))
    read = lock_file.load(path)
    assert read is not None
    return read, read.entries[0]


def line_of(lock: Lock, reason: str) -> str:
    place = re.match(re.escape(lock.path) + r":(\d+): ", reason)
    assert place, reason
    return Path(lock.path).read_text().splitlines()[int(place[1]) - 1]


def test_a_hash_that_is_not_the_files_is_reported_with_its_line(locked: tuple[Lock, LockEntry]) -> None:
    # As pip 24.0 prints it.
    tail = (
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package ...",
        "    dnumpy==1.0 from https://files.example/dnumpy.whl (from -r /run/reprokit/pip_small.lock (line 1)):",
        f"        Expected sha256 {'d' * 64}",
        f"             Got        {'9' * 64}",
    )
    found = explain_by_lock(BuildFailed("failed", step="RUN pip", tail=tail), *locked)
    assert isinstance(found, BuildFailed)
    assert "dnumpy: {version" in line_of(locked[0], found.reason)
    assert "9" * 64 in found.reason


def test_a_version_that_the_archive_no_longer_has_is_unsupported_and_says_what_to_set(
    locked: tuple[Lock, LockEntry],
) -> None:
    tail = ("E: Version '3.11.2' for 'python3' was not found", "reprokit: out of reach: http://snapshot.example/")
    found = explain_by_lock(BuildFailed("failed", tail=tail), *locked)
    assert isinstance(found, Unsupported)
    assert line_of(locked[0], str(found)).strip() == 'python3: "3.11.2"'
    assert "apt_snapshot" in str(found)
    assert "http://snapshot.example/ is out of reach" in str(found)


def test_a_file_that_the_index_no_longer_has_is_reported_with_its_line(locked: tuple[Lock, LockEntry]) -> None:
    tail = ("ERROR: No matching distribution found for etorch==1.0",)
    found = explain_by_lock(BuildFailed("failed", tail=tail), *locked)
    assert "etorch: {version" in line_of(locked[0], str(found))


def test_another_failure_stays_what_it_is(locked: tuple[Lock, LockEntry]) -> None:
    error = BuildFailed("failed", step="RUN make", tail=("make: *** [all] Error 1",))
    assert explain_by_lock(error, *locked) is error


def test_an_image_that_is_not_what_was_locked_is_reported_package_by_package(locked: tuple[Lock, LockEntry]) -> None:
    has = {"pip": {"apip": "1.0", "dnumpy": "1.1", "etorch": "1.0", "extra": "3"}, "apt": dict(PINS.apt)}
    wrong = departures(*locked, "another", Measured(packages=has))
    assert [words.partition(": ")[2].split(";")[0].split(":")[0] for words in wrong[1:]] == [
        "dnumpy is 1.1 in the image, locked 1.0",
        "extra is 3 in the image, locked without it",
    ]
    assert "what the lock holds makes another, it names reprokit/img:0" in wrong[0]
    right = {"pip": {"apip": "1.0", "dnumpy": "1.0", "etorch": "1.0"}, "apt": {**PINS.apt, "libc6": "2"}}
    assert departures(*locked, "reprokit/img:0", Measured(packages=right)) == []


def test_snapshots_are_of_the_day_of_the_lock() -> None:
    releases = OURS.releases()
    debian = bootstrap.snapshot_of(releases["debian-12"], "2026-11-21T12:34:56Z", "https://m/debian/{date}/")
    assert debian.main == "https://m/debian/20261121T123456Z/"
    assert bootstrap.snapshot_of(releases["debian-12"], "2026-11-21T12:34:56Z").security == (
        "http://snapshot.debian.org/archive/debian-security/20261121T123456Z/"
    )
    ubuntu = next(one for name, one in releases.items() if name.startswith("ubuntu"))
    there = bootstrap.snapshot_of(ubuntu, "2026-11-21T12:34:56Z", "https://m/debian/{date}/")
    assert there.main == there.security == "https://snapshot.ubuntu.com/ubuntu/20261121T123456Z/"


def test_a_base_that_departs_is_identified_by_package() -> None:
    words = base_departures({"apt": "1", "bash": "2"}, {"apt": "1", "bash": "3", "zsh": "5"})
    assert words == "bash is 3, locked 2, zsh is 5, locked without it"


def test_a_lock_of_another_processor_architecture_is_unsupported(locked: tuple[Lock, LockEntry]) -> None:
    class Other:
        def info(self) -> EngineInfo:
            return EngineInfo(kind="docker", name="Docker", version="1", architecture="arm64")

    with pytest.raises(Unsupported, match="made on amd64, and this engine is of arm64"):
        ensure_base(
            cast(Engine, Other()), locked[1], lambda image: {}, Trust.OWN, threading.Event(), lambda progress: None
        )


def test_two_that_lock_one_cell_at_a_time_do_not_remove_each_others_images() -> None:
    engine = FakeEngine()

    def take() -> None:
        assert _asked_inside(engine, "reprokit/img:1", {}, threading.Event(), lambda _: None) == {"refused": []}

    def printing(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if len(engine.trials) == 1:
            own = trial.image.removeprefix("sha256:")
            take()  # another process, from beginning to end
            assert own in engine.built
        sink(b'{"refused": []}')
        return Ending(exit_code=0)

    engine.behave = printing
    take()
    assert engine.built == []
