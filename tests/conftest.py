"""Fixtures that tests against a real engine share: the engine, and an image of 2 MB made without a registry."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from reprokit.case.cellspec import FileSpec, Limits
from reprokit.core.errors import EngineError
from reprokit.core.ownership import remove_tree
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.protocol import Build, Engine, Trial
from reprokit.environment import dockerfile
from tests.private_engine import private_podman

# A shell that starts the tests in the background, or nohup, has them ignore signals, and so would the programs that
# they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
for ignored in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)

# A machine that does other things as well makes any time limit of an example a matter of luck.
hypothesis.settings.register_profile("reprokit", deadline=None)
hypothesis.settings.register_profile("quick", deadline=None, max_examples=10)  # for `make unit`
# `make test` takes the same examples each time, so that a change is blamed for nothing that it did not do.
hypothesis.settings.register_profile(
    "change",
    deadline=None,
    max_examples=25,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("nightly", deadline=None)
hypothesis.settings.load_profile("reprokit")

os.environ.pop("DEBUGINFOD_URLS", None)  # of the distribution: no test asks a server that it did not start

BROWSER = Path(__file__).parent / "browser"
LONGEST = ("test_cases.py", "test_case_from_issue.py", "test_environment_images.py", "test_build_gateway.py")
"""Files that take minutes: they start first, so that no worker is left with one at the end."""
APPLETS = tuple(
    "sh sleep cat echo ls id dd yes head grep env kill printf mkdir touch true false df nc wget tr seq tail".split()  # noqa: SIM905
)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which engines this host has for the tests, and which one it has not."""
    found = []
    try:
        about = DockerEngine().wire.about()
        found.append(f"Docker Engine {about.version}, API {about.api}")
    except EngineError as error:
        found.append(f"no Docker Engine ({str(error).splitlines()[0]})")
    podman = shutil.which("podman")
    asked = podman and subprocess.run([podman, "--version"], capture_output=True, text=True, check=False).stdout
    found.append((asked or "no Podman").strip())
    missing = config.rootpath / "build/docker29/unavailable"
    return [f"engines: {'; '.join(found)}", *([missing.read_text().strip()] if missing.exists() else [])]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the browser's tests, and put the longest files first."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    for item in items:
        if BROWSER in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.integration)


@pytest.fixture
def user(tmp_path: Path) -> Any:
    """Who types in a folder of their own, against the real engine."""
    from tests.integration.test_run import User

    return User(tmp_path)


@pytest.fixture(scope="session")
def engine() -> DockerEngine:
    """The engine of this host; tests that need one are skipped where none answers."""
    engine = DockerEngine()
    try:
        engine.info()
    except EngineError as error:
        pytest.skip(str(error))
    return engine


