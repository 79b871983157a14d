"""Interrupt a tiny run at random moments, recover as the README says, and compare every byte.

python tests/interruptions.py 50
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import yaml
from tiny_workflow import Workflow, copy_of_project

STUDIES = ["weak_start", "cold_start"]
FIGURE = "fig3_cold_start"  # of both
TIMEOUT = 120
"""Seconds after which Snakemake is taken to hang: an undisturbed run takes a tenth of that."""


def small_project(folder: Path) -> Path:
    """A copy of the project with the runs of document A alone, one seed, one figure."""
    project = copy_of_project(folder)
    config = yaml.safe_load((project / "config.yaml").read_text())
    config["seeds"] = [1]
    config["claims"]["studies"] = STUDIES
    config["figures"] = {FIGURE: config["figures"][FIGURE]}
    (project / "config.yaml").write_text(yaml.safe_dump(config))
    return project


def kill_a_job(snakemake: psutil.Process) -> None:
    """SIGKILL to a stage, the next that runs, as the kernel does where memory runs out."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end and snakemake.status() != psutil.STATUS_ZOMBIE:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            children = snakemake.children(recursive=True)
            # Not whatever else is Python: Snakemake itself has such children, for a moment.
            stages = [c for c in children if " -m rlvr." in " ".join(c.cmdline()[:3])]
            if stages:
                random.choice(stages).kill()
                return
        time.sleep(0.02)


def kill_everything(snakemake: psutil.Process) -> None:
    """SIGKILL to Snakemake and all its jobs, as a power cut."""
    for process in [snakemake, *snakemake.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def press_control_c(snakemake: psutil.Process) -> None:
    """SIGINT to the process group, as a terminal sends it."""
    os.killpg(snakemake.pid, signal.SIGINT)


INTERRUPTIONS: dict[str, tuple[Callable[[psutil.Process], None], bool]] = {
    "kill -9 of a job": (kill_a_job, False),
    "kill -9 of Snakemake": (psutil.Process.kill, True),
    "kill -9 of Snakemake and its jobs": (kill_everything, True),
    "SIGTERM to Snakemake": (psutil.Process.terminate, False),
    "SIGINT to Snakemake": (lambda snakemake: snakemake.send_signal(signal.SIGINT), False),
    "Ctrl-C in a terminal": (press_control_c, False),
}
"""How a run may end, and whether Snakemake is to be unlocked before the next."""


def complete_run(project: Path, folder: Path) -> tuple[dict[str, bytes], float]:
    """The bytes that an undisturbed run gives, and the seconds that it takes."""
    started = time.monotonic()
    workflow = Workflow(folder, project, configs=[])
    done = workflow.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    return workflow.products(), time.monotonic() - started


def interrupted_run(
    project: Path, folder: Path, kind: str, seconds: float
) -> tuple[Workflow, bool]:
    """A run that is interrupted and recovered from, and whether it was unfinished till then."""
    interrupt, unlock = INTERRUPTIONS[kind]
    workflow = Workflow(folder, project, configs=[])
    # Where this runs in the background SIGINT is ignored, which Snakemake would inherit; not so a
    # handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    snakemake = subprocess.Popen(
        workflow.command(),
        env=workflow.environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        snakemake.wait(seconds)
    except subprocess.TimeoutExpired:
        interrupt(psutil.Process(snakemake.pid))
    try:
        snakemake.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(snakemake.pid, signal.SIGKILL)
        raise AssertionError(f"{kind} after {seconds:.2f} s: Snakemake went on") from None
    interrupted = snakemake.returncode != 0
    if unlock:  # what a killed Snakemake leaves running goes on meanwhile, and may finish
        assert workflow.snakemake("--unlock").returncode == 0
    done = workflow.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    return workflow, interrupted


def differences(workflow: Workflow, expected: dict[str, bytes]) -> list[str]:
    """Files that are not as an undisturbed run makes them, and what is left half-written."""
    found = workflow.products()
    return sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )


def main() -> None:
    """As many interruptions as the command line says, each kind in turn."""
    moments = int(sys.argv[1])
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        project = small_project(Path(folder) / "project")
        expected, duration = complete_run(project, Path(folder) / "expected")
        print(f"{len(expected)} files, {duration:.1f} s undisturbed")
        kinds = list(INTERRUPTIONS)
        for number in range(moments):
            kind, seconds = kinds[number % len(kinds)], random.uniform(0, duration)
            try:
                place = Path(folder) / str(number)
                workflow, interrupted = interrupted_run(project, place, kind, seconds)
                problem = ", ".join(differences(workflow, expected))
                outcome = "same bytes" if interrupted else "same bytes; it had finished before"
            except AssertionError as error:
                problem = str(error)
            failed += bool(problem)
            print(f"{number + 1}: {kind} after {seconds:.2f} s: {problem or outcome}", flush=True)
    sys.exit(f"{failed} of {moments} failed" if failed else 0)


if __name__ == "__main__":
    main()
