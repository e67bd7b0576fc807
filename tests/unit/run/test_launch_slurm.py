"""What the launcher ``slurm`` asks of Slurm's programs, and what it takes from what they say. On a Slurm that runs:
tests/integration/test_slurm.py.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from reprokit.core.errors import EngineError, Unsupported, UsageError
from reprokit.run.launch import slurm
from reprokit.run.launch.job import DIGEST, Job
from reprokit.run.launch.launcher import Phase
from reprokit.run.launch.opening import open_launcher

NEVER_SEEN = "slurm_load_jobs error: Invalid job id specified"
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that write down their words, and say what the file of their name and ``.says`` does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in slurm.PROGRAMS:
        (folder / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@" -- >>"$0.words"\n. "$0.says"\n')
        (folder / name).chmod(0o755)
        (folder / f"{name}.says").touch()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return folder


def job_in(folder: Path) -> Job:
    folder.mkdir()
    return Job(id="reprokit-1", folder=folder, seconds=3600, gpus=2, cpus=3, memory=2**30, avoid=("n2",))


def words_of(programs: Path, name: str) -> list[str]:
    return (programs / f"{name}.words").read_text().splitlines()


def test_a_job_asks_for_what_its_cells_need_and_the_sites_options_win(programs: Path, tmp_path: Path) -> None:
    (programs / "sbatch.says").write_text("echo 'sbatch: your quota is low'; echo '7;alpha'\n")
    job = job_in(tmp_path / "it's %j")
    launcher = open_launcher("slurm:--clusters=alpha --export=ALL,A='b c' --time=5")
    assert launcher.start(job) == f"7 alpha {job.folder}"
    words = words_of(programs, "sbatch")
    assert {"--gres=gpu:2", "--cpus-per-task=3", "--mem=1024M", "--exclude=n2", "--no-requeue"} <= set(words)
    assert words.index("--time=65") < words.index("--time=5")
    assert words.index("--export=NONE") < words.index("--export=ALL,A=b c")
    assert f"--output={tmp_path}/it's %%j/here/slurm" in words
    (wrapped,) = (word for word in words if word.startswith("--wrap="))
    assert shlex.split(wrapped.removeprefix("--wrap=")) == ["exec", "sh", f"{job.folder}/job.sh"]
    launcher.cancel(f"7 alpha {job.folder}")
    assert words_of(programs, "scancel").count("--clusters=alpha") == 2


@pytest.mark.parametrize(
    ("says", "phase", "words"),
    [
        ("echo '7|PENDING|Resources|'", Phase.WAITING, "Resources"),
        ("echo '7|PENDING|PartitionTimeLimit|'", Phase.LOST, "PartitionTimeLimit"),
        ("echo '7|PENDING|job requeued in held state|'", Phase.LOST, "held state"),
        ("echo 'CLUSTER: alpha'; echo '7|RUNNING|None|n1'", Phase.RUNNING, "running"),
        ("echo '7|COMPLETING|None|n1'", Phase.RUNNING, "completing"),
        ("echo '7|COMPLETED|None|n1'", Phase.RUNNING, "completed"),  # the file of another node may come later
        ("echo '7|NODE_FAIL|NodeDown|n1'", Phase.ENDED, "node_fail (NodeDown)"),
        ("echo '7|FAILED|JobLaunchFailure|n1'", Phase.ENDED, "the nodes have to share"),
        ("echo '8|RUNNING|None|n1'", Phase.ENDED, "not known any more"),
        (f"echo '{NEVER_SEEN}' >&2; exit 1", Phase.ENDED, "not known any more"),
    ],
)
def test_a_state_of_slurm_becomes_a_phase(programs: Path, tmp_path: Path, says: str, phase: Phase, words: str) -> None:
    (programs / "squeue.says").write_text(f"{says}\n")
    ident = f"7 - {tmp_path}/job"
    state = open_launcher("slurm").states([ident])[ident]
    assert state.phase is phase
    assert words in state.words


def test_what_came_counts_without_a_question(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher, job = open_launcher("slurm"), job_in(tmp_path / "job")
    ident = f"7 - {job.folder}"
    (programs / "squeue.says").write_text("echo '7|COMPLETED|None|n1'\n")
    assert launcher.states([ident])[ident].phase is Phase.RUNNING
    monkeypatch.setattr(slurm, "SETTLE", -1.0)
    assert "have to share" in launcher.states([ident])[ident].words
    (programs / "squeue.says").write_text("exit 1\n")
    (job.folder / DIGEST).touch()
    assert open_launcher("slurm").states([ident])[ident].phase is Phase.ENDED


def test_a_controller_that_is_away_loses_no_job_and_starts_none_twice(programs: Path, tmp_path: Path) -> None:
    job = job_in(tmp_path / "job")
    (programs / "sbatch.says").write_text(
        '[ -e "$0.again" ] && echo 9 && exit; touch "$0.again"; echo timed out >&2; exit 1\n'
    )
    assert open_launcher("slurm").start(job).startswith("9 ")
    (programs / "sbatch.again").unlink()
    (programs / "squeue.says").write_text("echo 8\n")  # the answer was lost, and not the job
    assert open_launcher("slurm").start(job).startswith("8 ")
    (programs / "squeue.says").write_text(f"echo '{AWAY}' >&2; exit 1\n")
    with pytest.raises(EngineError, match="contact"):
        open_launcher("slurm").states([f"9 - {job.folder}"])
    (programs / "sbatch.says").write_text("echo 'invalid partition specified: x' >&2; exit 1\n")
    with pytest.raises(EngineError, match=r"did not take the job.*invalid partition"):
        open_launcher("slurm").start(job)


def test_nodes_that_are_avoided_are_taken_where_there_is_no_other(programs: Path, tmp_path: Path) -> None:
    job = job_in(tmp_path / "job")
    refuses = f"{{ echo 'sbatch: error: Memory is short'; echo 'sbatch: error: {slurm.IMPOSSIBLE}'; }} >&2; exit 1\n"
    (programs / "sbatch.says").write_text('case "$*" in *--exclude=n2*) ;; *) echo 9; exit;; esac\n' + refuses)
    assert open_launcher("slurm").start(job).startswith("9 ")
    (programs / "sbatch.says").write_text(refuses)
    with pytest.raises(Unsupported, match="Memory is short"):
        open_launcher("slurm").start(job)


def test_what_is_not_an_option_and_a_host_without_slurm_are_refused(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in ("slurm:gpu", "slurm:--comment='a"):
        with pytest.raises(UsageError, match="--on slurm:"):
            open_launcher(wrong)
    (programs / "scancel").unlink()
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(EngineError, match="scancel is not on the PATH"):
        open_launcher("slurm")