@contextmanager
def own_cache() -> Iterator[Path]:
    """A cache of our own."""
    folder = Path(tempfile.mkdtemp(prefix="venv-test-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder
    assert remove_tree(folder)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder with a file that every user can read."""
    with tempfile.TemporaryDirectory(prefix="shared-test-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "one").write_text("from the host")
        yield folder


@pytest.fixture(scope="session")
def podman_service() -> Iterator[str]:
    """The address of a Podman service with a storage of its own; stopped and removed afterwards."""
    with private_podman() as podman:
        yield podman.url


@pytest.fixture(scope="session")
def podman5_service() -> str:
    """The address of the service of Podman 5 that ``.ci/podman5`` runs beside the tests."""
    if address := os.environ.get("REPROKIT_TEST_PODMAN5"):
        return address
    pytest.skip("needs Podman 5: .ci/podman5 build/podman5 make test")


def _busybox(folder: Path) -> Path:
    """A statically linked busybox: the host's, or the distribution's package."""
    for path in ("/usr/bin/busybox", "/bin/busybox"):
        if Path(path).exists() and b"ld-linux" not in Path(path).read_bytes()[:4096]:
            return Path(path)
    if not shutil.which("apt-get"):
        pytest.skip("needs a static busybox")
    # Not the test's own user's business: apt may drop to its own user, who has to be able to write here.
    folder.chmod(0o777)
    got = subprocess.run(["apt-get", "download", "busybox-static"], cwd=folder, capture_output=True, check=False)
    packages = list(folder.glob("*.deb"))
    if got.returncode or not packages:
        pytest.skip("needs a static busybox; apt-get download busybox-static failed")
    subprocess.run(["dpkg", "-x", packages[0], folder / "root"], check=True)
    return next(path for path in (folder / "root").glob("**/bin/busybox") if path.is_file() and not path.is_symlink())


@pytest.fixture(scope="session")
def tiny(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The tag of an image with busybox, the user repro (1000) and /workspace; removed at the end."""
    tag = import_tiny(engine, tmp_path_factory.mktemp("tiny"))
    yield tag
    remove_image(tag)


def import_tiny(engine: Engine, folder: Path) -> str:
    """Make the image of :func:`tiny` and return its tag."""
    binary = _busybox(folder)
    tag = f"reprokit-test/tiny:{uuid.uuid4().hex[:8]}"
    archive = folder / "root.tar"
    with tarfile.open(archive, "w") as tar:

        def add(
            name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = ""
        ) -> None:
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.size, info.linkname = kind, mode, len(content), link
            info.uid = info.gid = 1000 if name in {"home/repro", "workspace"} else 0
            tar.addfile(info, io.BytesIO(content))

        for name in ("bin", "etc", "home", "home/repro", "workspace", "tmp"):
            add(name, kind=tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        add("bin/busybox", binary.read_bytes(), mode=0o755)
        for applet in APPLETS:
            add(f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
        add("etc/passwd", b"root:x:0:0::/root:/bin/sh\nrepro:x:1000:1000::/home/repro:/bin/sh\n")
        add("etc/group", b"root:x:0:\nrepro:x:1000:\n")
    engine.import_rootfs(archive, tag, {"org.reprokit.test": 'quotes " and $dollar'})
    return tag


def docker(*arguments: str) -> str:
    """Run the docker client: a second opinion on what the engine holds."""
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout


def remove_image(*tags: str) -> None:
    """Remove images that a test made."""
    subprocess.run(["docker", "rmi", "-f", *tags], capture_output=True, check=False)


def as_files(texts: Mapping[str, str | FileSpec]) -> dict[str, FileSpec]:
    """Files of a case, from texts."""
    return {path: FileSpec(text=text) if isinstance(text, str) else text for path, text in texts.items()}


def trial(image: str, script: str, **changes: object) -> Trial:
    """A trial of a shell script; keyword arguments go to Limits, but for those that a Trial has itself."""
    names = ("env", "mounts", "labels", "gpus", "workdir", "files", "outputs", "traced", "capabilities")
    own = {key: changes.pop(key) for key in names if key in changes}
    if "files" in own:
        own["files"] = as_files(own["files"])  # type: ignore[arg-type]
    limits = Limits(**{"timeout": 60.0, **changes})  # type: ignore[arg-type]
    return Trial(
        image=image,
        command=("sh", "-c", script),
        limits=limits,
        **{"env": {}, "workdir": "/workspace", **own},  # type: ignore[arg-type]
    )


def build_of(tag: str, dockerfile: str, context: dict[str, bytes | Path] | None = None) -> Build:
    """A build of that Dockerfile."""
    return Build(tag=tag, dockerfile=dockerfile, context=context or {}, labels={"org.reprokit.image": "1"})


def site_build(tag: str, base: str, script: str) -> Build:
    """A build of one step with all that steps of ours have of the site, where ``pip`` is ours."""
    step = "RUN {{ m.apt_mounts(none) }} {{ m.pip_run(none) }} {{ m.site }} . /run/reprokit/site.sh"
    text = f"FROM {base}\n{dockerfile._templates().from_string(step).render()} && {script}\n"
    folder = Path(dockerfile.__file__).parents[2] / "dockerfiles"
    names = [name for name in dockerfile.SUPPORT if f"source=reprokit/{name}," in text]
    return build_of(tag, text, {f"reprokit/{name}": (folder / name).read_bytes() for name in names})


def never() -> threading.Event:
    """A cancel event that is never set."""
    return threading.Event()
