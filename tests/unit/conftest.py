"""What every unit test gets: an environment without this machine's settings, and a recorder that starts no process."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.engine.site import authorities, network, pipconfig
from reprokit.store import recorder

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
        yield


class _RecorderThread:
    """Takes the place of the recorder's process: the same work on the same pipes, without starting a Python."""

    def __init__(self, words: Sequence[str], **_: Any) -> None:
        (calls, stdin), (stdout, answers) = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        threading.Thread(target=self._work, args=(Path(words[-1]), calls, answers), daemon=True).start()

    @staticmethod
    def _work(folder: Path, calls: int, answers: int) -> None:
        def say(text: str) -> None:
            with contextlib.suppress(BrokenPipeError):  # its reader may be gone
                os.write(answers, f"{text}\n".encode())

        with os.fdopen(calls, "rb") as reader:
            recorder.work(folder, reader, say)
        os.close(answers)


@pytest.fixture(autouse=True)
def _recording_in_a_thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each run of a fake engine the start of a Python; tests marked ``system`` have the recorder's process."""
    if request.node.get_closest_marker("system") is None:
        monkeypatch.setattr(recorder, "subprocess", SimpleNamespace(Popen=_RecorderThread, PIPE=-1))
