"""Measure the plain implementation and ours, side by side in one run, on one thread.

    python benchmarks/run.py            the whole: half an hour, writes report.parquet and report.md
    python benchmarks/run.py --quick    a smoke test: seconds, writes nothing

The two sides alternate in short blocks, so that what else the machine does meets both.
"""

import argparse
import copy
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import plain
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml

from rlvr.config.methods.grpo import GrpoSettings
from rlvr.config.settings.whole import Config, load_config
from rlvr.jobs.records import column
from rlvr.methods.adam import FlatAdam
from rlvr.methods.grpo import Batch, collect, update
from rlvr.methods.grpo import train as grpo_train
from rlvr.methods.sft import sft_loss
from rlvr.methods.sft import train as sft_train
from rlvr.policy.device import prepare_torch
from rlvr.policy.exam import averages, grade, prepare_exam
from rlvr.policy.linear import linear
from rlvr.policy.prefix_tree import prefix_tree
from rlvr.policy.sampling import rollout
from rlvr.policy.transformer import Policy
from rlvr.task.addition import PROMPT_LENGTH, additions, draw_additions
from rlvr.task.splits import split_prompts
from rlvr.task.streams import stream
from rlvr.task.teachers import demonstrations

HERE = Path(__file__).parent
CONFIG = HERE.parent / "config.yaml"
SEED = 42
LATE = range(150, 160)  # GRPO iterations that stand for the late ones
FIGURES = [  # document A's; the config has runs of other documents too
    f"results/{figure}.pdf"
    for figure in ("fig1_rlvr_overturns", "fig2_unhackable_reward", "fig3_cold_start")
]

REPORT = pa.schema(
    [
        column("piece", pa.string(), "name", "what was measured"),
        column("plain_ms", pa.float64(), "ms", "the plain implementation"),
        column("ours_ms", pa.float64(), "ms", "ours"),
        column("ratio", pa.float64(), "1", "plain_ms / ours_ms"),
        column("limit_ms", pa.float64(), "ms", "needed arithmetic at this core's measured peak"),
    ]
)


class Piece(NamedTuple):
    """A piece of work in both implementations, and the floating-point operations that it needs."""

    name: str
    plain: Callable[[], object]
    ours: Callable[[], object]
    flops: float


# --- Arithmetic ---------------------------------------------------------------------------------


def peak_flops() -> float:
    """Operations per second of one thread in a good matrix product, by the better library."""
    a, b, none = torch.randn(512, 512), torch.randn(512, 512), torch.zeros(512)
    with torch.no_grad():
        products = (lambda: a @ b), (lambda: linear(a, b, none))
        best = min(_time(product) for product in products for _ in range(50))
    return 2 * 512**3 / best


def forward_flops(policy: Policy, sequences: torch.Tensor) -> float:
    """Products and sums that the logits after the prompt need, each distinct prefix once.

    Of linear maps alone: attention scores are few. The first layer's projection counts nothing,
    being a table of tokens and positions; the last layer needs keys and values everywhere, the rest
    of it only where a token is predicted. For the two layers of the default policy.
    """
    tree = prefix_tree(sequences, PROMPT_LENGTH, policy.head.weight)
    nodes, asked = len(tree.inner.rows), len(tree.outer.rows)
    layer = policy.layers[0]
    width = layer.linear1.in_features
    feed_forward = 2 * width * layer.linear1.out_features
    everywhere = width**2 + feed_forward + 2 * width**2
    where_asked = 2 * width**2 + feed_forward + policy.head.weight.numel()
    return 2.0 * (nodes * everywhere + asked * where_asked)


