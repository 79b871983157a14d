"""A real SLURM of one node, in a folder and on ports of its own, beside any that is there."""

import getpass
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psutil

PATH = os.environ["PATH"] + ":/usr/sbin"
PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel"]
MISSING = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
MARK = "RLVR_TEST_SLURM"
"""An environment variable by which every process of a SLURM of ours is known."""

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,bf_interval=1
EnforcePartLimits=ALL
AccountingStorageType=accounting_storage/none
# A job over its memory is seen within a second or two, and killed.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
KillWait=5
# squeue remembers finished jobs, and scontrol tells what they had asked for.
MinJobAge=86400
GresTypes=gpu
# More than the machine has: nothing is to wait but for the GPU.
SlurmdParameters=config_overrides
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs=32 RealMemory=64000 Gres=gpu:1
PartitionName=main Nodes=node Default=YES
PartitionName=other Nodes=node
"""


class Slurm:
    """A running SLURM: the environment in which its commands find it, and what it knows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("SLURM_")
        } | {
            "SLURM_CONF": str(folder / "slurm.conf"),
            # Jobs of Snakemake lose SLURM_CONF: for them there is an srun that sets it again.
            "PATH": f"{folder}/bin:{PATH}",
            MARK: str(folder),
        }

    def command(self, *arguments: str) -> str:
        """What a command of SLURM prints."""
        return subprocess.run(
            arguments, env=self.environment, capture_output=True, text=True, check=True, timeout=20
        ).stdout

    def jobs(self) -> dict[str, dict[str, str]]:
        """All jobs so far, finished ones too, by id: what `scontrol show job` tells of each."""
        lines = self.command("scontrol", "show", "job", "--oneliner").splitlines()
        jobs = [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lines if "=" in line]
        return {job["JobId"]: job for job in jobs}


@contextmanager
def single_node_slurm() -> Iterator[Slurm]:
    """Start it; at the end stop all that it started, by process id, and remove its folder."""
    with ExitStack() as undo:
        # Not pytest's folder: the path of a socket may have about 100 characters.
        temporary = tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
        folder = Path(undo.enter_context(temporary))
        folder.chmod(0o755)  # munge wants its socket to be within everybody's reach
        undo.callback(stop_marked, folder)
        slurm = Slurm(folder)
        write_configuration(folder)
        for command, is_up in [
            (munged(folder), (folder / "munge.socket").exists),
            (["slurmctld", "-D", "-i"], lambda: "UP" in slurm.command("scontrol", "ping")),
            (["slurmd", "-D", "-N", "node"], lambda: "idle" in slurm.command("sinfo", "-ho", "%T")),
        ]:
            start(command, slurm, undo)
            try:
                wait_until(is_up, f"{command[0]} is up")
            except TimeoutError as error:
                raise TimeoutError(
                    f"{error}\n{(folder / f'{command[0]}.log').read_text()}"
                ) from None
        yield slurm


def write_configuration(folder: Path) -> None:
    """slurm.conf, one pretend GPU, munge's key, and an srun that knows where they are."""
    for name in ("bin", "state", "spool"):
        (folder / name).mkdir()
    controller_port, node_port = free_ports(2)
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0],
            user=getpass.getuser(),
            folder=folder,
            controller_port=controller_port,
            node_port=node_port,
        )
    )
    (folder / "gres.conf").write_text("NodeName=node Name=gpu File=/dev/null\n")
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(64))
    srun = folder / "bin" / "srun"
    srun.write_text(
        f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun", path=PATH)} "$@"\n'
    )
    srun.chmod(0o755)


def munged(folder: Path) -> list[str]:
    """The command that starts munge with files of our own."""
    files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid"}
    files |= {"seed-file": "munged.seed"}
    return ["munged", "--foreground", *(f"--{k}={folder / v}" for k, v in files.items())]


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    with ExitStack() as sockets:
        found = [sockets.enter_context(closing(socket.socket())) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]


def start(command: list[str], slurm: Slurm, undo: ExitStack) -> None:
    """Start a daemon, to be stopped when all is undone, or when the test process dies."""
    with (slurm.folder / f"{command[0]}.log").open("wb") as log:
        daemon = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command],
            env=slurm.environment,
            stdout=log,
            stderr=log,
        )
    undo.callback(stop, daemon)


def stop(daemon: subprocess.Popen) -> None:
    daemon.terminate()
    try:
        daemon.wait(5)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait(5)


def stop_marked(folder: Path) -> None:
    """Kill what is left, jobs and their keepers: processes with our mark, by id."""
    killed = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # gone meanwhile, or not ours to look at
            if process.environ().get(MARK) == str(folder):
                process.kill()
                killed.append(process)
    psutil.wait_procs(killed, timeout=5)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Wait for a condition; an error where it does not come true in time."""
    end = time.monotonic() + seconds
    while True:
        with suppress(subprocess.SubprocessError):  # a command that does not answer yet
            if condition():
                return
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.2)
