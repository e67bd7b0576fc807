"""Lock files: what is written is read again, with lines, and what is not a lock is reported with its line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.cli.display.screen import Screen
from reprokit.core.errors import Unsupported, UsageError
from reprokit.environment.lock import (
    Artefact,
    Lock,
    LockedBase,
    LockedCell,
    LockedSource,
    LockEntry,
    Pins,
    base_reference,
)
from reprokit.environment.supply import Supply
from reprokit.run import lock_file, lock_making
from reprokit.run.images import image_for
from reprokit.run.loading import load_all
from reprokit.run.lock_making import identity, stale_locks
from reprokit.run.locked_build import asked_of, hold_to_locks
from reprokit.run.plan import plan
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.run.sources import SourceTrees
from reprokit.run.task import Task

CASE = """\
schema: reprokit/v1
id: numbers
title: {title}
matrix:
  numpy: ["1.25.2", "1.26.4"]
environment:
  pip: ["numpy=={{{{ numpy }}}}"{more}]
command: python -c pass
"""


def entry(name: str = "numpy", version: str = "1.26.4", cells: tuple[LockedCell, ...] = ()) -> LockEntry:
    packages = {"libc6": "2.36-9+deb12u10", "apt": "2.6.1"}
    return LockEntry(
        image="reprokit/img:0123",
        platform="x86_64",
        cells=cells or (LockedCell(cell={"numpy": version}, variant="case", asked="sha256:00"),),
        pins=Pins(
            base=LockedBase(
                name="debian-12",
                source="bootstrap",
                reference=base_reference("debian-12", "1", packages),
                recipe="1",
                packages=packages,
            ),
            date="2026-11-21T12:00:00Z",
            apt={"python3": "3.11.2-1+b1", "ca-certificates": "20230311"},
            pip_itself=(Artefact(name="pip", version="24.0", file="pip.whl", sha256="a" * 64, size=2),),
            pip=(Artefact(name=name, version=version, file=f"{name}.whl", sha256="b" * 64, size=10**8),),
        ),
        providers={"base": "bootstrap", "python": "distribution"},
        served_by={"python": "debian-12 python3 3.11.2", "base": "bootstrap reprokit/base:debian-12"},
        sources={"tree": LockedSource(commit="c" * 40, digest="sha256:dd")},
    )


def lock(path: Path, *given: LockEntry) -> Lock:
    return Lock(path=str(path), case="numbers", version="0.1", entries=given or (entry(),))


def test_what_is_written_is_read_again_with_the_line_of_every_hash(tmp_path: Path) -> None:
    path = tmp_path / "x.lock.yaml"
    written = lock(path, entry(), entry("no", "1.10"))
    path.write_text(lock_file.dumps(written, "x.yaml"))
    read = lock_file.load(path)
    assert read == replace(written, entries=tuple(with_sorted(one) for one in written.entries))
    assert read is not None
    where = read.where(read.entries[1], "pip", "no", "hash")
    assert '"no": {version: "1.10"' in path.read_text().splitlines()[int(where.rpartition(":")[2]) - 1]


def test_what_each_step_of_pip_installs_is_written_and_read_again(tmp_path: Path) -> None:
    one = entry()
    old = replace(one.pins.pip[0], version="1.25.0", sha256="e" * 64)
    written = lock(tmp_path / "x.lock.yaml", replace(one, pins=replace(one.pins, pip_steps=((old,), ()))))
    (tmp_path / "x.lock.yaml").write_text(lock_file.dumps(written, "x.yaml"))
    read = lock_file.load(tmp_path / "x.lock.yaml")
    assert read is not None
    assert read.entries[0].pins.steps == ((old,), (), one.pins.pip)
    number = int(read.where(read.entries[0], "pip_steps", 0, "numpy", "hash").rpartition(":")[2])
    assert "1.25.0" in (tmp_path / "x.lock.yaml").read_text().splitlines()[number - 1]


def with_sorted(one: LockEntry) -> LockEntry:
    apt = dict(sorted(one.pins.apt.items()))
    return replace(one, pins=replace(one.pins, apt=apt), served_by=dict(sorted(one.served_by.items())))


def test_the_same_lock_is_the_same_text_and_one_version_is_one_line(tmp_path: Path) -> None:
    before = lock_file.dumps(lock(tmp_path, entry()), "x.yaml").splitlines()
    assert before == lock_file.dumps(lock(tmp_path, entry()), "x.yaml").splitlines()
    one = entry()
    newer = replace(one, pins=replace(one.pins, apt={**one.pins.apt, "python3": "3.11.2-2"}))
    after = lock_file.dumps(lock(tmp_path, newer), "x.yaml").splitlines()
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_versions_are_not_numbers_to_other_readers_of_yaml(tmp_path: Path) -> None:
    import yaml

    data = yaml.safe_load(lock_file.dumps(lock(tmp_path, entry(version="1.10")), "x.yaml"))
    assert data["environments"][0]["pip"]["numpy"]["version"] == "1.10"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("reprokit-lock/v1", "reprokit-lock/v9", r"x.lock.yaml:4: lock: expected reprokit-lock/v1, found"),
        ("b" * 64, "b" * 63, r"x.lock.yaml:\d+: 0.pip.numpy.hash: expected sha256: and 64 hexadecimal digits"),
        ("- image: reprokit/img:0123\n    ", "- ", r"x.lock.yaml:\d+: 0.image: this is missing"),
        ("bases:", "bases: [", r"x.lock.yaml:\d+:\d+: "),
        ("image: reprokit/img:0123", "image: ../x", r"x.lock.yaml:\d+: 0.image: expected reprokit/img: and"),
        ("3.11.2-1+b1", "3.11.2; id", r"x.lock.yaml:\d+: 0.apt.python3: expected a version, found '3.11.2; id'"),
        ('version: "1.26.4"', 'version: "1.26.4 --pre"', r"x.lock.yaml:\d+: 0.pip.numpy.version: expected a version"),
        ("c" * 40, "--upload-pack=id", r"x.lock.yaml:\d+: 0.sources.tree.commit: expected a full commit"),
        ("2026-11-21T", "yesterday", r"x.lock.yaml:\d+: 0.date: expected a date such as"),
        ("2.36-9+deb12u10", "2.36-9", r"x.lock.yaml:\d+: bases.reprokit/base:.*they were edited"),
        ("source: bootstrap", "source: image", r"x.lock.yaml:\d+: bases.reprokit/base:.*expected an image's name with"),
        (
            "source: bootstrap",
            "source: host",
            r"x.lock.yaml:\d+: bases.*source: expected bootstrap or registry or image",
        ),
        ("python: distribution", "python: nobody", r"x.lock.yaml:\d+: 0.providers: python provider 'nobody'"),
        ("base: bootstrap, ", "", r"x.lock.yaml:\d+: 0.providers.base: this is missing"),
    ],
)
def test_what_is_not_a_lock_is_reported_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "x.lock.yaml"
    text = lock_file.dumps(lock(path), "x.yaml")
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=message):
        lock_file.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x.lock.yaml:1:1: expected a mapping of keys to values, found nothing; make it again"),
        ("lock: reprokit-lock/v1\ncase: x\nreprokit: x\nenvironments: word\n", r"4: environments: expected a list"),
        ("lock: reprokit-lock/v1\ncase: x\nreprokit: x\nenvironments: [a]\n", r"4: 0.base: this is missing"),
        ("lock: reprokit-lock/v1\ncase: x\nreprokit: x\nenvironments: [{base: a}]\n", r"4: 0.image: this is missing"),
    ],
)
def test_a_file_of_another_shape_is_reported_as_not_a_lock(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.lock.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        lock_file.load(path)


def test_a_lock_lies_beside_its_case_and_is_not_a_case() -> None:
    assert lock_file.path_of("a/foo.yaml", "foo") == Path("a/foo.lock.yaml")
    assert lock_file.path_of("a/bug.md", "foo") == Path("a/bug.foo.lock.yaml")
    with pytest.raises(UsageError, match="save it to a file"):
        lock_file.path_of("<stdin>", "foo")


def planned(folder: Path) -> list[Task]:
    files = load_all([str(folder)])
    return plan(files, Request(cases=(str(folder),)))


def locked_folder(folder: Path, title: str = "Numbers") -> Path:
    case = folder / "numbers.yaml"
    case.write_text(CASE.format(title=title, more=""))
    tasks = planned(folder)
    cells = tuple(LockedCell(cell=task.cell, variant="case", asked=asked_of(task)) for task in tasks)
    beside = folder / "numbers.lock.yaml"
    made = entry(cells=cells)
    named = replace(made, image=identity(lock(beside, made), made, tasks[0], SourceTrees({}, print)))
    beside.write_text(lock_file.dumps(lock(beside, named), "numbers.yaml"))
    return case


def test_a_lock_that_makes_another_image_than_it_names_is_stale(tmp_path: Path) -> None:
    locked_folder(tmp_path)
    beside = tmp_path / "numbers.lock.yaml"
    beside.write_text(beside.read_text().replace("b" * 64, "c" * 64))
    assert len(hold_to_locks(planned(tmp_path))) == 2  # the run says which line is wrong, once it has seen the file
    [found] = stale_locks(tmp_path)
    assert re.match(r".*numbers.lock.yaml:\d+: what the lock holds makes reprokit/img:", found.reasons[0])


def test_a_cell_that_was_unsupported_is_refused_with_the_reason_until_it_changes(
    tmp_path: Path,
) -> None:
    case = locked_folder(tmp_path)
    beside = tmp_path / "numbers.lock.yaml"
    first, second = planned(tmp_path)
    one = LockedCell(cell=second.cell, variant="case", asked=asked_of(second), reason="no numpy: 1.26.4\nhere")
    old = lock_file.load(beside)
    assert old is not None
    entries = tuple(replace(each, cells=each.cells[:1]) for each in old.entries)
    beside.write_text(lock_file.dumps(replace(old, entries=entries, unsupported=(one,)), "numbers.yaml"))
    read = lock_file.load(beside)
    assert read is not None
    assert read.unsupported == (one,)
    held_first, held_second = hold_to_locks([first, second])
    assert (held_first.held is not None, held_first.refused) == (True, "")
    assert held_second.held is None
    assert re.match(r".*numbers.lock.yaml:\d+: unsupported when it was locked.*no numpy: 1.26.4", held_second.refused)
    with pytest.raises(Unsupported, match="unsupported when it was locked"):
        image_for(held_second, Supply(base_source="bootstrap"), SourceTrees({}, print))
    assert stale_locks(tmp_path) == []
    case.write_text(CASE.format(title="Numbers", more=', "six"'))
    with pytest.raises(UsageError, match=r"numpy=1.26.4 changed since it was locked"):
        hold_to_locks(planned(tmp_path))


def test_a_lock_stays_fresh_under_another_title_and_not_under_another_requirement(tmp_path: Path) -> None:
    case = locked_folder(tmp_path)
    assert len(hold_to_locks(planned(tmp_path))) == 2
    case.write_text(CASE.format(title="Another title", more=""))
    assert stale_locks(tmp_path) == []
    case.write_text(CASE.format(title="Numbers", more=', "six"'))
    with pytest.raises(UsageError, match=r"numbers.lock.yaml: the environment.*numpy=1.25.2 changed") as caught:
        hold_to_locks(planned(tmp_path))
    assert f"fix: reprokit lock {case}" in str(caught.value)
    [found] = stale_locks(tmp_path)
    assert found.path.name == "numbers.lock.yaml"
    assert len(found.reasons) == 2


def test_a_cell_that_is_not_in_the_lock_is_named(tmp_path: Path) -> None:
    case = locked_folder(tmp_path)
    case.write_text(case.read_text().replace('"1.26.4"]', '"1.26.4", "2.0.0"]'))
    with pytest.raises(UsageError, match=r"the cell numpy=2.0.0 is not in it"):
        hold_to_locks(planned(tmp_path))
    (tmp_path / "numbers.lock.yaml").unlink()
    with pytest.raises(UsageError, match=r"there is no such lock"):
        hold_to_locks(planned(tmp_path))


def test_a_lock_whose_case_is_gone_is_stale(tmp_path: Path) -> None:
    case = locked_folder(tmp_path)
    case.write_text(case.read_text().replace("id: numbers", "id: others"))
    [found] = stale_locks(tmp_path)
    assert (found.gone, "holds no case 'numbers' any more" in found.reasons[0]) == (True, True)
    case.unlink()
    [found] = stale_locks(tmp_path)
    assert (found.gone, found.reasons[0].endswith("is gone")) == (True, True)


def test_a_virtual_environment_is_not_locked(tmp_path: Path) -> None:
    request = Request(cases=(str(locked_folder(tmp_path)),), engine="venv")
    with pytest.raises(UsageError, match=r"--engine venv: a lock is of container images"):
        Session(tmp_path / "store", display=Screen()).lock(request, upgrade=True)


def test_a_folder_that_cannot_be_written_into_is_reported_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked_folder(tmp_path)
    found = lock_making.lock_requests(planned(tmp_path), upgrade=True)
    lock_making.check_folders(found)
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write into any
    with pytest.raises(UsageError, match=r"numbers.lock.yaml: cannot be written: its folder is read-only"):
        lock_making.check_folders(found)
    lock_making.check_folders(lock_making.lock_requests(planned(tmp_path), upgrade=False))


def test_a_lock_without_the_fix_says_so(tmp_path: Path) -> None:
    case = locked_folder(tmp_path)
    case.write_text(case.read_text() + "fix: {summary: Another, environment: {apt: [tree]}}\n")
    files = load_all([str(case)])
    with pytest.raises(
        UsageError, match=r"made without the fix, so the cell numpy=1.25.2 \[fix\] is not in it"
    ) as caught:
        hold_to_locks(plan(files, Request(cases=(str(case),), fix=True)))
    assert f"fix: reprokit lock {case}" in str(caught.value)
