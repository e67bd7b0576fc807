"""``--engine venv`` on this host: verdicts, the limits that are promised, what programs find, and what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import venv
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from reprokit.case.cellspec import Limits
from reprokit.core.errors import EngineError, Unsupported
from reprokit.engine.protocol import Mount, Trial
from reprokit.engine.venv import environments, trials
from reprokit.engine.venv.engine import VenvEngine
from reprokit.evidence.model import Ending
from tests.conftest import as_files, own_cache
from tests.integration.test_run import User
from tests.servers import wait_until
from tests.unit.engine.test_venv_host_packages import install

pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: {id}
title: A case for virtual environments
matrix: {{how: [good, bad]}}
files:
  go.py: |
    import os, sys
    print("in", os.getcwd())
    if sys.argv[1] == "bad":
        raise ValueError("singular U")
command: python go.py {{{{ how }}}}
expect:
  failure: {{exception: ValueError, message: singular}}
  reproduces: [{{how: bad}}]
"""


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    with own_cache() as folder:
        yield folder


@pytest.fixture
def user(cache: Path, tmp_path: Path) -> User:
    (tmp_path / "case.yaml").write_text(CASE.format(id="venv-case"))
    return User(tmp_path)


@pytest.fixture(scope="module")
def kept(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> environments.KeptVenv:
    """An environment with nothing but its Python."""
    user = User(tmp_path_factory.mktemp("kept"))
    user.write("case.yaml", CASE.format(id="kept"))
    user.types("run", "--build-only", "case.yaml", "--engine", "venv")
    (tag,) = [one.key for one in environments.list_kept() if one.key.startswith("reprokit/venv:")]
    found = environments.find(tag)
    assert found is not None
    return found


def run(
    kept: environments.KeptVenv,
    script: str,
    output: list[bytes] | None = None,
    cancel: threading.Event | None = None,
    mounts: tuple[Mount, ...] = (),
    **limits: object,
) -> Ending:
    trial = Trial(
        image=kept.description["tag"],
        command=("bash", "-c", script),
        env={"WORD": "two words"},
        workdir="/workspace",
        limits=Limits(**{"timeout": 30.0, **limits}),  # type: ignore[arg-type]
        files=as_files({"sub/tool.sh": "#!/bin/sh\necho tool\n"}),
        mounts=mounts,
    )
    sink = (output if output is not None else []).append
    return trials.run(trial, kept, sink, cancel or threading.Event(), nullcontext())


def running(word: str) -> list[str]:
    """Processes of this host whose command line has that word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def left() -> list[str]:
    """Folders of trials of this process: others belong to tests beside this one, or to an engine that it has open."""
    return [str(path) for path in Path(tempfile.gettempdir()).glob(f"reprokit-*-{os.getpid()}-*-trial-*")]


def test_a_case_reproduces_where_it_should_and_is_made_once(user: User) -> None:
    user.types("run", "case.yaml", "--engine", "venv")
    first = user.cells()
    assert [cell["verdict"] for cell in first] == ["not-reproduced", "reproduced"]
    assert first[0]["environment"]["python"] == first[0]["details"]["served_by"]["python"].split()[-1]
    assert user.result()["host"]["engine"].startswith("venv (")
    user.types("run", "case.yaml", "--engine", "venv")
    assert [cell["image"]["built"] for cell in user.cells()] == [False, False]
    assert "the network was not cut off" in " ".join(user.cells()[0]["details"]["notes"])
    assert "cpus" in user.cells()[0]["details"]["unenforced"]
    assert "[venv]" in user.types("history")
    line = user.types("show", "last", "2", "--repeat")
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert "ValueError: singular U" in done.stderr


def test_what_the_host_is_not_is_unsupported_and_nothing_is_made(user: User) -> None:
    there = len(list((environments.top() / "environments").glob("*")))
    shown = user.types("run", "case.yaml", "--engine", "venv", "--os", "ubuntu-10.04", status=3)
    assert "os ubuntu-10.04: this host is" in shown
    assert len(list((environments.top() / "environments").glob("*"))) == there


def test_no_file_of_a_case_is_written_behind_a_link_out_of_its_work_folder(
    kept: environments.KeptVenv, tmp_path: Path
) -> None:
    (kept.folder / "workspace" / "sub").symlink_to(tmp_path)
    try:
        with pytest.raises(Unsupported, match=r"sub/tool\.sh .* behind a link"):
            run(kept, "true")
    finally:
        (kept.folder / "workspace" / "sub").unlink()
    assert list(tmp_path.iterdir()) == []
    assert left() == []


def test_a_trial_has_a_home_of_its_own_and_no_variable_of_this_host(
    kept: environments.KeptVenv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "of this host")
    output: list[bytes] = []
    run(kept, "touch ~/mine $TMPDIR/mine && ls -A ~ && env", output)
    first, *variables = b"".join(output).decode().splitlines()
    assert first == "mine"
    names = {line.partition("=")[0] for line in variables} - {"_", "PWD", "SHLVL", "OLDPWD"}
    assert names == {"CUDA_VISIBLE_DEVICES", "HOME", "LANG", "PATH", "TMPDIR", "VIRTUAL_ENV", "WORD"}
    assert os.environ["HOME"] not in "\n".join(variables)
    assert left() == []


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_trial_cannot_install_into_its_environment(kept: environments.KeptVenv) -> None:
    assert run(kept, "touch $VIRTUAL_ENV/bin/mine").exit_code != 0


def test_the_memory_of_all_that_a_trial_starts_is_limited(kept: environments.KeptVenv) -> None:
    grow = "python -c 'import time; x = bytearray(90 << 20); time.sleep(30)'"
    ending = run(kept, f"{grow} & {grow} & wait -n", memory=150 << 20, timeout=60.0)
    assert (ending.oom, ending.timed_out, ending.exit_code) == (True, False, 137)
    assert not run(kept, "python -c 'bytearray(90 << 20)'", memory=150 << 20).oom


def test_at_the_time_limit_everything_ends_that_was_started(kept: environments.KeptVenv) -> None:
    output: list[bytes] = []
    script = "trap 'echo got TERM' TERM; (setsid bash -c 'trap \"\" TERM; (sleep 98765 &); sleep 98765' &)"
    ending = run(kept, f"{script}; while true; do sleep 0.2; done", output, timeout=2.0)
    assert ending.timed_out
    assert ending.exit_code == 128 + signal.SIGKILL
    assert b"got TERM" in b"".join(output)
    assert running("98765") == []
    assert left() == []


def test_what_a_program_leaves_running_ends_with_it(kept: environments.KeptVenv) -> None:
    assert run(kept, "(setsid sleep 98764 &) ; sleep 0.2").exit_code == 0
    assert running("98764") == []


def test_a_program_that_kills_what_watches_it_is_ended_and_proves_nothing(kept: environments.KeptVenv) -> None:
    with pytest.raises(EngineError, match="the process that watches a program on this host was killed"):
        run(kept, "(sleep 98763 &); kill -9 $PPID; exec sleep 98763")
    wait_until(lambda: running("98763") == [])  # the kernel of a busy host takes its time
    assert left() == []


def test_what_cannot_be_executed_ends_as_in_a_shell(kept: environments.KeptVenv) -> None:
    def ends(program: str) -> tuple[int, bytes]:
        output: list[bytes] = []
        trial = Trial(
            image=kept.description["tag"],
            command=(program, "two words"),
            env={},
            workdir="/workspace",
            limits=Limits(timeout=30.0),
            files=as_files({"plain": "echo\n"}),
        )
        ending = trials.run(trial, kept, output.append, threading.Event(), nullcontext())
        return ending.exit_code, b"".join(output)

    assert ends("no-such") == (127, b"no-such: No such file or directory\n")
    assert ends("./plain") == (126, b"./plain: Permission denied\n")


SLOW = """\
schema: reprokit/v1
id: venv-slow
title: Sleeps
command: sleep {seconds}
expect: {{failure: {{exit_code: 1}}}}
"""


@pytest.mark.parametrize(("number", "seconds"), [(signal.SIGINT, "98762"), (signal.SIGKILL, "98761")])
def test_a_run_that_is_stopped_or_killed_takes_its_programs_with_it(
    user: User, number: signal.Signals, seconds: str
) -> None:
    user.write("slow.yaml", SLOW.format(seconds=seconds))
    started = user.starts("run", "slow.yaml", "--engine", "venv")
    wait_until(lambda: running(seconds))
    started.send_signal(number)
    said = started.communicate(timeout=60)[0]
    assert started.returncode == (130 if number is signal.SIGINT else -signal.SIGKILL), said
    wait_until(lambda: not running(seconds))
    if number is signal.SIGKILL:
        VenvEngine().sweep()
    mine = f"-{started.pid}-"
    assert [path for path in Path(tempfile.gettempdir()).glob("reprokit-*") if mine in path.name] == []


SECRET = """\
schema: reprokit/v1
id: venv-secret
title: Has a setup
environment:
  setup: |
    pip config list | grep -c index-url
    test -s "$PIP_CONFIG_FILE" && cat "$PIP_CONFIG_FILE"
command: "true"
expect: {failure: {exit_code: 1}}
"""


def test_no_secret_of_the_site_stays_in_an_environment(user: User, cache: Path) -> None:
    user.write("secret.yaml", SECRET)
    user.environment["PIP_EXTRA_INDEX_URL"] = "https://me:s3cret-w0rd@index.invalid/simple"
    shown = user.types("run", "secret.yaml", "--engine", "venv", "-v")
    assert "s3cret" not in shown
    found = subprocess.run(["grep", "-rlE", "s3cret-w0rd|index.invalid", str(cache)], capture_output=True, text=True)
    assert found.stdout == ""


def test_a_build_that_fails_tells_its_step_and_stays_nowhere(user: User) -> None:
    user.write(
        "broken.yaml", SECRET.replace("venv-secret", "venv-broken").replace("pip config list", "echo no way; exit 4")
    )
    user.types("run", "broken.yaml", "--engine", "venv", status=3)
    (cell,) = user.cells()
    assert cell["verdict"] == "build-failed"
    assert cell["details"]["build"]["step"] == "environment.setup"
    assert "no way" in cell["details"]["build"]["tail"]
    made = list((environments.top() / "environments").glob("*/"))
    assert all((folder / environments.DESCRIPTION).exists() for folder in made if folder.is_dir())


def test_a_package_of_the_host_reaches_the_cells_that_ask_for_it(user: User, cache: Path) -> None:
    place = cache / "own-environment"
    venv.create(place, with_pip=False)
    (site,) = place.glob("lib/python3*/site-packages")
    install(site, "probe-of-the-host", {"probe_of_the_host/__init__.py": "VALUE = 41\n"}, "probe-required")
    install(site, "probe-required", {"probe_required.py": ""})
    install(site, "probe-unasked", {"probe_unasked.py": ""})
    user.environment["REPROKIT_HOST_PACKAGES"] = f"probe-of-the-host={place}"
    user.write(
        "case.yaml",
        """\
schema: reprokit/v1
id: venv-host-package
title: A package comes from an environment of the host
matrix: {probe: ["1.0", "2.0"]}
environment: {pip: ["probe-of-the-host=={{ probe }}"]}
command: |
  python -c 'import probe_of_the_host as p, probe_required; print("value", p.VALUE)' || true
  python -c 'import probe_unasked'
expect: {failure: {exception: ModuleNotFoundError, message: probe_unasked}, reproduces: all}
""",
    )
    user.types("run", "case.yaml", "--engine", "venv", status=3)
    one, other = user.cells()
    assert one["verdict"] == "reproduced", one["reason"]
    assert one["environment"]["packages"]["pip"]["probe-of-the-host"] == "1.0"
    assert other["verdict"] == "unsupported"
    assert "which has 1.0: the case asks for probe-of-the-host==2.0" in other["reason"]