def sequences_of(prompts: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    """What the policy reads: the prompt and all answer tokens but the last."""
    return torch.cat([prompts, answers[:, :-1]], dim=1)


def update_flops(policy: Policy, batch: Batch, settings: GrpoSettings) -> float:
    """Of the updates of an iteration: forward and backward of the completions that carry signal."""
    total = 0.0
    for epoch in range(settings.epochs):
        order = torch.randperm(
            len(batch.advantages), generator=stream(SEED, "grpo_minibatches", epoch)
        )
        for indices in order.split(settings.minibatch_size):
            live = indices[batch.advantages[indices] != 0]
            if len(live):
                sequences = sequences_of(batch.prompts[live], batch.completions[live])
                total += 3 * forward_flops(policy, sequences)
    return total


# --- Pieces -------------------------------------------------------------------------------------


def pieces(config: Config, quick: bool) -> list[Piece]:
    """Everything that document A's runs consist of, at real weights."""
    job = config.sft_job("weak")
    if quick:
        job = job.model_copy(update={"sft": job.sft.model_copy(update={"steps": 20})})
    start = sft_train(job, SEED)[0]
    reference = copy.deepcopy(start).requires_grad_(False)
    grpo_job = config.job("base")
    settings = grpo_job.grpo.model_copy(update={"iterations": 2 if quick else LATE.start})
    grpo_job = grpo_job.model_copy(update={"grpo": settings})
    late = grpo_train(grpo_job, copy.deepcopy(reference), split_prompts(None), 0.0, SEED)[0]

    def batches_of(policy: Policy, iterations: range) -> list[Batch]:
        return [collect(policy, reference, settings, 0.0, SEED, i)[0] for i in iterations]

    early_batches, late_batches = batches_of(start, range(1, 11)), batches_of(late, LATE)
    silent = [batch._replace(advantages=batch.advantages * 0) for batch in late_batches]
    return [
        sft_piece(config, start),
        rollout_piece(start, settings),
        update_piece("update, early", start, early_batches, settings),
        update_piece("update, late", late, late_batches, settings),
        update_piece("update, all zero-signal", late, silent, settings),
        evaluation_piece(late),
    ]


def sft_piece(config: Config, start: Policy) -> Piece:
    """A step of SFT: loss, gradient, Adam."""
    batches = []
    for step in range(20):
        generator = stream(SEED, "sft_batch", step)
        asked = draw_additions(config.sft.batch_size, generator)
        shown = demonstrations(config.teachers["weak"], asked, generator)
        batches.append((asked.prompts(), shown))
    theirs, ours = copy.deepcopy(start), copy.deepcopy(start)
    adam = torch.optim.Adam(theirs.parameters(), lr=config.sft.learning_rate)
    flat = FlatAdam(ours, config.sft.learning_rate)
    plain_batches, our_batches = cycle(batches), cycle(batches)
    flops = statistics.mean(3 * forward_flops(start, sequences_of(*batch)) for batch in batches)
    return Piece(
        "SFT step",
        lambda: plain.sft_step(theirs, adam, *next(plain_batches)),
        lambda: flat.step(sft_loss(ours, *next(our_batches))),
        flops,
    )


def rollout_piece(policy: Policy, settings: GrpoSettings) -> Piece:
    """Sampling G completions for each prompt of an iteration, with their log-probabilities."""
    asked = draw_additions(settings.prompts_per_iteration, stream(SEED, "grpo_prompts", 1))
    prompts = asked.repeated(settings.group_size).prompts()
    sampled = rollout(policy, prompts, stream(SEED, "grpo_completions", 1))
    return Piece(
        "rollout with log-probs",
        lambda: plain.rollout(policy, prompts, stream(SEED, "grpo_completions", 1)),
        lambda: rollout(policy, prompts, stream(SEED, "grpo_completions", 1)),
        forward_flops(policy, sequences_of(prompts, sampled.completions)),
    )


def update_piece(name: str, policy: Policy, batches: list[Batch], settings: GrpoSettings) -> Piece:
    """The updates of an iteration. The step size is tiny, so that the policy stays what it is."""
    theirs, ours = copy.deepcopy(policy), copy.deepcopy(policy)
    adam = torch.optim.Adam(theirs.parameters(), lr=1e-9)
    flat = FlatAdam(ours, 1e-9)
    plain_batches, our_batches = cycle(batches), cycle(batches)

    def order() -> torch.Generator:
        return stream(SEED, "grpo_minibatches", 1)

    return Piece(
        name,
        lambda: plain.update(theirs, adam, next(plain_batches), settings, 0.0, order()),
        lambda: update(ours, flat, next(our_batches), settings, 0.0, order()),
        statistics.mean(update_flops(policy, batch, settings) for batch in batches),
    )


def evaluation_piece(policy: Policy) -> Piece:
    """Greedy accuracy: sampled on 2,048 prompts, against exact over all 10,000."""
    prompts = split_prompts(None).exam
    exam = prepare_exam(prompts, policy.head.weight)  # once per run
    asked = additions(prompts)
    return Piece(
        "evaluation (plain: 2,048 sampled; ours: all 10,000)",
        lambda: plain.sampled_accuracy(policy, stream(SEED, "grpo_prompts", 0)),
        lambda: averages(grade(policy, exam), exam),
        forward_flops(policy, sequences_of(asked.prompts(), asked.solutions())),
    )


# --- Measuring ----------------------------------------------------------------------------------


def _time(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(piece: Piece, rounds: int, peak: float) -> dict[str, object]:
    """A row of the report: medians over rounds of ten calls of each side in turn."""

    def block(work: Callable[[], object]) -> float:
        return _time(lambda: [work() for _ in range(10)]) / 10

    piece.plain(), piece.ours()
    times = [(block(piece.plain), block(piece.ours)) for _ in range(rounds)]
    theirs, ours = (1e3 * statistics.median(side) for side in zip(*times, strict=True))
    return row(piece.name, theirs, ours, 1e3 * piece.flops / peak)


def row(piece: str, plain_ms: float, ours_ms: float, limit_ms: float) -> dict[str, object]:
    """A row of the report."""
    ratio = plain_ms / ours_ms
    return {
        "piece": piece,
        "plain_ms": plain_ms,
        "ours_ms": ours_ms,
        "ratio": ratio,
        "limit_ms": limit_ms,
    }


def document_a(config: Config, limits: dict[str, float]) -> tuple[list[dict], float]:
    """Rows for the whole of document A, and the largest memory of a training job in MB.

    Plain: one process, on one thread for CPU seconds, and on two for the wall time. Ours: the
    workflow on two cores, all its processes included, for document A's figures alone.
    """

    def plain_run(threads: int) -> dict:
        command = [sys.executable, HERE / "plain.py", CONFIG, str(threads)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    one, two = plain_run(1), plain_run(2)
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "snakemake", "--snakefile", HERE.parent / "Snakefile"]
        arguments = ["--directory", folder, "--cores", "2", "--quiet", "all", "--", *FIGURES]
        wall = _time(
            lambda: subprocess.run([*command, *arguments], check=True, capture_output=True)
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        files = [*Path(folder).glob("results/benchmarks/sft/**/*.jsonl")]
        files += Path(folder).glob("results/benchmarks/grpo/**/*.jsonl")
        memory = max(json.loads(file.read_text())["max_rss"] for file in files)

    seeds = len(config.seeds)
    weak, cold = config.grpo.iterations, config.job("short").grpo.iterations
    limit = seeds * (
        2 * config.sft.steps * limits["SFT step"]
        + weak * (2 * limits["rollout with log-probs"] + limits["update, late"])
        + cold * 2 * limits["rollout with log-probs"]
        + weak
        / config.grpo.evaluate_every
        * next(v for k, v in limits.items() if "evaluation" in k)
    )
    return [
        row("document A, CPU time (plain: 1 thread)", 1e3 * one["cpu"], 1e3 * cpu, limit),
        row("document A, wall time (plain: 2 threads)", 1e3 * two["wall"], 1e3 * wall, limit / 2),
    ], memory


def as_markdown(rows: list[dict], peak: float, memory: float) -> str:
    """The report for people."""
    lines = [
        "| piece | plain | ours | ratio | limit |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {r['piece']} | {_span(r['plain_ms'])} | {_span(r['ours_ms'])} | "
            f"{r['ratio']:.1f}× | {_span(r['limit_ms'])} |"
            for r in rows
        ),
        "",
        f"Machine: {_cpu()}, {os.cpu_count()} cores, no GPU; {platform.system()}, Python "
        f"{platform.python_version()}, torch {torch.__version__}. One thread does "
        f"{peak / 1e9:.0f} GFLOP/s in matrix products; *limit* is the arithmetic that the "
        "algorithm needs, each distinct prefix once, at that speed. "
        f"Largest memory of a training job: {memory:.0f} MB.",
        "",
    ]
    return "\n".join(lines)


def _span(ms: float) -> str:
    return f"{ms / 1e3:.3g} s" if ms >= 1_000 else f"{ms:.3g} ms"


def _cpu() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    names = [
        line.split(":", 1)[1].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    """Measure, print, and write the report unless `--quick`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke test that writes nothing")
    quick = parser.parse_args().quick
    prepare_torch("cpu")
    config = load_config(yaml.safe_load(CONFIG.read_text()))
    peak = peak_flops()
    rows = []
    for piece in pieces(config, quick):
        rows.append(measure(piece, 1 if quick else 15, peak))
        print("{piece}: {plain_ms:.2f} ms, {ours_ms:.2f} ms, {ratio:.2f}x".format(**rows[-1]))
    if quick:
        return
    limits = {r["piece"]: r["limit_ms"] for r in rows}
    whole, memory = document_a(config, limits)
    rows += whole
    pq.write_table(pa.Table.from_pylist(rows, REPORT), HERE / "report.parquet")
    report = as_markdown(rows, peak, memory)
    (HERE / "report.md").write_text(report, encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
