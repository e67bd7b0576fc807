"""Jobs of Slurm: one ``sbatch`` each, whose folder the nodes share. What Slurm says of a job decides nothing."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprokit.core.errors import EngineError, Unsupported, UsageError
from reprokit.core.text import one_line
from reprokit.run.launch.job import DIGEST, LOG, SCRIPT, Job, last_line
from reprokit.run.launch.launcher import JobState, Launcher, Phase

PROGRAMS = ("sbatch", "squeue", "scancel")
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT")
RUNNING = ("RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED")
NEVER = re.compile(
    r"BadConstraints|Partition(Node|Time)Limit|PartitionConfig|Invalid(Account|QOS)|.*held state|JobHeld.*"
)
"""Reasons of a waiting job that time alone does not end."""
LOOK = 3.0
"""Seconds between two calls of squeue: one asks for all jobs, and a controller serves a whole site."""
SETTLE = 45.0
"""Seconds that a file of a job that passed may take to be seen here, on a network's file system."""
REACH = 300.0
"""Seconds in which a controller that does not answer is asked to take a job."""
MARGIN = 300
"""Seconds that Slurm leaves a job beyond its own time: it stops itself before."""
AWAY = re.compile(r"contact slurm controller|timed out|temporarily|try again", re.IGNORECASE)
IMPOSSIBLE = "Requested node configuration is not available"
OUTPUT = "slurm"


