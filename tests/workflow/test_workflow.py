"""Real Snakemake runs of the tiny config: what is made, what runs again, how the graph is shown."""

import json
import re
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import torch
from helpers import ROOT
from PIL import Image
from pypdf import PdfReader
from reruns import FIGURES
from tiny_workflow import Workflow

from rlvr.claims.claim import CLAIMS
from rlvr.claims.ledger import ALL_CLAIMS
from rlvr.config.methods import JOBS
from rlvr.methods.columns import METRICS
from rlvr.results.schemas import STUDY

RUN = "recipe=base/teacher=weak/beta=0/seed=1"


def provenance(path):
    return json.loads(pq.read_schema(path).metadata[b"provenance"])


@pytest.mark.parametrize("figure", FIGURES)
def test_each_figure_is_one_page_with_a_picture_beside_it(finished, figure):
    results = finished.folder / "results"
    (page,) = PdfReader(results / f"{figure}.pdf").pages
    assert any(word in page.extract_text() for word in ("iteration", "step", "nats"))
    with Image.open(results / f"{figure}.png") as picture:
        assert picture.width > 1000
        assert len(picture.convert("RGB").getcolors(maxcolors=1 << 20)) > 50


def test_metrics_of_a_run(finished):
    table = pq.read_table(
        finished.folder / "results/grpo" / RUN / "metrics.parquet", partitioning=None
    )
    assert table.schema.names == METRICS.names
    rows = table.to_pylist()
    assert [row["iteration"] for row in rows] == list(range(7))
    assert rows[0]["reward_mean"] is None
    assert rows[0]["accuracy"] is not None
    assert [row["accuracy"] is not None for row in rows] == [True, False] * 3 + [True]
    assert all(sum(row["reward_counts"]) == 8 for row in rows[1:])
    made_by = provenance(finished.folder / "results/grpo" / RUN / "metrics.parquet")
    assert made_by["run"] == {
        "method": "grpo",
        "recipe": "base",
        "teacher": "weak",
        "beta": 0.0,
        "seed": 1,
    }
    assert made_by["settings"]["grpo"]["group_size"] == 4
    assert made_by["sft"]["settings"]["teacher"]["truth_probability"] == 0.3


def test_iteration_0_is_the_sft_policy(finished):
    results = finished.folder / "results"
    sft = pq.read_table(results / "sft/teacher=weak/seed=1/metrics.parquet", partitioning=None)
    grpo = pq.read_table(results / "grpo" / RUN / "metrics.parquet", partitioning=None)
    for column in ("accuracy", "accuracy_carry", "success_probability"):
        assert sft[column][-1] == grpo[column][0]


def test_table_holds_every_run_of_its_study(finished):
    path = finished.folder / "results/tables/weak_start.parquet"
    table = pq.read_table(path)
    assert table.schema.names == STUDY.names
    frame = table.to_pandas()
    assert frame.groupby("seed").size().to_dict() == {1: 7, 2: 7}
    (arm,) = provenance(path)["provenances"]
    assert (arm["recipe"], arm["teacher"]) == ("base", "weak")
    assert arm["parameters"] == 2829


def test_claims_have_a_row_each(finished):
    results = finished.folder / "results"
    table = pq.read_table(results / "claims.parquet")
    assert table.schema.names == CLAIMS.names
    assert table["claim"].to_pylist() == [claim.key for claim in ALL_CLAIMS]
    text = (results / "claims.md").read_text()
    assert all(claim.statement in text for claim in ALL_CLAIMS)


def test_nothing_half_written_is_left(finished):
    assert not list(finished.folder.rglob("*.partial"))


@pytest.mark.parametrize("target", [None, *(f"results/{figure}.pdf" for figure in FIGURES)])
def test_a_second_run_has_nothing_to_do(finished, target):
    # No lock, since other test processes look at the same folder.
    done = finished.snakemake("--nolock", targets=[target] if target else [])
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout + done.stderr


def test_the_graph_can_be_shown(finished):
    dag = finished.snakemake("--dag")
    assert dag.stdout.startswith("digraph snakemake_dag {")
    graph = finished.snakemake("--rulegraph", "mermaid-js").stdout
    assert graph.startswith("---")
    for rule in (
        "sft",
        "preferences",
        "reward_model",
        "grpo",
        "dpo",
        "table",
        "figure",
        "claims",
        "all",
    ):
        assert f"[{rule}]" in graph


