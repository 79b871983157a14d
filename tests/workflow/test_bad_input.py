"""Bad input: one clear message, a bad exit code, and everything as it was."""

import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from helpers import FULL_SIZE, ROOT

from rlvr.policy import initial_policy, save_policy
from rlvr.records import read_parquet, write_parquet
from rlvr.schemas import METRICS

SFT = "results/sft/teacher=weak/seed=1/policy.safetensors"
GRPO = "results/grpo/recipe=base/teacher=weak/beta=0/seed=1"


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ({"grpo": {"learning_rte": 1e-4}}, "grpo.learning_rte: unknown key. Did you mean"),
        ({"grpo": {"group_size": -8}}, "grpo.group_size: found -8."),
        ({"sft": {"steps": 2.5}}, "sft.steps: found 2.5. Input should be a valid integer"),
        ({"studies": {"weak_start": {"betas": [-0.04]}}}, "weak_start.betas.0: found -0.04."),
        ({"studies": {"weak_start": {"teachers": ["strong"]}}}, "allowed: weak, cold"),
        ({"seeds": [1, 1]}, "seeds: found [1, 1]. 1 given more than once"),
        ("seeds: [1, 2\ngrpo: {", "not valid JSON or YAML"),
        ("seeds: [1]\nseeds: [2]\n", "the key seeds is there twice"),
        ({"studies": {"weak_start": {"betas": [0.04]}}}, "none of weak_start has recipe base"),
        ("- a list\n", "Config file must be given as JSON or YAML with keys at top level"),
    ],
    ids=str,
)  # fmt: skip
def test_config_mistakes_stop_before_any_job(finished, overlay, message):
    before = finished.contents()
    done = finished.snakemake(overlay=overlay)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Finished job" not in done.stdout + done.stderr
    assert finished.contents() == before


def test_a_figure_that_does_not_exist_is_named_with_those_that_do(finished):
    done = finished.snakemake(targets=["results/fig9_nothing.pdf"])
    assert done.returncode != 0
    assert (
        "no figure is named fig9_nothing. Figures: fig1_rlvr_overturns, "
        in done.stdout + done.stderr
    )


def test_a_run_that_no_study_names_is_not_made(finished):
    target = "results/grpo/recipe=base/teacher=strong/beta=0/seed=1/metrics.parquet"
    done = finished.snakemake(targets=[target])
    assert done.returncode != 0
    assert "No rule to produce" in done.stdout + done.stderr


def printed_command(workflow, target):
    """The arguments of the command that Snakemake prints for the job that makes a file."""
    done = workflow.snakemake(
        "--dry-run", "--printshellcmds", "--forcerun", target, targets=[target]
    )
    *_, last = (line for line in done.stdout.splitlines() if line.startswith("Shell command: "))
    return last.removeprefix("Shell command: python -m ").split(" > ")[0].split()


TABLE = [
    *("rlvr.table", "--recipes", '["base"]', "--teachers", '["weak"]', "--betas", "[0]"),
    *("--seeds", "[1, 2]", "--runs-in", "results/grpo", "--table-out", "t.parquet"),
]


def refused(workflow, arguments, *messages):
    """The stage fails with these words, no stack trace, and leaves every file as it was."""
    before = workflow.contents()
    done = workflow.stage(*arguments)
    assert done.returncode == 1
    for message in messages:
        assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert workflow.contents() == before


def test_checkpoint_of_another_architecture(scratch):
    command = printed_command(scratch, f"{GRPO}/metrics.parquet")
    save_policy(initial_policy(FULL_SIZE, seed=0), scratch.folder / SFT, {})
    refused(scratch, command, f"error: {SFT}: a checkpoint of another architecture", "width=16")


def test_truncated_checkpoint(scratch):
    command = printed_command(scratch, f"{GRPO}/metrics.parquet")
    path = scratch.folder / SFT
    path.write_bytes(path.read_bytes()[:-100])
    refused(scratch, command, f"error: {SFT}: not a readable safetensors file")


def test_metrics_with_a_missing_column(scratch):
    path = scratch.folder / GRPO / "metrics.parquet"
    table, made_by = read_parquet(path, METRICS)
    fewer = table.drop_columns(["kl"])
    write_parquet(path, fewer, fewer.schema, made_by)
    refused(scratch, TABLE, f"error: {GRPO}/metrics.parquet", "column kl is missing")


def test_metrics_of_another_run(scratch):
    one = scratch.folder / GRPO / "metrics.parquet"
    other = scratch.folder / GRPO.replace("seed=1", "seed=2") / "metrics.parquet"
    one.write_bytes(other.read_bytes())
    refused(scratch, TABLE, "holds the run", "'seed': 2", "not the one that its path names")


def test_table_with_a_missing_column(scratch):
    path = scratch.folder / "results/tables/weak_start.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["accuracy"]), path)
    command = ["rlvr.figures.fig1_rlvr_overturns", "results/tables/weak_start.parquet",
               "--iterations", "4", "--pdf-out", "a.pdf", "--png-out", "a.png"]  # fmt: skip
    refused(scratch, command, "weak_start.parquet", "column accuracy is missing")


def test_command_line_mistakes_are_all_named(scratch):
    command = printed_command(scratch, f"{GRPO}/metrics.parquet")
    index = command.index("--grpo.epochs")
    command[index + 1] = "-2"
    command[command.index("--run.beta") + 1] = "-1"
    refused(
        scratch, command, "2 mistakes in the command line", "grpo.epochs: found '-2'", "run.beta:"
    )


def test_metrics_that_are_cut_short(scratch):
    path = scratch.folder / GRPO / "metrics.parquet"
    table, made_by = read_parquet(path, METRICS)
    write_parquet(path, table.slice(0, 3), METRICS, made_by)
    refused(scratch, TABLE, f"error: {GRPO}/metrics.parquet", "its iterations are not 0 to 6")


def test_the_environment_is_not_read(scratch, monkeypatch):
    for name in ("run", "policy", "device", "grpo", "seeds"):
        monkeypatch.setenv(name, "nonsense")
    assert scratch.stage(*TABLE).returncode == 0


def test_a_failed_job_shows_its_message_and_the_next_run_makes_up_for_it(scratch):
    """Through Snakemake, as `make figures` calls it: a damaged checkpoint, then it removed."""
    path = scratch.folder / SFT
    before = scratch.contents()
    path.write_bytes(b"no checkpoint")
    done = scratch.snakemake("--quiet", "host", "reason")
    assert done.returncode != 0
    assert f"error: {SFT}: not a readable safetensors file" in done.stdout + done.stderr
    assert not list(scratch.folder.rglob("*.partial"))
    # The failed run's outputs are gone, and figures made before it are not taken for finished.
    again = scratch.snakemake()
    assert again.returncode != 0
    path.unlink()
    last = scratch.snakemake()
    assert last.returncode == 0, last.stdout + last.stderr
    same = [name for name in before if not name.endswith((".log", ".jsonl", ".md"))]
    after = scratch.contents()
    assert {name for name in same if before[name] != after[name]} == set()


def test_config_yaml_that_does_not_parse_is_located(tmp_path):
    """A copy of the workflow with a broken config.yaml."""
    for name in ("Snakefile", "workflow", "profiles"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    (tmp_path / "config.yaml").write_text("seeds: [1, 2\ngrpo: {}\n")
    command = [sys.executable, "-m", "snakemake", "--dry-run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "config.yaml is not valid YAML" in done.stdout + done.stderr
    assert "line 2, column" in done.stdout + done.stderr
