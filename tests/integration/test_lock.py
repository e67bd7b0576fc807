"""``reprokit lock`` and ``--locked`` as a user types them, on the real engine."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest

from reprokit.store.journal import line_of
from tests.integration.test_run import User

pytestmark = pytest.mark.integration
CASE = """\
schema: reprokit/v1
id: lock-six
title: Six has a version
matrix:
  six: ["1.16.0"]
environment:
  apt: [tree]
  pip: ["six=={{ six }}"]
  setup: python -c 'import six; print(six.__version__)' > /version
command: tree --version && grep 1.15 /version
expect:
  failure: {exit_code: 1}
  reproduces: all
"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    someone = User(tmp_path)
    someone.write("six.yaml", CASE)
    yield someone
    remove(set(re.findall(r"reprokit/img:[0-9a-f]{32}", (tmp_path / "seen.txt").read_text())))


def remove(tags: set[str]) -> None:
    client = docker.from_env()
    for tag in tags:
        with contextlib.suppress(docker.errors.APIError):
            client.images.remove(tag)
    client.close()


def images(user: User) -> dict[str, Any]:
    found = {cell["cell"]["six"]: cell["image"] for cell in user.cells()}
    with (user.folder / "seen.txt").open("a") as seen:
        seen.write(" ".join(image["tag"] for image in found.values() if image))
    return found


def test_a_locked_run_builds_what_was_locked_and_refuses_a_hash_or_a_case_that_changed(user: User) -> None:
    lock = user.folder / "six.lock.yaml"
    user.types("lock", "six.yaml")
    assert "six.lock.yaml is not used" in user.types("run", "six.yaml")
    unlocked = images(user)
    text = lock.read_text()
    assert "reprokit lock" in text.splitlines()[0]
    assert len(re.findall(r'six: \{version: "1.16.0", hash: sha256:[0-9a-f]{64}', text)) == 1
    assert re.search(r'^      tree: "', text, re.M)

    # Built from the lock, with the identity that the lock names; again when the image is gone.
    user.types("run", "six.yaml", "--locked")
    locked = images(user)
    assert {image["tag"] for image in locked.values()} == set(re.findall(r"image: (\S+)", text))
    assert not {image["tag"] for image in locked.values()} & {image["tag"] for image in unlocked.values()}
    remove({image["tag"] for image in locked.values()})
    user.types("run", "six.yaml", "--locked")
    assert {one["tag"] for one in images(user).values()} == {one["tag"] for one in locked.values()}
    assert all(one["built"] for one in images(user).values())
    assert "the environments are the same" in user.types("diff", "last:1", "last:1")

    # A fresh lock stays as it is.
    assert "fresh" in user.types("lock", "six.yaml")
    assert lock.read_text() == text

    # One tampered hash is refused with its line, before anything runs from it.
    number, line = next((n, x) for n, x in enumerate(text.splitlines(), 1) if 'six: {version: "1.16.0"' in x)
    lock.write_text(text.replace(line, line.replace("hash: sha256:8", "hash: sha256:9")))
    said = user.types("run", "six.yaml", "--locked", status=3)
    assert f"build-failed: six.lock.yaml:{number}: the sha256 of six 1.16.0" in said
    lock.write_text(text.replace('      tree: "', '      tree: "0.0.'))
    said = user.types("run", "six.yaml", "--locked", status=3)
    assert re.search(r"unsupported.*: six.lock.yaml:\d+: the archive no longer has tree 0.0.", said)
    lock.write_text(text)

    # A case that asks for something else than was locked is refused before anything is run.
    user.write("six.yaml", CASE.replace("apt: [tree]", "apt: [tree, file]"))
    said = user.types("run", "six.yaml", "--locked", status=2)
    assert "six.lock.yaml: the environment, sources or files of the cell six=1.16.0 changed" in said
    assert "stale" in user.types("lock", "six.yaml", "--check", status=1)
    # Its title is not what was locked.
    user.write("six.yaml", CASE.replace("Six has a version", "Another title"))
    user.types("lock", "six.yaml", "--check")


STEPS = """\
schema: reprokit/v1
id: lock-steps
title: A package is built with what an earlier step installs
files:
  built/setup.py: |
    import six, setuptools
    setuptools.setup(name="built", version=six.__version__, py_modules=[])
environment:
  pip:
  - [setuptools, wheel, six==1.15.0]
  - {requirements: [docopt==0.6.2, six==1.16.0], options: [--no-build-isolation]}
  - {requirements: [./built], options: [--no-build-isolation]}
command: python -c 'import docopt, six; from importlib.metadata import version as v; print(six.__version__, v("built"))'
expect: {reproduces: none}
fix:
  summary: Another version
  environment: {pip: [six==1.17.0]}
  command: python -c 'import six; assert six.__version__ == "1.17.0"'
"""


