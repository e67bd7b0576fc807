"""pip with dockerfiles/pip_before.py, and an index of old and new files for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reprokit.environment import dockerfile
from reprokit.evidence.build_failure import explain
from tests.package_index import PackageIndex, package_index, sdist, wheel

SCRIPTS = Path(dockerfile.__file__).parents[2] / "dockerfiles"
DAY = "2021-05-04T00:00:00Z"
LAST_SECOND = "2021-05-03T23:59:59.999999Z"
OLD, NEW = "2020-06-01T10:00:00.123456Z", "2024-06-01T10:00:00.123456Z"


@dataclass(frozen=True, kw_only=True)
class LimitedPip:
    """A pip with pip_before.py. ``python`` runs it; ``package`` is the folder that has it, None for its own."""

    python: str
    scratch: Path
    package: Path | None = None

    def __call__(self, index: PackageIndex, *words: str, before: str = DAY, **environ: str) -> Installed:
        """What ``pip install`` puts into a new folder."""
        folder = self.scratch / str(len(list(self.scratch.iterdir())))
        command = [str(SCRIPTS / "pip_before.py"), "install", "--no-cache-dir", "--target", str(folder / "there")]
        return self.run(folder, [*command, "--index-url", index.address, *words], before, **environ)

    def run(self, folder: Path, words: list[str], before: str = DAY, **environ: str) -> Installed:
        """What a Python with that pip leaves in a folder."""
        folder.mkdir(exist_ok=True)
        own = {"PATH": os.environ["PATH"], "HOME": str(folder), "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "1"}
        quiet = dict.fromkeys(("PIP_DISABLE_PIP_VERSION_CHECK", "PIP_NO_PYTHON_VERSION_WARNING"), "1")
        path = os.pathsep.join(filter(None, (environ.pop("PYTHONPATH", ""), str(self.package or ""))))
        done = subprocess.run(
            [self.python, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env={**own, **quiet, "REPROKIT_PIP_BEFORE": before, "PYTHONPATH": path, **environ},
        )
        modules = {path.stem: path.read_text() for path in (folder / "there").glob("*.py")}
        return Installed(status=done.returncode, output=done.stdout + done.stderr, modules=modules)


@dataclass(frozen=True, kw_only=True)
class Installed:
    """How pip ended, what it said, and the modules that it installed."""

    status: int
    output: str
    modules: dict[str, str]

    @property
    def versions(self) -> dict[str, str]:
        """The version of each."""
        return {name: text.split("'")[1] if "'" in text else text.split('"')[1] for name, text in self.modules.items()}

    @property
    def reason(self) -> str:
        """What a record says of it as a failed build."""
        return explain("RUN pip install", self.output.splitlines()).reason


@contextlib.contextmanager
def old_and_new(prefix: str = "") -> Iterator[PackageIndex]:
    """An index with old and new files. ``prefix``: how the names of its projects begin."""
    demo, dep, builder, built = (prefix + name for name in ("demo", "dep", "builder", "built"))
    made = PackageIndex()
    made.add(wheel(demo, "1.0", requires=(dep,)), OLD)
    made.add(wheel(demo, "2.0", requires=(dep,)), DAY)
    made.add(wheel(dep, "1.0"), OLD)
    made.add(wheel(dep, "1.5"), LAST_SECOND)
    made.add(wheel(dep, "2.0"), NEW)
    made.add(wheel(builder, "1.0"), OLD)
    made.add(wheel(builder, "2.0"), NEW)
    made.add(sdist(built, "1.0", builder), OLD)
    with package_index(made) as served:
        yield served
