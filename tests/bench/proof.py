"""The long proof: reprokit is killed, its engine harmed, its store damaged, its disks filled; then it resumes.

The engines are the proof's own, below small disks. Each round is one run of a case whose verdicts are known, and one
number, its seed, repeats it. What was found wrong is kept in ``build/proof``. `make faults` has the short form.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from reprokit.cli import invoke
from reprokit.core import ownership
from reprokit.core.errors import EngineError
from reprokit.engine.site import Site
from tests.conftest import build_of, import_tiny, never
from tests.engine_proxy import EngineProxy, engine_proxy
from tests.private_engine import PrivateEngine, PrivatePodman, private_engine, private_podman

FORK = multiprocessing.get_context("fork")
IMPORTED = (
    *(f"cli.{name}_command" for name in ("run", "show", "gc", "store", "history")),
    *(f"run.{name}" for name in ("run_session", "runner", "services", "keeping", "building", "trials", "resuming")),
    *("engine.docker.engine", "engine.podman.engine", "engine.site", "environment.dockerfile", "store.upkeep"),
)
"""What the children of this process need not import again."""
PYTHONPATH = os.pathsep.join([str(Path(__file__).parents[2]), *(one for one in sys.path if "site-packages" in one)])
FINDINGS = Path("build/proof")
COLUMNS = ("rounds", "harms", "false", "lost", "double", "undecided", "left", "neighbours", "tracebacks", "stuck")
"""Of each row of the table: all but the first two are to be 0. ``stuck``: commands that did not end."""
CONCLUSIVE = {"reproduced", "flaky", "not-reproduced", "different-failure"}
SHOWN = re.compile(r"^\[\d+/\d+\] #\d+ n=(\d+): ([a-z-]+)(.*)", re.M)
LONGEST = 300.0
"""Seconds that a command may take: far more than the 60 s for which an engine is waited for."""
CASE = """\
schema: reprokit/v1
id: {id}
title: Cells whose verdicts are known
matrix: {{n: [{values}]}}
environment: {{image: "proof/base:1", setup: "echo {id}; sleep 0.5"}}
command: [sh, -c, "echo {{{{ n }}}}; sleep {seconds}; exit {{{{ n | int % 2 }}}}"]
expect: {{failure: {{exit_code: 1}}, reproduces: [{odd}]}}
"""
BASES = {
    "proof/base:1": "busybox --install -s /bin; printf '#!/bin/sh\\nexec sh \"$@\"\\n' >/bin/bash; chmod +x /bin/bash",
    # What the names of our images are made to lead to: there, every command fails as the case's failure does.
    "proof/another:1": "busybox ln -s busybox /bin/ash; busybox rm /bin/sh; busybox ln -s false /bin/sh",
}
PHASES = {
    "start": r"^/info",
    "look-up": r"^/images/reprokit",
    "build": r"^/build",
    "create": r"^/containers/create",
    "attach": r"/attach",
    "trial": r"/start$",
    "end": r"^/containers/[^/]+/json$",
    "remove": r"^/containers/reprokit[^/]+\?",
}

HELD = ("container removed", "image removed", "image's name moved")
FAULTS = (
    *("daemon killed", "daemon stopped", "containerd killed", "paused", "connections cut", "cut for a while"),
    *("500 answers", "disk full", *HELD),
)


@dataclass(kw_only=True)
class Ground:
    """An engine of the proof's own below ``folder``, and a proxy before it; on it lives a neighbour."""

    name: str
    own: PrivateEngine | PrivatePodman
    proxy: EngineProxy
    folder: Path
    neighbour: str = ""

    def client(self) -> Any:
        """A client of the engine itself, which the proxy does not hear."""
        return self.own.engine().wire.client()

    def tags(self) -> list[str]:
        """The names of its images, as Docker has them."""
        tags = [tag for one in self.client().images() for tag in one["RepoTags"] or ()]
        return [re.sub(r"^(localhost|docker\.io)/", "", tag) for tag in tags]

    def settle(self) -> None:
        """Make the images of the cases, and what a neighbour has: a container that runs, an image and a volume."""
        tiny = import_tiny(self.own.engine(), self.folder)
        for tag, script in BASES.items():
            self.own.engine().build(build_of(tag, f"FROM {tiny}\nRUN {script}\n"), Site(), lambda _: None, never())
        client = self.client()
        client.tag("proof/base:1", "neighbour/image", "1")
        client.create_volume("neighbour")
        limits = [{"Name": name, "Soft": 1024, "Hard": 1024} for name in ("nofile", "nproc")]
        host = client.create_host_config(restart_policy={"Name": "always"}, ulimits=limits)
        self.neighbour = client.create_container("neighbour/image:1", ["sleep", "1000000"], host_config=host)["Id"]
        client.start(self.neighbour)

    def harmed(self) -> list[str]:
        """What a neighbour misses, and what was asked of its container; an engine that was harmed has a minute.

        A container that is there, and of which no one asked anything, the engine itself has stopped: dockerd does not
        start one again whose restart met a containerd that was away. It is started here.
        """
        deadline = time.monotonic() + 60
        while True:
            try:
                volumes = {one["Name"] for one in self.client().volumes()["Volumes"] or ()}
                there = {one["Id"] for one in self.client().containers(all=True)}
                missing = {"neighbour/image:1", "neighbour", self.neighbour} - volumes - there - set(self.tags())
                if not missing:
                    self.client().start(self.neighbour)
            except (EngineError, OSError, docker.errors.APIError) as error:
                missing = {str(error)}
            if not missing or time.monotonic() > deadline:
                return sorted(missing) + [one for one in self.proxy.asked if self.neighbour[:12] in one]
            time.sleep(0.5)

    def ours(self, case: str) -> list[str]:
        """The containers of a case that can be removed.

        Docker 29, killed while it removes one, may list it as dead until it starts again, and say that there is none.
        """
        client, found = self.client(), []
        for one in client.containers(all=True, filters={"label": f"{ownership.CASE}={case}"}):
            with contextlib.suppress(docker.errors.NotFound):
                found.append(str(client.inspect_container(one["Id"])["Id"]))
        return found