def test_lint_finds_nothing_but_the_missing_conda_environments(finished):
    done = finished.snakemake("--lint")
    titles = {line.strip("* :") for line in done.stderr.splitlines() if line.startswith("    * ")}
    assert titles == {"Specify a conda environment or container for each rule."}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "workflow/rules").glob("*.smk")), ids=lambda p: p.stem
)
def test_each_rule_says_what_it_is_and_what_it_needs(path):
    text = path.read_text()
    for rule in (
        text.split("\nrule ")[1:] if "\nrule " in text else [text] * text.startswith("rule ")
    ):
        assert '"""' in rule
        for part in ("input", "output", "log", "benchmark", "threads", "resources", "params"):
            # All that `record` reads stands in its params.
            assert f"    {part}:" in rule or (rule[:6], part) == ("record", "input"), (rule, part)
        for resource in (
            "mem_mb=",
            "runtime=",
            *(["gpu="] if path.stem in JOBS else []),
        ):
            assert resource in rule, f"{path.name}: give the rule {resource}..."


def test_cuda_reserves_a_gpu_and_cpu_does_not(finished):
    for device, gpu in (("cpu", 0), ("cuda", 1), ("auto", 0)):
        overlay = {"engine": "torch", "device": device}
        done = finished.snakemake("--dry-run", "--forceall", overlay=overlay)
        assert f"gpu={gpu}," in done.stdout
        assert f"gpu={1 - gpu}," not in done.stdout


GPU_PROFILE = ["--profile", str(ROOT / "profiles/gpu")]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_without_cuda_the_gpu_profile_says_so_before_any_job(finished, tmp_path):
    workflow = Workflow(tmp_path / "gpu")
    done = workflow.snakemake(*GPU_PROFILE)
    assert done.returncode != 0
    assert "device is 'cuda', but PyTorch finds no CUDA device here." in done.stderr
    assert "localrule" not in done.stdout + done.stderr
    assert not (workflow.folder / "results/sft").exists()
    assert "A GPU is offered, but" not in done.stderr


def test_the_gpu_profile_trains_one_job_at_a_time(tmp_path):
    """On the CPU, as if it were a GPU."""
    workflow = Workflow(tmp_path)
    pretend = [
        "--config",
        "engine=torch",
        "device=cpu",
        "--set-resources",
        "sft:gpu=1",
        "grpo:gpu=1",
    ]
    done = workflow.snakemake(*GPU_PROFILE, *pretend, targets=["results/tables/weak_start.parquet"])
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert 'Provided resources: gpu=Resource("gpu", 1)' in said
    assert "A GPU is offered, but device is 'cpu'" in said
    assert said.count("localrule") == said.count("Execute 1 jobs...") == 5


def test_without_cuda_figures_of_training_elsewhere_can_be_drawn(scratch):
    """Whatever needs no training needs no GPU."""
    figure = scratch.folder / f"results/{FIGURES[0]}.pdf"
    figure.unlink()
    done = scratch.snakemake("--resources", "gpu=1", targets=[f"results/{FIGURES[0]}.pdf"])
    assert done.returncode == 0, done.stderr
    assert figure.exists()


def test_a_failed_run_ends_with_what_failed_and_what_to_do(tmp_path):
    workflow = Workflow(tmp_path)
    # So many completions that some are right, whatever the policy, and there is a gradient.
    diverges = {"grpo": {"learning_rate": 1e30, "prompts_per_iteration": 64, "group_size": 64}}
    target = "results/tables/weak_start.parquet"
    done = workflow.snakemake("--keep-going", overlay=diverges, targets=[target])
    assert done.returncode == 1
    _, _, summary = done.stderr.partition("error: 2 jobs failed.\n")
    for seed in (1, 2):
        keys = f"recipe=base, teacher=weak, beta=0, seed={seed}"
        log_file = tmp_path / f"results/logs/grpo/{keys.replace(', ', '/')}.log"
        assert f"\ngrpo {keys}\n  its log {log_file} ends:\n" in summary
    assert re.search(r"error: .*gradient_norm: not finite at iteration \d", summary)
    assert "It needs a smaller grpo.learning_rate." in summary
    assert "What to do: mend what the log names, then give the same command again." in summary
    done = workflow.snakemake(targets=[target])
    assert done.returncode == 0
    assert "localrule sft" not in done.stdout + done.stderr  # finished, and kept


@pytest.mark.parametrize(
    ("options", "said"),
    [([], "1 of 2 steps (50%) done"), (["--logger", "rich"], "Workflow Finished")],
)
def test_a_run_says_how_far_it_is(scratch, options, said):
    figure = scratch.folder / f"results/{FIGURES[0]}.pdf"
    figure.unlink()
    done = scratch.snakemake(*options)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout + done.stderr
    assert figure.exists()


def test_the_catalog_s_snakefile_is_the_workflow(finished, tmp_path):
    command = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "workflow" / "Snakefile"]
    done = subprocess.run(
        [*command, "--directory", tmp_path, "--dry-run", "--quiet", "rules"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "grpo" in done.stdout
