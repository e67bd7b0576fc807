"""What starts jobs: the interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from reprokit.run.launch.job import Job


class Phase(str, Enum):
    """``waiting``: in a queue, so that its time does not count; ``running``; ``ended``, whatever came of it;
    ``lost``: it will never end by itself, or the scheduler does not know it.
    """

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True, kw_only=True)
class JobState:
    """Of a started job. ``words``: the scheduler's own, for a reader; ``node``: where it runs or ran, if known."""

    phase: Phase
    words: str = ""
    node: str = ""


class Launcher:
    """Starts jobs, and brings back what they leave. One thread calls it. All methods may raise EngineError, which says
    what to do: of ``start`` that the job was not started, else that nothing is known now.
    """

    name: str
    """As ``--on`` has it, for messages."""
    slots: int | None = None
    """Jobs at a time; None where a scheduler has a queue."""
    nodes: tuple[str, ...] = ()
    """The names of the nodes that it chooses from, as ``JobState.node`` has them; () where a scheduler does."""

    def start(self, job: Job) -> str:
        """Start a job; what names it from now on, for another process too, on one line.

        Raises Unsupported, too, where no node can ever serve it.
        """
        raise NotImplementedError

    def states(self, idents: Sequence[str]) -> Mapping[str, JobState]:
        """What became of these jobs, of any process; called every second or so."""
        raise NotImplementedError

    def cancel(self, ident: str) -> None:
        """Have a job end, with SIGTERM, so that its archive still comes; nothing where it has ended."""
        raise NotImplementedError

    def bring(self, ident: str, job: Job) -> None:
        """Have in the job's folder what a job left that ended, or is lost. May be called again, and find nothing."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is asked any more; what runs goes on."""