@contextlib.contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of ``size`` at ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--recursive", "--lazy", folder], check=False)


def fill(folder: Path) -> Path:
    """Take all space that is left; the file that does."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        for size in (2**20, 4096, 1):
            with contextlib.suppress(OSError):
                while stream.write(b"x" * size):
                    pass
    return ballast


@contextlib.contextmanager
def ground(name: str) -> Iterator[Ground]:
    """An engine: ``docker`` or ``podman`` of the PATH, or the folder of a Docker whose programs are in ``bin``."""
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rk-proof-")))
        stack.enter_context(disk(place, "600m"))
        if name == "podman":
            own: PrivateEngine | PrivatePodman = stack.enter_context(private_podman(place))
        else:
            # Engines side by side would share the control group of Docker's containers.
            config = {"cgroup-parent": f"/{place.name}"}
            own = stack.enter_context(private_engine(place, config, None if name == "docker" else Path(name).resolve()))
        proxy = stack.enter_context(engine_proxy(Path(own.url.removeprefix("unix://")), place))
        made = Ground(name=Path(name).name, own=own, proxy=proxy, folder=place)
        made.settle()
        for one in (place / "proxy", place):
            one.chmod(0o777)
        yield made


@dataclass(kw_only=True)
class Round:
    """A run of a case of ``cells`` cells in ``folder``, which may be stopped as often as one likes, and its end."""

    on: Ground
    folder: Path
    seed: int
    cells: int = 8
    seconds: float = 0.2
    user: Sequence[str] = ()
    jobs: int = 3
    is_excused: bool = False
    """Whether it was said that something of its store is lost."""
    found: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("store", "cache", "tmp", "home"):
            (self.folder / name).mkdir(exist_ok=True)
        numbers = range(self.cells)
        values = {
            "values": ", ".join(f'"{n}"' for n in numbers),
            "odd": ", ".join(f'{{n: "{n}"}}' for n in numbers if n % 2),
        }
        (self.folder / "case.yaml").write_text(CASE.format(id=self.id, seconds=self.seconds, **values))
        if self.user:
            subprocess.run(["chown", "-R", "12345:12345", self.folder], check=True)

    @property
    def id(self) -> str:
        return f"proof-{self.seed}"

    def starts(self, *words: str) -> ForkProcess:
        """Start a command; without words, the run, or to go on with it."""
        if not words:
            # `--resume` knows nothing of a run that was killed before it was recorded.
            goes_on = any((self.folder / "store").glob("runs/*"))
            rest = ["--resume"] if goes_on else ["case.yaml", "--confirm", "never", "--jobs", str(self.jobs)]
            words = ("run", *rest)
        if self.on.name == "podman" and words[0] in {"run", "gc"} and "--resume" not in words:
            words = (words[0], "--engine", "podman", *words[1:])
        environment = {
            "PATH": os.environ["PATH"],
            # Whatever kind of engine a command looks for: it finds this one, and not the host's.
            "DOCKER_HOST": self.on.proxy.url,
            "CONTAINER_HOST": self.on.proxy.url,
            "PYTHONPATH": PYTHONPATH,
            "REPROKIT_STORE": str(self.folder / "store"),
            "REPROKIT_CONFIG": os.devnull,
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "TMPDIR": str(self.folder / "tmp"),
            "HOME": str(self.folder / "home"),
        }
        self.said.append(str(self.folder / f"said-{len(self.said)}"))
        Path(self.said[-1]).touch()
        process = FORK.Process(target=self._child, args=(self.said[-1], environment, words))
        process.start()
        return process

    def _child(self, said: str, environment: dict[str, str], words: Sequence[str]) -> None:
        """The command: as another user a new program, else a fork of this one, which has imported everything."""
        os.setsid()
        output = os.open(said, os.O_WRONLY | os.O_APPEND)
        os.write(output, f"$ reprokit {' '.join(words)}\n".encode())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1), os.dup2(output, 2)
        os.chdir(self.folder)
        if self.user:
            os.execvpe(self.user[0], [*self.user, "-m", "reprokit", *words], environment)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(fd, mode) for fd, mode in enumerate("rww"))
        status = 99
        try:
            status = invoke(list(words))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def ends(self, process: ForkProcess) -> int:
        """Wait for the end; what never ends is killed."""
        process.join(LONGEST)
        if process.exitcode is None:
            self.found["stuck"] += 1
            process.kill()
            process.join()
        assert process.exitcode is not None
        return process.exitcode

    def shown(self) -> set[tuple[int, str, str]]:
        """The cells that a screen has shown as decided, their verdicts, and the rest of the line: how long it took."""
        text = "".join(Path(one).read_text(errors="replace") for one in self.said)
        return {(int(n), verdict, rest) for n, verdict, rest in SHOWN.findall(text) if verdict in CONCLUSIVE}

    def recorded(self) -> dict[int, dict[str, Any]]:
        """The cells of the run in the store."""
        process = self.starts("show", "--json")
        self.ends(process)
        text = Path(self.said[-1]).read_text().partition("\n")[2]
        if not text.startswith("{"):
            return {}
        result, _ = json.JSONDecoder().raw_decode(text)
        return {int(cell["cell"]["n"]): cell for case in result["cases"] for cell in case["cells"]}

    def lost(self) -> set[int]:
        """Cells that were shown as decided, and are not so in the store."""
        decided = {n for n, cell in self.recorded().items() if cell["verdict"] in CONCLUSIVE}
        return {n for n, *_ in self.shown()} - decided

    def judge(self) -> Counter[str]:
        """Go on until all is decided, and count what is not as promised."""
        found = self.found
        for _ in range(4):
            if self.ends(self.starts()) in {0, 2}:  # 2: there is nothing left to do
                break
        recorded = self.recorded()
        shown = self.shown()
        verdicts = [*((n, verdict) for n, verdict, _ in shown), *((n, cell["verdict"]) for n, cell in recorded.items())]
        truth = ("not-reproduced", "reproduced")
        found["false"] += len({n for n, verdict in verdicts if verdict in CONCLUSIVE and verdict != truth[n % 2]})
        decided = {n for n, cell in recorded.items() if cell["verdict"] in CONCLUSIVE}
        found["undecided"] += 0 if self.is_excused else self.cells - len(decided)
        found["lost"] += len({n for n, *_ in shown} - decided)
        times = Counter(n for n, *_ in shown)  # what was done before is shown again as it was
        again = {n for n in times if times[n] > 1} | {n for n in decided if len(recorded[n]["trials"]) != 1}
        found["double"] += len(again)
        self.ends(self.starts("gc", "--budget", "1m"))
        found["left"] += len(self.on.ours(self.id)) + len(list((self.folder / "tmp").iterdir()))
        text = "".join(Path(one).read_text(errors="replace") for one in self.said)
        found["tracebacks"] += len(re.findall(r"^Traceback|internal error", text, re.M))
        found["neighbours"] += len(self.on.harmed())
        found["rounds"] += 1
        return found


def wait_for(condition: Callable[[], object], process: ForkProcess) -> bool:
    """Whether a condition came true before the process ended."""
    deadline = time.monotonic() + 60
    while not condition() and process.exitcode is None and time.monotonic() < deadline:
        time.sleep(0.005)
    return process.exitcode is None


def kills(made: Round, chance: random.Random) -> None:
    """SIGKILL at whatever request of the run, again and again."""
    for _ in range(12):
        asked = len(made.on.proxy.asked) + chance.randrange(1, 45)
        process = made.starts()
        if wait_for(lambda asked=asked: len(made.on.proxy.asked) >= asked, process):  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.1))
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid or 0, signal.SIGKILL)
                made.found["harms"] += 1
        made.ends(process)
        if chance.random() < 0.1:
            made.found["lost"] += len(made.lost())


def harm(on: Ground, case: str, fault: str, seconds: float) -> None:
    """Do one of :data:`FAULTS`; those that last take so long."""
    if fault in HELD:
        _harm_things(on, case, fault)
    elif fault == "daemon killed":
        on.own.restart(signal.SIGKILL)
    elif fault == "daemon stopped":
        on.own.restart()
    elif fault == "containerd killed" and isinstance(on.own, PrivateEngine):
        on.own.kill_containerd()
    elif fault == "paused":
        on.own.send(signal.SIGSTOP)
        time.sleep(seconds)
        on.own.send(signal.SIGCONT)
    elif fault == "connections cut":
        on.proxy.cut()
    elif fault == "cut for a while":
        for _ in range(int(seconds / 0.05)):
            on.proxy.cut()
            time.sleep(0.05)
    elif fault == "500 answers":
        on.proxy.refuse(".", 500)
        time.sleep(seconds)
        on.proxy.refuse("")
    elif fault == "disk full":
        ballast = fill(on.folder)
        time.sleep(seconds)
        ballast.unlink()


def _harm_things(on: Ground, case: str, fault: str) -> None:
    for one in on.ours(case) if fault == "container removed" else ():
        on.client().remove_container(one, force=True)
    for tag in [tag for tag in on.tags() if tag.startswith("reprokit/img:")]:
        if fault == "image removed":
            on.client().remove_image(tag, force=True)
        elif fault == "image's name moved":
            on.client().tag("proof/another:1", *tag.rsplit(":", 1), force=True)


def harms(made: Round, chance: random.Random) -> None:
    """One of the faults in one of the phases: all pairs, one after the other by the seed."""
    pairs = [(phase, fault) for phase in PHASES for fault in FAULTS]
    phase, fault = pairs[made.seed * 37 % len(pairs)]
    asked, times = len(made.on.proxy.asked), chance.randint(1, 3) if phase in {"create", "trial", "remove"} else 1
    process = made.starts()

    def has_come() -> bool:
        return sum(bool(re.search(PHASES[phase], one)) for one in made.on.proxy.asked[asked:]) >= times

    if wait_for(has_come, process):
        time.sleep(chance.uniform(0, 0.2))
        with contextlib.suppress(EngineError, OSError):  # such as an image that is in use
            harm(made.on, made.id, fault, chance.uniform(1, 6))
        made.found["harms"] += 1
    made.ends(process)
    (made.folder / "harm").write_text(f"{fault} at {phase}\n")


def disks(made: Round, chance: random.Random) -> None:
    """The disk of the store, of the cache or of temporary files is full, for a while or until the run ends."""
    name, for_good = chance.choice(["store", "cache", "tmp"]), chance.random() < 0.5
    with disk(made.folder / name, "5m") as place:
        asked = len(made.on.proxy.asked) + chance.randrange(0, 45)
        process = made.starts()
        wait_for(lambda: len(made.on.proxy.asked) >= asked, process)
        ballast = fill(place)
        made.found["harms"] += 1
        (made.folder / "harm").write_text(f"{name} full {'until the end' if for_good else 'for 2 s'}\n")
        if for_good:
            status = made.ends(process)
            complete = len({n for n, *_ in made.shown()}) == made.cells
            made.found["false"] += status == 0 and not complete
            made.ends(made.starts("show"))
        time.sleep(2)
        ballast.unlink()
        made.ends(process)
        shutil.copytree(place, made.folder / "copy", ignore=shutil.ignore_patterns("*.sock"))
    shutil.copytree(made.folder / "copy", made.folder / name, dirs_exist_ok=True)


def damaged(made: Round, chance: random.Random) -> None:
    """One file of a store is damaged: what is whole is read, what is not is named."""
    whole, store = made.folder.parent / "whole", made.folder / "store"
    if not whole.exists():
        made.ends(made.starts())
        shutil.copytree(store, whole)
        Path(made.said.pop()).unlink()
    shutil.copytree(whole, store, dirs_exist_ok=True)
    if chance.random() < 0.5:  # as of runs that no one has read yet
        (store / "reprokit.db").unlink()
    path = chance.choice(sorted(path for path in store.rglob("*") if path.is_file() and path.stat().st_size))
    content, how = bytearray(path.read_bytes()), chance.choice(["bit", "bit", "cut", "zeros", "noise", "gone"])
    at = chance.randrange(len(content))
    rest = {"cut": b"", "zeros": bytes(len(content) - at), "noise": chance.randbytes(100)}
    if how == "bit":
        content[at] ^= 1 << chance.randrange(8)
    path.unlink() if how == "gone" else path.write_bytes(content[:at] + rest.get(how, content[at:]))
    (made.folder / "harm").write_text(f"{how} at {at} of {path}\n")
    made.found["harms"] += 1
    commands = [("show",), ("history",), ("store", "check"), ("store", "rebuild"), ("store", "check")]
    ended = {made.ends(made.starts(*words)) for words in commands}
    made.found["stuck"] += len(ended - {0, 1, 2, 3})
    made.is_excused = ended != {0}


def keep(made: Round) -> None:
    """Remove the files of a round, or keep and name them where it shows something wrong."""
    if wrong := {name: count for name, count in made.found.items() if count and name in COLUMNS[2:]}:
        place = FINDINGS / f"{made.on.name}-{made.seed}"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(made.folder, place, ignore=shutil.ignore_patterns("*.sock"))
        print(f"on {made.on.name}, seed {made.seed}: {wrong}: see {place}", flush=True)
    shutil.rmtree(made.folder)


def other_user() -> list[str]:
    """How a Python starts as another user; [] where none can, and the other user is this one with another home."""
    words = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"]
    with_path = ["env", f"PYTHONPATH={PYTHONPATH}"]
    for python in (sys.executable, "/usr/bin/python3"):
        tried = [*words, *with_path, python, "-m", "reprokit", "--version"]
        if subprocess.run(tried, capture_output=True, check=False, cwd="/").returncode == 0:
            return [*words, python]
    return []


@contextlib.contextmanager
def another_user(on: Ground, folder: Path, total: Counter[str]) -> Iterator[None]:
    """Meanwhile another user of the engine has runs of their own, and a gc to a budget in which nothing fits."""
    until, user = folder / "until", other_user()

    def loop() -> None:
        found: Counter[str] = Counter()
        for number in itertools.count():
            place = folder / f"other-{number}"
            place.mkdir()
            made = Round(on=on, folder=place, seed=900_000_000 + number, user=user, cells=4)
            made.ends(made.starts("gc", "--budget", "1m"))
            found += made.judge()
            keep(made)
            until.with_suffix(".found").write_text(json.dumps(found))
            if until.exists():
                os._exit(0)

    child = FORK.Process(target=loop)
    child.start()
    try:
        yield
    finally:
        until.touch()
        child.join()
        total.update(json.loads(until.with_suffix(".found").read_text()))


KINDS = {"kills": kills, "harms": harms, "disks": disks, "damaged": damaged}


def rounds(kind: str, on: Ground, seeds: Iterable[int], folder: Path, until: float) -> Counter[str]:
    """Rounds of a kind until the seeds or the time are over."""
    total: Counter[str] = Counter()
    for seed in seeds:
        if time.monotonic() > until:
            break
        place = folder / str(seed)
        place.mkdir()
        made = Round(on=on, folder=place, seed=seed, cells=24 if kind == "kills" else 8)
        KINDS[kind](made, random.Random(seed))
        total += made.judge()
        keep(made)
    return total


def upgrades(on: Ground, folder: Path, cells: int, versions: Sequence[Path]) -> Counter[str]:
    """Trivial cells, while the engine is upgraded twice and its containerd is killed five times."""
    assert isinstance(on.own, PrivateEngine)
    folder.mkdir()
    made = Round(on=on, folder=folder, seed=0, cells=cells, seconds=0, jobs=4)
    process = made.starts()
    for event in range(1, 8):
        while len(made.shown()) < cells * event / 8 and process.exitcode is None:
            time.sleep(0.5)
        made.found["harms"] += 1
        if event not in (3, 6):
            on.own.kill_containerd()
            continue
        if event == 6:  # as where no socket is kept for a daemon
            on.own.free()
        on.own.stop()
        on.own.programs = versions[event == 6]
        if event == 6:
            time.sleep(3)
            on.own.listen()
        on.own.start()
        print(f"after {len(made.shown())} cells: {on.own.engine().wire.about().version}", flush=True)
    process.join()
    undecided = cells - len({n for n, *_ in made.shown()})
    print(f"the run ended with {process.exitcode}; undecided before it was resumed: {undecided}", flush=True)
    made.judge()
    keep(made)
    return made.found


def report(folder: Path, parts: Sequence[str], engines: Sequence[str], minutes: float, seed: int) -> Iterator[str]:
    """The table. Each part on each engine takes its share of ``minutes``, and its seeds begin with ``seed``."""
    yield f"{'':28}" + "".join(f"{name:>11}" for name in COLUMNS)
    for module in IMPORTED:
        importlib.import_module(f"reprokit.{module}")
    folder.chmod(0o711)  # another user's is below it
    share = 60 * minutes / (len(parts) * len(engines))
    for engine in engines:
        try:
            with ground(engine) as on:
                volumes = len(on.client().volumes()["Volumes"] or ())
                for part in parts:
                    place, until, found = folder / f"{on.name}-{part}", time.monotonic() + share, Counter[str]()
                    place.mkdir()
                    place.chmod(0o777)
                    if part == "upgrades":
                        found = upgrades(on, place / "1", 2000, [Path(one).resolve() for one in engines[1:3]])
                    else:
                        with another_user(on, place, found) if part == "kills" else contextlib.nullcontext():
                            found.update(rounds(part, on, itertools.count(seed), place, until))
                    found["left"] += len(on.client().volumes()["Volumes"] or ()) - volumes
                    yield f"{part + ' on ' + on.name:28}" + "".join(f"{found[name]:>11}" for name in COLUMNS)
        except pytest.skip.Exception as error:
            yield f"{engine} is not available: {error}"
        if parts == ["upgrades"]:
            break
