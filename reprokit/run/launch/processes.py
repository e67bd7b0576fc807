"""Launchers that are programs of this machine, one process for each job: a line of the user's, and ssh."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from reprokit.core.errors import EngineError, UsageError
from reprokit.core.ownership import started
from reprokit.core.text import whole_number
from reprokit.run.launch import job as jobs
from reprokit.run.launch.job import Job
from reprokit.run.launch.launcher import JobState, Launcher, Phase

OUTPUT, ERRORS = "output", "errors"


class ProcessLauncher(Launcher):
    """Starts a process for each job, in a session of its own, so that it outlives this one. Knows a job by its node,
    process, the time when that started, and folder.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._ours: dict[str, subprocess.Popen[bytes]] = {}

    def _words(self, job: Job, node: str) -> list[str]:
        """The program with its arguments."""
        raise NotImplementedError

    def start(self, job: Job) -> str:
        """See :class:`.Launcher`."""
        node = self._free(job)
        words = self._words(job, node)
        here = job.folder / "here"
        (here / "input").write_bytes(job.packed())
        try:
            with (
                (here / "input").open("rb") as given,
                (here / OUTPUT).open("wb") as out,
                (here / ERRORS).open("wb") as err,
            ):
                process = subprocess.Popen(
                    words, cwd=job.folder, stdin=given, stdout=out, stderr=err, start_new_session=True
                )
        except OSError as error:
            raise EngineError(f"--on {self.name}: {words[0]} cannot be started: {error.strerror}") from error
        ident = f"{node} {process.pid} {started(process.pid) or '-'} {job.folder}"
        self._ours[ident] = process
        return ident

    def _free(self, job: Job) -> str:
        """The node for a job: one that it does not avoid, if any, and the least busy of these."""
        busy = Counter(ident.split(" ")[0] for ident, process in self._ours.items() if process.poll() is None)
        share = {node: busy[node] / self.nodes.count(node) for node in self.nodes}
        return min(share, key=lambda node: (node in job.avoid, share[node]), default="")

    def states(self, idents: Sequence[str]) -> Mapping[str, JobState]:
        """See :class:`.Launcher`."""
        return {ident: self._state(ident) for ident in idents}

    def _state(self, ident: str) -> JobState:
        node, pid, since, folder = ident.split(" ", 3)
        process = self._ours.get(ident)
        runs = process.poll() is None if process else since != "-" and started(whole_number(pid) or 0) == since
        if runs:
            return JobState(phase=Phase.RUNNING, node=node)
        words = [f"exit status {process.returncode}"] if process and process.returncode else []
        words += [said] if (said := jobs.last_line(Path(folder, "here", ERRORS))) else []
        return JobState(phase=Phase.ENDED, words=": ".join(words), node=node)

    def cancel(self, ident: str) -> None:
        """See :class:`.Launcher`."""
        pid = ident.split(" ", 2)[1]
        if self._state(ident).phase is Phase.RUNNING:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(pid), signal.SIGTERM)

    def bring(self, ident: str, job: Job) -> None:
        """See :class:`.Launcher`. Standard output is what came back, unless the job's folder has the archive."""
        if not (job.folder / jobs.DIGEST).exists():
            job.unpack(job.folder / "here" / OUTPUT)


class CommandLauncher(ProcessLauncher):
    """A line for ``sh``, such as ``srun --container-image=x --gpus={gpus} sh {job}/job.sh``.

    Its standard input is the packed job. What it names: ``{job}``, the job's folder; ``{script}``, as one word, what a
    shell does elsewhere with that input to write the archive to standard output; ``{archive}``, where it may put the
    packed result itself; ``{id}``, ``{gpus}``, ``{cpus}``, ``{memory}`` (bytes, 0: not said) and ``{seconds}``.
    """

    NAMES = ("job", "script", "archive", "id", "gpus", "cpus", "memory", "seconds")

    def __init__(self, template: str) -> None:
        super().__init__(f"command:{template}")
        unknown = [name for name in re.findall(r"\{([a-z]+)\}", template) if name not in self.NAMES]
        if unknown or not re.search(r"\{(job|script)\}", template):
            wrong = f"{{{unknown[0]}}} is not known" if unknown else "it names neither {job} nor {script}"
            raise UsageError(
                f"--on {self.name}: {wrong}; write command:sh {{job}}/job.sh where the nodes share this folder, or "
                "command:PROGRAM sh -c {script}, which gets the job as its input and writes the result; there are "
                f"{', '.join(f'{{{name}}}' for name in self.NAMES)}, too"
            )
        self._template = template

    def _words(self, job: Job, node: str) -> list[str]:
        values = {
            "job": shlex.quote(str(job.folder)),
            "script": shlex.quote(job.stream),
            "archive": shlex.quote(str(job.folder / "here" / OUTPUT)),
            "id": job.id,
            "gpus": str(job.gpus),
            "cpus": str(job.cpus),
            "memory": str(job.memory or 0),
            "seconds": str(round(job.seconds)),
        }
        line = re.sub(r"\{([a-z]+)\}", lambda found: values[found[1]], self._template)
        # A signal to all of the group ends what the line started first, and not the shell that waits for it.
        return ["sh", "-c", f"trap : HUP INT TERM; {line}"]


class SshLauncher(ProcessLauncher):
    """Machines that the program ``ssh`` reaches without a question; one that is named twice gets two jobs at a time."""

    HOST = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.@:%\[\]-]*")
    PROGRAM = ("ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=30", "-T")

    def __init__(self, hosts: str) -> None:
        super().__init__(f"ssh {hosts}")
        self.nodes = tuple(host.strip() for host in hosts.split(","))
        if bad := [host for host in self.nodes if not self.HOST.fullmatch(host)]:
            raise UsageError(f"--on {self.name}: {bad[0]!r} is not the name of a host: write --on 'ssh HOST,HOST'")
        self.slots = len(self.nodes)

    def _words(self, job: Job, node: str) -> list[str]:
        return [*self.PROGRAM, node, f"exec sh -c {shlex.quote(job.stream)}"]

    def cancel(self, ident: str) -> None:
        """See :class:`.Launcher`. A signal to ssh would not reach the other side."""
        node, _, _, folder = ident.split(" ", 3)
        words = [*self.PROGRAM, node, f"exec sh -c {shlex.quote(jobs.cancel(Path(folder).name))}"]
        if self._state(ident).phase is Phase.RUNNING:
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=15)

    def _state(self, ident: str) -> JobState:
        found = super()._state(ident)
        return replace(found, words=f"ssh {found.node}: {found.words}") if found.words else found
