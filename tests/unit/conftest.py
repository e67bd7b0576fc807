"""What every unit test gets: an environment without this machine's settings."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from reprokit.core import ownership
from reprokit.engine.site import authorities, network, pipconfig
from reprokit.store import dialects

ROOT = Path(__file__).parents[2]
KEPT = ("PATH", "TMPDIR", "UPDATE_SNAPSHOTS")
"""Variables that unit tests see as they are; UPDATE_SNAPSHOTS is the developer's own request."""


@pytest.fixture(autouse=True, scope="module")
def _no_settings_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide the machine's variables, home, pip, git and apt settings: a test passes on every machine or on none.

    For a whole module, since a fixture of a module would otherwise still see them.
    """
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - {*KEPT, *(name for name in os.environ if name.startswith("PYTEST_"))}:
            patch.delenv(name)
        bare = {"HOME": home, "LANG": "C.UTF-8", "PIP_CONFIG_FILE": os.devnull, "GIT_CONFIG_NOSYSTEM": 1}
        for name, value in bare.items():
            patch.setenv(name, str(value))
        patch.setattr(pipconfig, "SYSTEM", home / "absent")
        patch.setattr(authorities, "ANCHORS", ())
        patch.setattr(network, "APT_FILES", ())
        patch.setattr(ownership, "places", lambda: (home,))  # never folders of other processes of this machine
        yield


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The folder of a user, as the test's own module has it."""
    return request.module.Project(tmp_path)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What runs the cases in place of an engine, as the toy case has it."""
    from tests.unit.fakes import FakeEngine
    from tests.unit.run.test_runner import toy

    fake = FakeEngine(toy)
    monkeypatch.setattr("reprokit.run.invocation._engine", lambda name: fake)
    return fake


@pytest.fixture
def world() -> Iterator[Any]:
    """What the gateway of a build reaches: nothing but names."""
    from tests.unit.engine.gateway_world import World

    world = World()
    yield world
    world.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker of xdist import a share of the modules first, whose bytecode the others then find.

    In a fresh clone all of them would otherwise rewrite the asserts of all modules, in the same order at the same time.
    """
    gc.disable()  # until all is collected: nothing of it is garbage
    if not hasattr(session.config, "workerinput"):
        return
    workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    own = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    folders = (session.config.invocation_params.dir / argument for argument in session.config.args)
    paths = sorted({path for folder in folders for path in folder.rglob("test_*.py")})
    for path in paths[len(paths) * own // workers : len(paths) * (own + 1) // workers]:
        with suppress(Exception, pytest.skip.Exception):  # what is wrong with it, the collection says
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Look no more for garbage among the thousands of tests themselves."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _statements_are_compiled_once() -> Iterator[None]:
    """Let the hundreds of stores share what SQLAlchemy compiles, a quarter of what a test with a store costs."""
    compiled: dict[Any, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SQLiteDialect_pysqlite, "__eq__", lambda one, other: type(one) is type(other))
        patch.setattr(SQLiteDialect_pysqlite, "__hash__", lambda one: hash(type(one)))

        def create(address: object, **given: Any) -> object:
            return create_engine(address, **given).execution_options(compiled_cache=compiled)

        patch.setattr(dialects, "create_engine", create)
        yield
