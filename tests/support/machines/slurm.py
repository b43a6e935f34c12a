"""A real Slurm of two nodes on this machine, beside whatever Slurm the machine has."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from cuwheel.lab.matrix.building import Task
from tests.support.requirements import require

NODES = ("node1", "node2")
LONGEST_ARRAY = 13  # jobs of an array
_TIME_LIMIT = 300.0  # seconds

# No control groups, which a container has no right to: nodes look each second what a job takes.
_CONFIGURATION = """
ClusterName=cuwheel
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={sockets}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={sockets}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,sched_min_interval=100000,bf_interval=1
ReturnToService=2
MaxArraySize={longest_array}
SlurmdTimeout=10
MessageTimeout=2
KillWait=2
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=4000
NodeName=node2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=4000
PartitionName=short Nodes=node1,node2 Default=YES MaxTime=60 State=UP
"""

# Tells of its beginning and end in a file that all tasks share, and of another one of its name.
_TASK = """
import fcntl, json, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as cuwheel does
folder, name, seconds, status = sys.argv[1:]
def tell(what):
    with open(f"{folder}/events", "a") as events:
        events.write(f"{what} {name} {os.environ['SLURMD_NODENAME']} {os.getpid()}\\n")
mark = open(f"{folder}/{name}.mark", "w")
try:
    fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    tell("twice")
tell("begin")
print(f"{name} begins", file=sys.stderr, flush=True)
until = time.monotonic() + float(seconds)
while time.monotonic() < until and not os.path.exists(f"{folder}/{name}.enough"):
    time.sleep(0.1)
tell("end")
with open(f"{folder}/{name}.json", "w") as stream:
    json.dump({"temporary": os.environ["TMPDIR"], "own": os.environ["OWN"]}, stream)
sys.exit(int(status))
"""


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a task told: `begin`, `end` or `twice`."""

    what: str
    name: str
    node: str
    pid: int


@dataclass(frozen=True, kw_only=True)
class Slurm:
    """The cluster.

    Attributes:
        folder: holds its configuration and logs.
        sockets: holds its sockets: Slurm's are called `spool-node1/node1_59.4294967291`.
        daemons: by name.
    """

    folder: Path
    sockets: Path
    daemons: dict[str, subprocess.Popen[bytes]]

    def ask(self, *words: str) -> str:
        """Run one of Slurm's programs; gives what it says."""
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def start_what_ended(self) -> None:
        """Start the daemons that don't run."""
        conf = str(self.folder / "slurm.conf")
        commands = {
            "munged": _munged(self.folder, self.sockets),
            "slurmctld": ["slurmctld", "-D", "-f", conf],
            **{name: ["slurmd", "-D", "-N", name, "-f", conf] for name in NODES},
        }
        for name, words in commands.items():
            if name not in self.daemons or self.daemons[name].poll() is not None:
                with (self.folder / f"{name}.out").open("ab") as output:
                    self.daemons[name] = subprocess.Popen(
                        words, stdout=output, stderr=output, env=self.environment
                    )
                if name == "munged":
                    wait_for((self.sockets / "munge.sock").exists)

    def kill_node(self, name: str) -> None:
        """Kill a node's daemon, not its jobs, and have the controller know without waiting."""
        self.daemons[name].kill()
        self.daemons[name].wait()
        self.ask("scontrol", "update", f"nodename={name}", "state=down", "reason=killed")

    def is_idle(self) -> bool:
        """Whether both nodes wait for jobs."""
        with contextlib.suppress(subprocess.CalledProcessError):  # it has just been started
            lines = self.ask("sinfo", "--noheader", "--Node", "--format=%N %t").splitlines()
            return sorted(lines) == [f"{name} idle" for name in NODES]
        return False

    def jobs(self) -> list[str]:
        """Numbers of the jobs that wait or run."""
        return self.ask("squeue", "--noheader", "--array", "--format=%i").split()

    def all_jobs(self) -> list[str]:
        """Numbers of all jobs that there have been."""
        return self.ask("squeue", "--noheader", "--array", "--states=all", "--format=%i").split()


@contextlib.contextmanager
def slurm_cluster(folder: Path) -> Iterator[Slurm]:
    """Run one until the block ends. Skips the test where Slurm isn't installed.

    Args:
        folder: for its configuration, logs and state.
    """
    require("slurm", "cells as jobs of a Slurm cluster")
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(_free_port()) for _ in range(3)]
    (folder / "state").mkdir()
    # TMPDIR may be too long for a socket's path: unix(7) has room for 107 bytes.
    with tempfile.TemporaryDirectory(prefix="cuwheel-slurm-", dir="/tmp") as sockets:
        text = _CONFIGURATION.format(
            folder=folder,
            sockets=sockets,
            ports=ports,
            user=getpass.getuser(),
            longest_array=LONGEST_ARRAY,
        )
        (folder / "slurm.conf").write_text(text)
        cluster = Slurm(folder=folder, sockets=Path(sockets), daemons={})
        try:
            cluster.start_what_ended()
            wait_for(cluster.is_idle)
            yield cluster
        finally:
            _stop(cluster)


def _munged(folder: Path, sockets: Path) -> list[str]:
    names = {"key-file": "munge.key", "pid-file": "munged.pid"}
    names |= {"seed-file": "munge.seed", "log-file": "munged.log"}
    # Forced: the socket's folder is closed to other users, as all of pytest's are.
    return [
        "munged",
        "--foreground",
        "--force",
        f"--socket={sockets / 'munge.sock'}",
        *(f"--{key}={folder / name}" for key, name in names.items()),
    ]


@contextlib.contextmanager
def _free_port() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield int(probe.getsockname()[1])


def _stop(cluster: Slurm) -> None:
    """End the daemons and what carries their jobs, which is no child of theirs."""
    for daemon in cluster.daemons.values():
        daemon.kill()
        daemon.wait()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SLURM_CONF") == cluster.environment["SLURM_CONF"]:
                process.kill()


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _TIME_LIMIT
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def make_task(folder: Path, name: str, *, seconds: float = 0.0, status: int = 0) -> Task:
    """A task that tells of itself in `<folder>/events`, and ends early when `end_tasks` says so."""
    words = (sys.executable, "-c", _TASK, str(folder), name, str(seconds), str(status))
    return Task(
        name=name,
        command=words,
        environment=(("OWN", f"of {name}"),),
        folder=folder,
        cores=1,
        memory=64 << 20,
        log=folder / f"{name}.log",
    )


def end_tasks(folder: Path, *names: str) -> None:
    """Have tasks end by themselves now, or as soon as they begin."""
    for name in names:
        (folder / f"{name}.enough").touch()


def read_events(folder: Path) -> list[Event]:
    path = folder / "events"
    lines = path.read_text().splitlines() if path.exists() else []
    words = [line.split() for line in lines]
    return [Event(what=one[0], name=one[1], node=one[2], pid=int(one[3])) for one in words]
