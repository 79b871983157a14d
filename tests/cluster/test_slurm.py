"""The workflow on a real SLURM through profiles/slurm, and all ends that docs/cluster.md names."""

import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from cluster.slurm import MISSING, Slurm, single_node_slurm, wait_until
from helpers import ROOT
from tiny_workflow import Workflow, copy_of_project

if MISSING:
    pytest.skip(f"no SLURM here: {', '.join(MISSING)} not found", allow_module_level=True)
if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
    pytest.skip("snakemake-executor-plugin-slurm is not installed", allow_module_level=True)

pytestmark = pytest.mark.timeout(2400)  # the first waits for all that the others look at

LIMIT = 600
"""Seconds after which a command is taken to hang, and killed."""
FIGURE = "fig1_rlvr_overturns"
PAGE = (ROOT / "docs/cluster.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
RUN = BLOCKS[0].splitlines()[-1]
RUN_SFT = f"{RUN} --until sft"
(IN_ONE_JOB,) = (block for block in BLOCKS if "--wrap" in block)
MORE_TIME, MORE_MEMORY = re.findall(r"`(--set-resources sft:.*?)`", PAGE)
(AFTER_SIGKILL,) = (block for block in BLOCKS if "--unlock" in block)


class Clone:
    """A clone of the project on the cluster, in which commands run as the page has them.

    Its config is tiny: two SFT runs, two of GRPO on the verifier and one on a learned reward, with
    its pairs and its reward model, one of DPO; three tables, a figure and the claims.
    """

    def __init__(self, folder: Path, slurm: Slurm) -> None:
        self.folder = copy_of_project(folder)
        self.slurm = slurm
        config = yaml.safe_load((folder / "config.yaml").read_text())
        config["claims"]["studies"] = ["weak_start", "learned_reward_loss", "dpo"]
        config["studies"]["dpo"] |= {"recipes": ["dpo_lr1"], "betas": [0.1]}
        config["figures"] = {FIGURE: config["figures"][FIGURE]}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        self.hold = folder / "hold"
        self.output = folder / "output.txt"
        self.environment = slurm.environment | {
            "PATH": f"{Path(sys.executable).parent}:{slurm.environment['PATH']}",
            "PYTHONPATH": f"{folder}/src:{Path(__file__).parent}/hook",
            "RLVR_TEST_HOLD": str(self.hold),
        }

    def start(self, command: str) -> subprocess.Popen:
        """A command in the background, as a terminal starts it; its output goes to a file."""
        with self.output.open("wb") as output:
            return subprocess.Popen(
                # What runs in the background ignores SIGINT, and its children would too.
                ["env", "--default-signal=INT", *shlex.split(command)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def finish(self, process: subprocess.Popen) -> int:
        """Wait for it, not for ever; its exit code."""
        try:
            return process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
            raise AssertionError(f"hangs: {process.args}\n{self.output.read_text()}") from None

    def run(self, command: str) -> None:
        """Run a command that must succeed."""
        assert self.finish(self.start(command)) == 0, self.output.read_text()

    def start_and_hold(self, others: int = 0) -> subprocess.Popen:
        """Start both SFT runs, a batch; one waits as soon as so many others have finished."""
        self.hold.write_text(str(others))
        process = self.start(RUN_SFT)
        logs = self.folder / "results/logs/sft"
        wait_until(lambda: len(list(logs.rglob("*.log"))) > others, "an SFT run waits", LIMIT)
        return process

    def jobs(self) -> list[dict[str, str]]:
        """Those that SLURM got from here."""
        jobs = self.slurm.jobs().values()
        return [job for job in jobs if job["WorkDir"] == str(self.folder)]

    def products(self) -> dict[str, bytes]:
        return Workflow(self.folder).products()


class End:
    """A run that ended badly: what it said, what it left."""

    def __init__(self, clone: Clone, process: subprocess.Popen) -> None:
        self.code = clone.finish(process)
        self.output = clone.output.read_text()
        self.left = set(clone.products())
        self.states = {job["JobState"] for job in clone.jobs()}
        clone.hold.unlink(missing_ok=True)


# --- Ways that a run may go: each in a clone of its own, several at a time ------------------------


def locally(clone: Clone) -> None:
    clone.run("snakemake --cores 1")


def whole(clone: Clone) -> None:
    clone.run(f"{RUN} --set-resources sft:gpu=1 grpo:gpu=1")


def one_by_one(clone: Clone) -> None:
    """No batches; each SFT run asks for a GPU, two cores, and a partition."""
    options = "--group-components sft=1 --set-resources sft:gpu=1 --set-threads sft=2 --cores 2"
    clone.run(f"{RUN_SFT} {options} --default-resources slurm_partition=other")


def in_one_job(clone: Clone) -> None:
    clone.run(IN_ONE_JOB.replace("sbatch", "sbatch --wait"))


def failing(clone: Clone) -> End:
    (clone.folder / "bad.yaml").write_text("sft: {learning_rate: 1.0e+30}\n")
    end = End(clone, clone.start(f"{RUN_SFT} --configfile bad.yaml"))
    clone.run(RUN_SFT)
    return end


def over_time(clone: Clone) -> End:
    process = clone.start_and_hold()
    (job,) = clone.jobs()
    # A limit has whole minutes: this one is brought forward.
    clone.slurm.command("scontrol", "update", f"JobId={job['JobId']}", "EndTime=now")
    end = End(clone, process)
    clone.run(f"{RUN_SFT} {MORE_TIME}")
    return end


def over_memory(clone: Clone) -> End:
    end = End(clone, clone.start(f"{RUN_SFT} --set-resources sft:mem_mb=100"))
    clone.run(f"{RUN_SFT} {MORE_MEMORY}")
    return end


def cancelled(clone: Clone) -> End:
    """When the first of the batch has finished."""
    process = clone.start_and_hold(others=1)
    (job,) = clone.jobs()
    clone.slurm.command("scancel", job["JobId"])
    end = End(clone, process)
    clone.run(RUN_SFT)
    return end


def control_c(clone: Clone) -> End:
    process = clone.start_and_hold()
    os.killpg(process.pid, signal.SIGINT)
    clone.finish(process)  # SLURM takes a moment to do what it was told
    running = {"RUNNING", "PENDING"}
    wait_until(lambda: not {j["JobState"] for j in clone.jobs()} & running, "the end", LIMIT)
    end = End(clone, process)
    clone.run(RUN_SFT)
    return end


def killed(clone: Clone) -> End:
    process = clone.start_and_hold()
    process.kill()
    end = End(clone, process)
    (clone.folder / "after_sigkill.sh").write_text(AFTER_SIGKILL)
    clone.run("bash -e after_sigkill.sh")
    return end


WAYS = [over_time, locally, killed, whole, in_one_job, one_by_one, cancelled, failing]
WAYS += [over_memory, control_c]


@pytest.fixture(scope="module")
def went(tmp_path_factory) -> Iterator[Callable[[Callable], tuple[Clone, End]]]:
    """For each way the clone in which it was gone, and what it returned."""
    folder = tmp_path_factory.mktemp("cluster").resolve()
    with single_node_slurm() as slurm, ThreadPoolExecutor(4) as pool:
        clones = {way: Clone(folder / way.__name__, slurm) for way in WAYS}
        futures = {way: pool.submit(way, clones[way]) for way in WAYS}
        yield lambda way: (clones[way], futures[way].result(4 * LIMIT))
        pool.shutdown(cancel_futures=True)


# --- What is there to see -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def expected(went) -> dict[str, bytes]:
    """What a local run makes."""
    clone, _ = went(locally)
    return clone.products()


@pytest.fixture(scope="module")
def expected_sft(expected) -> dict[str, bytes]:
    return {name: data for name, data in expected.items() if name.startswith("results/sft/")}


def test_the_whole_graph_runs_under_slurm_and_gives_the_same_bytes(went, expected):
    clone, _ = went(whole)
    assert clone.products() == expected
    jobs = clone.jobs()
    assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    submitted = re.findall(r"submitted with SLURM jobid (\d+)", clone.output.read_text())
    assert sorted(submitted) == sorted(job["JobId"] for job in jobs)


def test_a_batch_asks_for_one_core_one_gpu_and_the_sum_of_run_times(went):
    clone, _ = went(whole)
    asked = {
        job["Comment"]: (job["TRES"], job.get("TresPerJob"), job["TimeLimit"])
        for job in clone.jobs()
    }
    one = "cpu=1,mem=1000M,node=1,billing=1"
    assert asked == {
        "rule_sft_sft": (one, "gres:gpu:1", "00:20:00"),
        "rule_pairs_preferences": (one, None, "00:10:00"),
        "rule_reward_model_reward_model": (one, None, "00:10:00"),
        "rule_grpo_grpo": (one, "gres:gpu:1", "01:30:00"),
        "rule_dpo_dpo": (one, None, "00:30:00"),
        "rule_results_claims_figure_table": (one, None, "00:50:00"),
    }


def test_without_batches_each_job_asks_for_its_own(went, expected_sft):
    clone, _ = went(one_by_one)
    assert clone.products() == expected_sft
    first, second = clone.jobs()
    for job in (first, second):
        assert job["TRES"].startswith("cpu=2,mem=1000M,")
        assert (job["TimeLimit"], job["Partition"]) == ("00:10:00", "other")


def test_two_jobs_never_share_the_gpu(went):
    """Not two that ask for it at the same time, and no others that ran meanwhile."""
    went(whole)
    clone, _ = went(one_by_one)
    first, second = sorted(clone.jobs(), key=lambda job: job["StartTime"])
    assert second["SubmitTime"] < first["EndTime"] <= second["StartTime"]
    jobs = [job for job in clone.slurm.jobs().values() if job.get("TresPerJob") == "gres:gpu:1"]
    times = sorted((job["StartTime"], job["EndTime"]) for job in jobs)
    assert len(times) == 4
    assert all(end <= start for (_, end), (start, _) in pairwise(times))


def test_snakemake_itself_as_one_job(went, expected):
    clone, _ = went(in_one_job)
    assert clone.products() == expected
    (job,) = clone.jobs()
    assert job["JobState"] == "COMPLETED"


FAILURES = [
    (failing, "FAILED", "the loss is not finite"),
    (over_time, "TIMEOUT", "DUE TO TIME LIMIT"),
    (over_memory, "FAILED", "exceeded memory limit"),
    (cancelled, "CANCELLED", "CANCELLED AT"),
]


@pytest.mark.parametrize(
    ("way", "state", "reason"), FAILURES, ids=[way.__name__ for way, *_ in FAILURES]
)
def test_a_job_that_ends_badly(went, expected_sft, way, state, reason):
    """Snakemake says why and where to look, leaves nothing of the batch, and can go on."""
    clone, end = went(way)
    assert end.code == 1
    assert end.states == {state}
    assert reason in end.output
    assert "results/logs/sft/teacher=weak/seed=1.log" in end.output
    assert end.left == set()
    assert clone.products() == expected_sft


def test_control_c_cancels_the_jobs(went, expected_sft):
    clone, end = went(control_c)
    assert end.code == 1
    assert end.states <= {"CANCELLED", "COMPLETING"}
    assert clone.products() == expected_sft


def test_sigkill_of_snakemake_leaves_jobs_and_the_page_says_how_to_go_on(went, expected):
    clone, end = went(killed)
    assert end.code == -signal.SIGKILL
    assert end.states == {"RUNNING"}
    assert clone.products() == expected
    assert "RUNNING" not in {job["JobState"] for job in clone.jobs()}