@pytest.mark.nightly
def test_steps_of_pip_and_the_fix_are_locked_and_installed_in_their_order(user: User) -> None:
    user.write("steps.yaml", STEPS)
    said = user.types("lock", "steps.yaml")
    assert "steps.lock.yaml: 2 environments, 2 cells" in said
    text = (user.folder / "steps.lock.yaml").read_text()
    (user.folder / "seen.txt").write_text(text)
    first, second = re.search(r"\n    pip_steps:\n(.*?)\n    [a-z]", text, re.S)[1].split("\n      - ")  # type: ignore[index]
    assert "1.15.0" in first
    assert re.search(r'docopt: \{version: "0.6.2".*six: \{version: "1.16.0"', second, re.S)
    user.types("run", "steps.yaml", "--locked", "--fix")
    assert {(cell["variant"], cell["verdict"]) for cell in user.cells()} == {
        ("case", "not-reproduced"),
        ("fix", "not-reproduced"),
    }
    assert {cell["image"]["tag"] for cell in user.cells()} == set(re.findall(r"image: (\S+)", text))
    assert "1.16.0 1.16.0" in user.types("show", "last", "1")


POISON = """\
schema: reprokit/v1
id: lock-poison
title: Leaves what a later build might take
matrix:
  six: ["1.16.0"]
environment:
  apt: [tree]
  pip: ["six=={{ six }}"]
  setup: |
    for folder in /root/.cache/pip /root/.cache /var/cache/apt/archives /var/lib/apt/lists /run/reprokit /tmp; do
      mkdir -p $folder && echo pwned > $folder/pwned || true
    done
    six=$(python -c 'import six; print(six.__file__)')
    echo '__version__ = "pwned"' >> $six
    pip wheel --no-deps --no-index -w /root/.cache/pip . 2> /dev/null || true
    cp $six /root/.cache/pip/six.py
command: |
  python -c 'import six; print(six.__version__); assert six.__version__ == "pwned"'
expect:
  failure: {exit_code: 1}
  reproduces: none
"""


def test_what_the_build_of_another_case_left_reaches_no_locked_build(user: User) -> None:
    look = 'test -z "$(find / -xdev -name pwned 2> /dev/null)" || exit 9; grep 1.15 /version || exit 7'
    honest = CASE.replace("lock-six", "lock-honest").replace("tree --version && grep 1.15 /version", look)
    user.write("six.yaml", honest.replace("exit_code: 1", "exit_code: 7"))
    user.write("poison.yaml", POISON)
    user.types("lock", "six.yaml")
    user.types("run", "poison.yaml")
    images(user)
    locked = user.types("run", "six.yaml", "--locked")
    assert all(image["built"] for image in images(user).values())
    assert "1 reproduced" in locked, "six is 1.16.0 in it, and nothing of the other case is there"


def test_what_a_foreign_store_or_lock_says_of_an_image_reaches_no_locked_build(user: User, tmp_path: Path) -> None:
    other = User(tmp_path / "other")
    other.folder.mkdir()
    honest = CASE.replace("lock-six", "lock-forged").replace("tree --version && grep 1.15", "grep pwned")
    user.write("six.yaml", honest)
    user.types("lock", "six.yaml")
    [tag] = re.findall(r"image: (\S+)", (user.folder / "six.lock.yaml").read_text())
    other.write("poison.yaml", POISON.replace("lock-poison", "lock-forged"))
    other.types("lock", "poison.yaml")
    lock = other.folder / "poison.lock.yaml"
    [own] = re.findall(r"image: (\S+)", lock.read_text())
    lock.write_text(lock.read_text().replace(own, tag))
    other.types("run", "poison.yaml", "--locked", status=3)
    assert not other.cells()[0]["image"] or other.cells()[0]["image"]["tag"] != tag
    lock.write_text(lock.read_text().replace(tag, own))
    other.types("run", "poison.yaml", "--locked")
    images(other)
    for path in (other.folder / "store").glob("runs/*/journal.jsonl"):
        lines = [json.loads(line.replace(own, tag)) for line in path.read_text().splitlines()]
        assert [line.pop("crc32") for line in lines]
        path.write_bytes(b"".join(line_of(line.pop("kind"), **line) for line in lines))
        assert tag in path.read_text()
    user.types("store", "merge", str(other.folder / "store"))
    locked = user.types("run", "six.yaml", "--locked")
    assert all(image["built"] for image in images(user).values())
    assert "1 reproduced" in locked, "nothing of the other case is in the image"
