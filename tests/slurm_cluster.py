"""A Slurm of several nodes on this machine's loopback, with GPUs of its own invention; nodes die as by a power cut."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.servers import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
_CONF = """\
ClusterName=reprotest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=cred_expire=10,socket={folder}/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
DefMemPerNode=100
ReturnToService=2
SlurmdTimeout=3
MessageTimeout=3
KillWait=2
GresTypes=gpu
MpiDefault=none
SlurmdParameters=config_overrides
PartitionName=gpu Nodes=ALL Default=YES State=UP
PartitionName=short Nodes=ALL MaxTime=1 State=UP
"""


@dataclass(eq=False)
class SlurmCluster:
    """The controller, and the processes of nodes by name."""

    folder: Path
    controller: subprocess.Popen[bytes] | None = None
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        """What programs of Slurm need."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *words: str) -> str:
        """What a program of Slurm writes to standard output."""
        done = subprocess.run(words, env=self.environ, capture_output=True, text=True, check=False, timeout=60)
        return done.stdout.strip()

    def background(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a daemon that ends with this process."""
        with (self.folder / "daemons.log").open("ab") as log:
            with_us = ["setpriv", "--pdeathsig", "KILL", *words]
            return subprocess.Popen(
                with_us, env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def start_controller(self) -> None:
        """Start it, with what it knew before."""
        self.controller = self.background("slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))

    def kill_controller(self) -> None:
        """End it as a power cut does."""
        assert self.controller is not None
        self.controller.kill()
        self.controller.wait()

    def start_node(self, name: str) -> None:
        """Start a node: a daemon, in processes of its own."""
        run = f"slurmd -D -N {name} & wait"  # a shell takes over what the daemon leaves behind
        self.nodes[name] = self.background("unshare", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", run)

    def kill_node(self, name: str) -> None:
        """End the node and all that it runs, as a power cut does."""
        self.nodes[name].kill()
        self.nodes[name].wait()

    def run(self, folder: Path, *words: str, options: str = "", **environ: str) -> subprocess.Popen[bytes]:
        """Start ``reprokit run`` on the cluster in a folder; what it says is in the file ``log`` there."""
        command = [sys.executable, "-m", "reprokit", "run", *words, "--store", str(folder / "store")]
        command += ["--json", "result.json"]
        if not any(word.startswith("--resume") for word in words):
            command += ["--on", f"slurm:--export=ALL {options}".strip()]
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                command, cwd=folder, env={**self.environ, **environ}, stdout=log, stderr=subprocess.STDOUT
            )


@contextmanager
def slurm_cluster(folder: Path, count: int = 3) -> Iterator[SlurmCluster]:
    """A cluster with the nodes n1, n2 ..., which ends with the block."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if missing := [
        program for program in (*PROGRAMS, "setpriv", "unshare") if shutil.which(program, path=path) is None
    ]:
        pytest.skip(f"needs Slurm (apt-get install slurm-wlm munge): {missing[0]} is not installed")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root here")
    cluster = SlurmCluster(folder)
    host = socket.gethostname().split(".")[0]
    first, *ports = [free_port() for _ in range(count + 1)]
    nodes = "".join(
        f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=9999 Gres=gpu:2\n"
        for number, port in enumerate(ports, 1)
    )
    head, tail = _CONF.format(host=host, port=first, folder=folder).split("PartitionName", 1)
    (folder / "slurm.conf").write_text(f"{head}{nodes}PartitionName{tail}")
    devices = ("/dev/null", "/dev/zero")
    (folder / "gres.conf").write_text("".join(f"Name=gpu File={one}\n" for one in devices))
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    words = [
        f"--{name}={folder}/munge{end}" for name, end in (("socket", ""), ("pid-file", ".pid"), ("key-file", ".key"))
    ]
    words += [f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        munged = cluster.background("munged", "--foreground", "--force", *words)
        try:
            cluster.start_controller()
            for number in range(count):
                (folder / f"spool.n{number + 1}").mkdir()
                cluster.start_node(f"n{number + 1}")
            until = time.monotonic() + 30
            while cluster.call("sinfo", "-h", "-p", "gpu", "-t", "idle", "-o", "%D") != str(count):
                if time.monotonic() > until:
                    pytest.skip(f"Slurm does not start here: {(folder / 'daemons.log').read_text()[-500:]}")
                time.sleep(0.2)
            yield cluster
        finally:
            for one in (*cluster.nodes.values(), cluster.controller, munged):
                if one is not None:
                    one.kill()
                    one.wait()