class SlurmLauncher(Launcher):
    """``options``: more words of ``sbatch``, which win over ours. A job is known by its number, its cluster and folder.

    A job has the environment of a login on its node, as with ssh, and Slurm starts it once: what it loses is ours to
    start again, in another folder.
    """

    def __init__(self, options: str = "") -> None:
        self.name = f"slurm:{options}" if options else "slurm"
        try:
            self._options = shlex.split(options)
        except ValueError as error:
            raise UsageError(f"--on {self.name}: {error}") from None
        if self._options and not self._options[0].startswith("-"):
            raise UsageError(
                f"--on {self.name}: {self._options[0]!r} is not an option of sbatch; write --on slurm:--partition=NAME"
            )
        if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
            raise EngineError(f"--on {self.name}: {missing[0]} is not on the PATH: run this where jobs are submitted")
        self._asked = -math.inf
        self._known: dict[str, tuple[str, str, str]] = {}
        self._passed: dict[str, float] = {}

    def start(self, job: Job) -> str:
        """See :class:`.Launcher`. Where the controller is away or gave no answer, it is asked again for a while.

        Raises Unsupported where Slurm has no node of that kind.
        """
        until, avoid = time.monotonic() + REACH, job.avoid
        while True:
            done = self._call(*self._words(job, avoid))
            found = re.search(r"^(\d+)(?:;(\S+))?\s*$", done.stdout, re.MULTILINE)
            if done.returncode == 0 and found:
                self._asked = -math.inf  # what is known now is of the jobs before
                return f"{found[1]} {found[2] or '-'} {job.folder}"
            said = one_line(done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}", 300)
            if IMPOSSIBLE in done.stderr:
                if not avoid:
                    raise Unsupported(f"Slurm: {said}")
                avoid = ()
                continue
            if not AWAY.search(said) or time.monotonic() > until:
                raise EngineError(f"--on {self.name}: Slurm did not take the job: {said}")
            time.sleep(5)
            # The answer may have been lost, and not the job.
            where = [word for word in self._options if word.startswith("--clusters=")]
            seen = self._call("squeue", *where, "-h", "-a", f"--name={job.id}", "-o", "%i")
            if number := re.search(r"^\d+$", seen.stdout, re.MULTILINE):
                return f"{number[0]} {where[0].split('=')[1] if where else '-'} {job.folder}"

    def _words(self, job: Job, avoid: Sequence[str]) -> list[str]:
        minutes = math.ceil((job.seconds + MARGIN) / 60)
        output = str(job.folder / "here" / OUTPUT).replace("%", "%%")
        words = ["sbatch", "--parsable", f"--job-name={job.id}", f"--chdir={job.folder}", f"--output={output}"]
        words += ["--no-requeue", "--export=NONE", "--nodes=1", "--ntasks=1", f"--time={minutes}"]
        # Should the site's own limit be shorter, the run stops before it, and its archive comes.
        words += ["--signal=B:TERM@90", f"--cpus-per-task={job.cpus}"]
        words += [f"--gres=gpu:{job.gpus}"] if job.gpus else []
        words += [f"--mem={math.ceil(job.memory / 2**20)}M"] if job.memory else []
        words += [f"--exclude={','.join(sorted(set(avoid)))}"] if avoid else []
        return [*words, *self._options, f"--wrap=exec sh {shlex.quote(str(job.folder / SCRIPT))}"]

    def states(self, idents: Sequence[str]) -> Mapping[str, JobState]:
        """See :class:`.Launcher`. An archive that is here needs no question."""
        if any(not _arrived(ident) for ident in idents) and time.monotonic() - self._asked > LOOK:
            self._known = self._ask(idents)
            self._asked = time.monotonic()
        return {ident: self._state(ident) for ident in idents}

    def _ask(self, idents: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """State, reason and nodes of each job that Slurm knows: some minutes after its end it forgets one."""
        found = {}
        for cluster in sorted({ident.split(" ")[1] for ident in idents}):
            numbers = [ident.split(" ")[0] for ident in idents if ident.split(" ")[1] == cluster]
            words = ["squeue", *_on(cluster), "-h", "-a", "-t", "all", "-o", "%i|%T|%r|%N", "-j", ",".join(numbers)]
            done = self._call(*words)
            if done.returncode and "Invalid job id" not in done.stderr:  # of a single job that it has forgotten
                raise EngineError(f"--on {self.name}: squeue: {one_line(done.stderr.strip(), 300)}")
            for line in done.stdout.splitlines():
                if len(parts := line.split("|")) == 4:
                    found[f"{parts[0]} {cluster}"] = (parts[1], parts[2], parts[3])
        return found

    def _state(self, ident: str) -> JobState:
        number, cluster, folder = ident.split(" ", 2)
        state, reason, node = self._known.get(f"{number} {cluster}", ("", "", ""))
        words = f"Slurm: job {number}: {state.lower()}" + (f" ({reason})" if reason not in ("", "None") else "")
        if _arrived(ident):
            return JobState(phase=Phase.ENDED, words="" if state in ("", *RUNNING, "COMPLETED") else words, node=node)
        if state in WAITING:
            phase = Phase.LOST if NEVER.match(reason) else Phase.WAITING
            return JobState(phase=phase, words=words)
        since = self._passed.setdefault(ident, time.monotonic()) if state == "COMPLETED" else -math.inf
        if state in RUNNING or time.monotonic() - since < SETTLE:
            return JobState(phase=Phase.RUNNING, words=words, node=node)
        if not state:
            words = f"Slurm: job {number} is not known any more"
        said = last_line(Path(folder, "here", OUTPUT))
        if not said and not Path(folder, LOG).exists():
            said = f"nothing was written: the nodes have to share {folder}; name a store that they share by --store"
        return JobState(phase=Phase.ENDED, words=f"{words}: {said}" if said else words, node=node)

    def cancel(self, ident: str) -> None:
        """See :class:`.Launcher`. The script alone gets the signal: it stops its run, and packs what that decided."""
        number, cluster, _ = ident.split(" ", 2)
        self._call("scancel", *_on(cluster), "--state=PENDING", number)
        self._call("scancel", *_on(cluster), "--state=RUNNING", "--batch", "--signal=TERM", number)
        self._asked = -math.inf

    def bring(self, ident: str, job: Job) -> None:
        """See :class:`.Launcher`. The folder is shared; to list it has NFS ask its server again."""
        with os.scandir(job.folder) as found:
            list(found)

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
        try:
            return subprocess.run(
                words, env=environ, capture_output=True, stdin=subprocess.DEVNULL, text=True, errors="replace",
                check=False, timeout=120, start_new_session=True,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"--on {self.name}: {words[0]}: {error}") from None


def _on(cluster: str) -> list[str]:
    return [] if cluster == "-" else [f"--clusters={cluster}"]


def _arrived(ident: str) -> bool:
    return Path(ident.split(" ", 2)[2], DIGEST).exists()
