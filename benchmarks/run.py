"""Measure the plain implementation and ours, side by side in one run, on one thread.

    python benchmarks/run.py            the whole: half an hour, writes report.parquet and report.md
    python benchmarks/run.py --quick    a smoke test: seconds, writes nothing

The two sides alternate in short blocks, so that what else the machine does meets both.
"""

import argparse
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

import numpy as np
import plain
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml

from rlvr.config.methods.grpo import GrpoSettings
from rlvr.config.schedule import is_evaluated
from rlvr.config.settings.policy import PolicySettings
from rlvr.config.settings.whole import Config, load_config
from rlvr.jobs.records import column
from rlvr.methods.grpo import Batch, collect, update
from rlvr.methods.grpo import train as grpo_train
from rlvr.methods.sft import sft_loss
from rlvr.methods.sft import train as sft_train
from rlvr.policy.exam import averages, grade, prepare_exam
from rlvr.policy.policy import Policy
from rlvr.policy.sampling import rollout
from rlvr.task.addition import OUTPUT_CLASSES, PROMPT_LENGTH, draw_additions
from rlvr.task.rewards import rule
from rlvr.task.splits import split_prompts
from rlvr.task.streams import stream
from rlvr.task.teachers import demonstrations

HERE = Path(__file__).parent
CONFIG = HERE.parent / "config.yaml"
SEED = 42
EXACT = rule("exact")
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
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    one_dnn = (a, b, None, "none", [], "")  # faster than MKL on AMD's processors
    with torch.no_grad():
        products = (lambda: a @ b), (lambda: torch.ops.mkldnn._linear_pointwise(*one_dnn))
        best = min(_time(product) for product in products for _ in range(50))
    return 2 * 512**3 / best


def forward_flops(settings: PolicySettings, sequences: np.ndarray) -> float:
    """Products and sums that the logits after the prompt need, each distinct prefix once.

    Of linear maps alone: attention scores are few. The first layer's projection counts nothing,
    being a table of tokens and positions; the last layer needs keys and values everywhere, the rest
    of it only where a token is predicted. For the two layers of the default policy.
    """
    prefixes = [len(np.unique(sequences[:, : t + 1], axis=0)) for t in range(sequences.shape[1])]
    nodes, asked = sum(prefixes), sum(prefixes[PROMPT_LENGTH:])
    width = settings.width
    feed_forward = 2 * width * settings.feed_forward
    everywhere = width**2 + feed_forward + 2 * width**2
    where_asked = 2 * width**2 + feed_forward + OUTPUT_CLASSES * width
    return 2.0 * (nodes * everywhere + asked * where_asked)


def sequences_of(prompts: np.ndarray, completions: np.ndarray) -> np.ndarray:
    """What the policy reads: the prompt and all answer tokens but the last."""
    return np.concatenate([prompts, completions[:, :-1]], axis=1)


def update_flops(policy: PolicySettings, batch: Batch, settings: GrpoSettings) -> float:
    """Of the updates of an iteration: forward and backward of the completions that carry signal."""
    total = 0.0
    for epoch in range(settings.epochs):
        order = stream(SEED, "grpo_minibatches", epoch).permutation(len(batch.advantages))
        for indices in np.split(order, len(order) // settings.minibatch_size):
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
    grpo_job = config.job("base")
    settings = grpo_job.grpo.model_copy(update={"iterations": 2 if quick else LATE.start})
    grpo_job = grpo_job.model_copy(update={"grpo": settings})
    late = grpo_train(grpo_job, start, split_prompts(None), EXACT, 0.0, SEED)[0]

    def batches_of(policy: Policy, iterations: range) -> list[Batch]:
        return [collect(policy, start, EXACT, settings, 0.0, SEED, i)[0] for i in iterations]

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
    theirs, ours = plain.module_of(start), start.copy()
    adam = torch.optim.Adam(theirs.parameters(), lr=config.sft.learning_rate)
    our_adam = ours.adam(config.sft.learning_rate)
    plain_batches = cycle([tuple(map(torch.from_numpy, batch)) for batch in batches])
    our_batches = cycle(batches)
    flops = statistics.mean(
        3 * forward_flops(config.policy, sequences_of(*batch)) for batch in batches
    )

    def step() -> None:
        _, slopes = sft_loss(ours.log_probs(*next(our_batches)))
        ours.backward(slopes)
        our_adam.step()

    return Piece(
        "SFT step",
        lambda: plain.sft_step(theirs, adam, *next(plain_batches)),
        step,
        flops,
    )


def rollout_piece(policy: Policy, settings: GrpoSettings) -> Piece:
    """Sampling G completions for each prompt of an iteration, with their log-probabilities."""
    asked = draw_additions(settings.prompts_per_iteration, stream(SEED, "grpo_prompts", 1))
    prompts = asked.repeated(settings.group_size).prompts()
    sampled = rollout(policy, prompts, stream(SEED, "grpo_completions", 1))
    module, tokens = plain.module_of(policy), torch.from_numpy(prompts)

    def plainly() -> None:
        uniforms = stream(SEED, "grpo_completions", 1).random((3, len(prompts)))
        plain.rollout(module, tokens, torch.from_numpy(uniforms))

    return Piece(
        "rollout with log-probs",
        plainly,
        lambda: rollout(policy, prompts, stream(SEED, "grpo_completions", 1)),
        forward_flops(policy.settings, sequences_of(prompts, sampled.completions)),
    )


def update_piece(name: str, policy: Policy, batches: list[Batch], settings: GrpoSettings) -> Piece:
    """The updates of an iteration. The step size is tiny, so that the policy stays what it is."""
    theirs, ours = plain.module_of(policy), policy.copy()
    adam, our_adam = torch.optim.Adam(theirs.parameters(), lr=1e-9), ours.adam(1e-9)
    plain_batches, our_batches = cycle(batches), cycle(batches)

    def order() -> np.random.Generator:
        return stream(SEED, "grpo_minibatches", 1)

    return Piece(
        name,
        lambda: plain.update(theirs, adam, next(plain_batches), settings, 0.0, order()),
        lambda: update(ours, our_adam, next(our_batches), settings, 0.0, order()),
        statistics.mean(update_flops(policy.settings, batch, settings) for batch in batches),
    )


def evaluation_piece(policy: Policy) -> Piece:
    """Greedy accuracy: sampled on 2,048 prompts, against exact over all 10,000."""
    exam = prepare_exam(split_prompts(None).exam)  # once per run
    module = plain.module_of(policy)
    return Piece(
        "evaluation (plain: 2,048 sampled; ours: all 10,000)",
        lambda: plain.sampled_accuracy(module, stream(SEED, "grpo_prompts", 0)),
        lambda: averages(grade(policy, exam), exam),
        forward_flops(policy.settings, sequences_of(exam.prompts, exam.solutions)),
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
        + sum(is_evaluated(i, config.grpo) for i in range(weak + 1))
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
    torch.set_num_threads(1)
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
