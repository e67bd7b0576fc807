"""What every engine does alike. A test is skipped where an engine says that it does not keep what the test is about."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.cellspec import FileSpec
from reprokit.core import ownership
from reprokit.core.errors import BuildFailed, Cancelled, EngineError, ImageGone, Unsupported
from reprokit.engine.outputs import Collector, OutputsRefused, unpacked
from reprokit.engine.protocol import ENVIRONMENT, IMAGE, Mount, Progress
from reprokit.engine.site import Site
from reprokit.environment.debugging import CAPABILITY
from reprokit.evidence.model import Ending
from reprokit.intake.bundle import add, canonical
from tests.conformance.conftest import Subject
from tests.conftest import never, trial
from tests.servers import wait_until
from tests.terminals import PATIENCE, users_terminal

MIB = 2**20


def labels(run: str) -> dict[str, str]:
    return ownership.ownership(run)


def test_it_says_what_it_is(subject: Subject) -> None:
    info = subject.engine.info()
    assert (info.kind, info.capabilities) == (subject.entry.kind, subject.entry.capabilities)
    assert info.name
    assert info.version
    assert (subject.entry.capabilities.recipe == "script") == (subject.entry.host is not None)


def test_what_was_built_is_found_and_removed(subject: Subject) -> None:
    build = subject.build("echo built")
    assert subject.engine.image(build.tag) is None
    steps: list[Progress] = []
    built = subject.engine.build(build, Site(), steps.append, never())
    assert (built.tag, built.id[:7]) == (build.tag, "sha256:")
    assert subject.engine.image(build.tag) == built
    assert subject.engine.image(built.id) is not None
    assert any(step.name for step in steps)
    if subject.entry.capabilities.images:
        assert built.labels.items() >= build.labels.items()
    for _ in range(2):  # no error when there is none
        subject.engine.remove_image(build.tag)
        assert subject.engine.image(build.tag) is None


def test_what_was_built_is_kept_by_its_tag_and_discarded(subject: Subject) -> None:
    build = subject.build(f"head -c 2000000 /dev/urandom > blob; echo {uuid.uuid4().hex}")
    subject.engine.build(build, Site(), lambda _: None, never())
    (kept,) = [one for one in subject.engine.kept() if one.key == build.tag]
    assert kept.kind in (IMAGE, ENVIRONMENT)
    assert kept.stays == ""
    assert list(subject.engine.discard([kept])) == [kept]
    assert subject.engine.image(build.tag) is None
    assert build.tag not in {one.key for one in subject.engine.kept()}
    assert list(subject.engine.discard([kept])) == [kept], "two that collect at once get along"


def test_a_build_that_fails_tells_its_step_and_leaves_no_image(subject: Subject) -> None:
    build = subject.build("echo no such option; exit 7")
    with pytest.raises(BuildFailed) as failed:
        subject.engine.build(build, Site(), lambda _: None, never())
    assert failed.value.step
    assert any("no such option" in line for line in failed.value.tail)
    assert "7" in str(failed.value)
    assert subject.engine.image(build.tag) is None


def test_a_cancelled_build_leaves_no_image(subject: Subject) -> None:
    build, cancel = subject.build("true"), threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        subject.engine.build(build, Site(), lambda _: None, cancel)
    assert subject.engine.image(build.tag) is None


@pytest.mark.parametrize(
    ("script", "code"), [("true", 0), ("exit 7", 7), ("kill -9 $$", 137), ("no-such-program", 127)]
)
def test_a_program_ends_as_it_ends(subject: Subject, image: str, script: str, code: int) -> None:
    ending, _ = subject.run(image, script)
    assert (ending.exit_code, ending.oom, ending.timed_out) == (code, False, False)


def test_a_program_finds_its_variables_and_its_files(subject: Subject, image: str) -> None:
    script = 'echo "[$SPACED]"; ./sub/tool.sh; cat plain.txt; echo changed > plain.txt'
    files = {"sub/tool.sh": "#!/bin/sh\necho tool\n", "plain.txt": "plain ü\n"}
    ending, output = subject.run(image, script, env={"SPACED": "a  b=c"}, files=files)
    assert (ending.exit_code, output) == (0, "[a  b=c]\ntool\nplain ü\n")


def test_nothing_of_our_own_variables_reaches_a_program(
    subject: Subject, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROKIT_TEST_WORD", "ours")
    assert "REPROKIT_TEST_WORD" not in subject.run(image, "env")[1]


def test_output_comes_at_once_and_in_order(subject: Subject, image: str) -> None:
    seen: list[tuple[float, bytes]] = []
    start = time.monotonic()
    script = "echo first; printf 'prompt> '; sleep 4; echo done; exit 5"
    ending = subject.engine.run(
        trial(image, script), lambda data: seen.append((time.monotonic() - start, data)), never()
    )
    assert ending.exit_code == 5
    assert ending.seconds > 3.9
    assert b"".join(data for _, data in seen) == b"first\nprompt> done\n"
    last = seen[-1][0]
    assert b"".join(data for moment, data in seen if moment < last - 1) == b"first\nprompt> "


def test_both_streams_come_in_the_order_in_which_they_were_written(subject: Subject, image: str) -> None:
    script = "for n in 1 2 3 4 5 6; do echo out $n; echo err $n >&2; echo >&2; done; kill -9 $$"
    expected = "".join(f"out {number}\nerr {number}\n\n" for number in range(1, 7))
    for _ in range(8):
        ending, output = subject.run(image, script)
        assert (ending.exit_code, output) == (137, expected)


@pytest.mark.parametrize(("output", "same"), [("joined", True), ("separate", False)])
def test_a_program_finds_one_pipe_or_two(subject: Subject, image: str, output: str, same: bool) -> None:
    script = """fds=$(ls -l /proc/$$/fd 2>/dev/null); echo "$fds" | grep ' 1 -> '; echo "$fds" | grep ' 2 -> ' >&2"""
    ending, said = subject.run(image, script, output=output)
    pipes = {line.rpartition(" ")[2] for line in said.splitlines()}
    assert (ending.exit_code, len(pipes) == 1) == (0, same), said
    assert all(pipe.startswith("pipe:") for pipe in pipes)


def test_files_have_the_permissions_that_the_case_gives(subject: Subject, image: str) -> None:
    files = {"tool": FileSpec(text="echo tool\n", mode=0o755), "plain": FileSpec(text="#!/bin/sh\n", mode=0o640)}
    shown = subject.run(image, "ls -l plain tool; ./tool", files=files)[1].splitlines()
    assert [line[:10] for line in shown] == ["-rw-r-----", "-rwxr-xr-x", "tool"]


def test_every_trial_has_a_work_folder_of_its_own(subject: Subject, image: str) -> None:
    script = "test ! -e mark && touch mark && mkdir shut && chmod 0 shut"
    assert [subject.run(image, script)[0].exit_code for _ in range(2)] == [0, 0]


def collected(subject: Subject, image: str, script: str, file: Path, *patterns: str) -> dict[str, bytes]:
    outputs = Collector(patterns, file)
    subject.run(image, script, outputs=outputs)
    return unpacked(file.read_bytes())


def test_outputs_are_taken_out_of_a_trial(subject: Subject, image: str, tmp_path: Path) -> None:
    script = (
        "mkdir -p out/deep e.txt; echo 1 > out/a.txt; echo 2 > out/deep/b.txt; echo 3 > out/c.log; echo 4 > plain.txt"
    )
    file = tmp_path / "outputs.tar"
    found = collected(subject, image, script, file, "out/*.txt", "plain.txt")
    assert found == {"out/a.txt": b"1\n", "plain.txt": b"4\n"}
    assert set(collected(subject, image, script, file, "**/*.txt")) == {"out/a.txt", "out/deep/b.txt", "plain.txt"}
    assert collected(subject, image, script, file, "nothing/*.txt", "no.txt") == {}
    assert collected(subject, image, f"{script}; exit 3", file, "plain.txt") == {"plain.txt": b"4\n"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("mkdir out; ln -s /etc/passwd out/a.txt", "out/a.txt is a link or a device"),
        ("mkdir out; mkfifo out/a.txt", "out/a.txt is a "),
        ("mkdir out; truncate -s 10G out/a.txt", "the outputs are too large: out/a.txt has 10,240.0 MiB"),
    ],
)
def test_outputs_that_are_not_plain_files_or_too_large_are_refused(
    subject: Subject, image: str, tmp_path: Path, script: str, why: str
) -> None:
    with pytest.raises(OutputsRefused, match=re.escape(why)):
        collected(subject, image, script, tmp_path / "outputs.tar", "out/*.txt")


def test_a_link_in_place_of_the_folder_of_outputs_leads_nowhere(subject: Subject, image: str, tmp_path: Path) -> None:
    assert collected(subject, image, "ln -s /etc out", tmp_path / "outputs.tar", "out/passwd*") == {}


def test_a_mount_is_where_it_should_be(subject: Subject, image: str, shared_folder: Path) -> None:
    mount = Mount(source=shared_folder, target="/workspace/data/set")
    assert subject.run(image, "cat data/set/one", mounts=(mount,))[1] == "from the host"


def test_mounts_are_read_only(subject: Subject, image: str, shared_folder: Path) -> None:
    subject.needs("mounts")
    mount = Mount(source=shared_folder, target="/workspace/data")
    assert "refused" in subject.run(image, "touch data/new || echo refused", mounts=(mount,))[1]
    assert not (shared_folder / "new").exists()


def test_there_is_no_network_unless_asked_for(subject: Subject, image: str) -> None:
    subject.needs("network")
    devices = subject.run(image, "tail -n +3 /proc/net/dev")[1].splitlines()
    assert [line.partition(":")[0].strip() for line in devices] == ["lo"]


def test_time_limit_stops_what_ignores_sigterm(subject: Subject, image: str) -> None:
    word = uuid.uuid4().hex
    script = f"trap 'echo asked to stop' TERM; sleep 300 & echo {word}; while true; do sleep 0.1; done"
    start = time.monotonic()
    ending, output = subject.run(image, script, timeout=2.0, labels=labels(word))
    assert ending.timed_out
    assert time.monotonic() - start < 200
    assert output.startswith(word)
    assert "asked to stop" in output
    assert nothing_left(subject, word)


def test_time_limit_counts_while_output_floods(subject: Subject, image: str) -> None:
    got = [0]

    def count(data: bytes) -> None:
        got[0] += len(data)

    assert subject.engine.run(trial(image, "yes", timeout=1.0), count, never()).timed_out
    assert got[0] > MIB


def test_cancelling_ends_a_trial_at_once(subject: Subject, image: str) -> None:
    word, cancel = uuid.uuid4().hex, threading.Event()
    asked = trial(image, f"echo up; sleep 300; echo {word}", labels=labels(word))
    start = time.monotonic()
    with pytest.raises(Cancelled):
        subject.engine.run(asked, lambda _: cancel.set(), cancel)
    assert time.monotonic() - start < 200
    assert nothing_left(subject, word)
    with pytest.raises(Cancelled):
        subject.engine.run(asked, lambda _: None, cancel)


def test_a_failing_sink_leaves_nothing(subject: Subject, image: str) -> None:
    word = uuid.uuid4().hex

    def broken(_: bytes) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        subject.engine.run(trial(image, f"echo x; sleep 300; echo {word}", labels=labels(word)), broken, never())
    assert nothing_left(subject, word)


@pytest.mark.parametrize(("end", "code"), [("", 137), ("; exit 3", 3)])
def test_memory_kill_is_seen_even_in_a_child(subject: Subject, image: str, end: str, code: int) -> None:
    subject.needs("memory")
    ending, _ = subject.run(image, f"dd if=/dev/zero of=/dev/null bs=300M{end}", memory=64 * MIB)
    assert (ending.oom, ending.exit_code) == (True, code)


def test_sigkill_by_itself_is_not_a_memory_kill(subject: Subject, image: str) -> None:
    subject.needs("memory")
    ending, _ = subject.run(image, "kill -9 $$", memory=64 * MIB)
    assert (ending.oom, ending.exit_code) == (False, 137)


def test_fork_bomb_is_contained(subject: Subject, image: str) -> None:
    subject.needs("pids")
    script = "i=0; while [ $i -lt 200 ]; do sleep 20 & i=$((i+1)); done; echo unlimited"
    ending, output = subject.run(image, script, pids=32, timeout=15.0)
    assert "unlimited" not in output
    assert ending.exit_code != 0


def test_the_slot_is_held_while_the_program_runs(subject: Subject, image: str) -> None:
    said: list[str] = []

    @contextmanager
    def slot() -> Iterator[None]:
        said.append("taken")
        yield
        said.append("given back")

    subject.engine.run(trial(image, "echo x"), lambda _: said.append("output"), never(), slot())
    assert said == ["taken", "output", "given back"]


def test_an_image_that_is_gone_is_an_error_of_the_engine(subject: Subject) -> None:
    with pytest.raises(ImageGone, match="gone"):
        subject.engine.run(trial(f"reprokit/img:{uuid.uuid4().hex}", "true"), lambda _: None, never())


def test_an_image_is_saved_and_loaded_again_as_it_was(subject: Subject, tmp_path: Path) -> None:
    """As a bundle does it: under the name that the archive gives it, and after the engine has lost it."""
    saved, archive = tmp_path / "saved.tar", tmp_path / "image.tar"
    if not subject.entry.capabilities.archives:
        with pytest.raises(Unsupported):
            subject.engine.save("reprokit/img:any", saved, never())
        with pytest.raises(Unsupported):
            subject.engine.load(archive, "reprokit/img:any")
        assert not saved.exists()
        return
    build = subject.build(f"echo kept > /kept; echo {uuid.uuid4().hex}")
    built = subject.engine.build(build, Site(), lambda _: None, never())
    name = f"docker.io/{build.tag}-again"
    try:
        subject.engine.save(built.id, saved, never())
        with tarfile.open(archive, "w") as target:
            add(target, "manifest.json", json.dumps([canonical(saved, target, name, set())]).encode())
        subject.engine.remove_image(build.tag)
        assert subject.engine.image(built.id) is None
        loaded = subject.engine.load(archive, name)
        assert loaded.labels == built.labels
        found = subject.engine.image(name)
        assert found is not None
        assert found.id == loaded.id
        ending, output = subject.run(name, "cat /kept")
        assert (ending.exit_code, output) == (0, "kept\n")
    finally:
        subject.engine.remove_image(name)
    with pytest.raises(ImageGone, match="no more"):
        subject.engine.save(built.id, saved, never())


def test_a_leased_image_is_removed_by_no_user_of_the_engine_until_its_lease_ends(subject: Subject) -> None:
    if not subject.entry.capabilities.archives:
        pytest.skip("it makes no images of containers")
    engine, build = subject.engine, subject.build(f"echo {uuid.uuid4().hex}")
    built = engine.build(build, Site(), lambda _: None, never())
    release = engine.lease(built.id)
    try:
        [kept] = (one for one in engine.kept() if build.tag in one.also)
        assert kept.stays.startswith(f"a container uses it, of a run of process {os.getpid()} on ")
        assert [*engine.discard([kept])] == []
        assert engine.image(built.id) is not None
        assert subject.run(built.id, "echo here")[1] == "here\n"
    finally:
        release()
    assert [*engine.discard([kept])] == [kept]
    with pytest.raises(ImageGone):
        engine.lease(built.id)


def test_saving_is_cancelled(subject: Subject, image: str, tmp_path: Path) -> None:
    if not subject.entry.capabilities.archives:
        pytest.skip("it saves no images")
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        subject.engine.save(image, tmp_path / "saved.tar", cancel)


def test_a_traced_program_ends_as_it_does_and_its_log_says_what_the_tracer_found(subject: Subject, image: str) -> None:
    if not subject.entry.capabilities.docker_api:
        pytest.skip("it makes no images, into which debuggers are put")
    ending, output = subject.run(image, "echo ran; exit 3", traced=True, capabilities=(CAPABILITY,))
    assert (ending.exit_code, output) == (3, "ran\n\n[reprokit: no stacks: this image has no gdb]\n")


def test_a_trial_is_repeated_by_hand(subject: Subject, image: str, tmp_path: Path) -> None:
    asked = trial(image, 'echo "$WORD"; cat plain.txt; exit 6', env={"WORD": "two words"}, files={"plain.txt": "p\n"})
    (tmp_path / "plain.txt").write_text("p\n")
    line = subject.engine.repeat(asked, tmp_path)
    assert "\n" not in line
    assert subprocess.run(["bash", "-n", "-c", line], check=False).returncode == 0
    if subject.repeats:
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (6, "two words\np\n"), done.stderr


def test_sweeping_spares_what_still_runs(subject: Subject, image: str) -> None:
    swept: list[list[str]] = []
    ending = subject.engine.run(
        trial(image, "echo up; sleep 1; exit 4"), lambda _: swept.append(subject.engine.sweep()), never()
    )
    assert ending.exit_code == 4
    assert len(swept) == 1


CHILD = """
import os, sys, threading
from pathlib import Path
from reprokit.core import ownership
from reprokit.engine import registry
from tests.conformance import toy_engine
from tests.conftest import trial
word = sys.stdin.readline().strip()
{opened}.run(
    trial({image!r}, f"echo up; sleep 300; echo {{word}}", labels=ownership.ownership(word), timeout=300.0),
    lambda data: print(data.decode(), flush=True),
    threading.Event(),
)
"""


def child(subject: Subject, image: str, word: str) -> subprocess.Popen[str]:
    """Another process with a trial that runs."""
    if not subject.opened:
        pytest.skip("another process cannot see what this one does")
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(opened=subject.opened, image=image)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
    while "up" not in process.stdout.readline():
        assert process.poll() is None
    return process


def gone(subject: Subject, word: str) -> bool:
    """Whether nothing is left of a trial, now or in a moment: the kernel takes its time."""
    wait_until(lambda: not subject.left(word))
    return True


def nothing_left(subject: Subject, word: str) -> bool:
    """Whether nothing is left of a trial that was ended: containers at once, processes in a moment."""
    return gone(subject, word) if subject.lingers else subject.left(word) == []


def test_ctrl_c_leaves_nothing(subject: Subject, image: str) -> None:
    word = uuid.uuid4().hex
    process = child(subject, image, word)
    assert subject.left(word)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    assert nothing_left(subject, word)


def test_what_a_killed_process_left_is_swept_and_nothing_else(subject: Subject, image: str) -> None:
    word, neighbour = uuid.uuid4().hex, uuid.uuid4().hex
    killed, alive = child(subject, image, word), child(subject, image, neighbour)
    try:
        killed.kill()
        killed.wait(timeout=60)
        subject.engine.sweep()
        assert gone(subject, word)
        assert subject.left(neighbour) != []
        assert subject.engine.image(image) is not None
    finally:
        alive.send_signal(signal.SIGINT)
        alive.wait(timeout=60)
    assert nothing_left(subject, neighbour)


def test_a_program_has_the_terminal_of_the_user(subject: Subject, image: str) -> None:
    if not subject.entry.capabilities.terminals:
        pytest.skip("the engine says that it cannot attach a terminal")
    word = uuid.uuid4().hex
    script = '[ -t 0 ] && [ -t 1 ] && echo ready; read line; echo "<$line>"; stty size 2>/dev/null; exit 7'
    with users_terminal() as user:
        asked = replace(trial(image, script, labels=labels(word)), terminal=user.terminal)
        ended: list[Ending] = []
        shell = threading.Thread(target=lambda: ended.append(subject.engine.run(asked, _no_log, never())))
        shell.start()
        user.sees(b"ready")
        user.types(b"typed\r")
        user.sees(b"<typed>")
        shell.join(PATIENCE)
    assert [(one.exit_code, one.timed_out) for one in ended] == [(7, False)]
    assert nothing_left(subject, word)


def test_a_terminal_is_given_back_when_its_trial_is_cancelled(subject: Subject, image: str) -> None:
    if not subject.entry.capabilities.terminals:
        pytest.skip("the engine says that it cannot attach a terminal")
    word, cancel = uuid.uuid4().hex, threading.Event()
    with users_terminal() as user:
        before = user.modes()
        asked = replace(trial(image, f"echo ready; sleep 600; : {word}", labels=labels(word)), terminal=user.terminal)
        raised: list[BaseException] = []

        def run() -> None:
            try:
                subject.engine.run(asked, _no_log, cancel)
            except (Cancelled, EngineError) as error:  # a busy engine may not remove it in time: sweep then does
                raised.append(error)

        shell = threading.Thread(target=run)
        shell.start()
        user.sees(b"ready")
        assert user.modes() != before
        cancel.set()
        shell.join(PATIENCE)
        assert user.modes() == before
    assert len(raised) == 1
    subject.engine.sweep()
    assert nothing_left(subject, word)


def _no_log(data: bytes) -> None:
    raise AssertionError(f"what the program wrote is for the terminal: {data!r}")
