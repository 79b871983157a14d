"""SFT: imitate a teacher's answers, from random weights. One run of one (teacher, seed).

python -m rlvr.methods.sft --help
"""

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from rlvr.config.methods.sft import SftJob
from rlvr.config.runs import SftRun
from rlvr.errors import UserError
from rlvr.jobs import command_line
from rlvr.jobs.progress import Progress
from rlvr.jobs.records import column, provenance, write_parquet
from rlvr.methods.adam import FlatAdam
from rlvr.policy.checkpoints import save_policy
from rlvr.policy.device import prepare_torch
from rlvr.policy.exam import averages, grade, prepare_exam
from rlvr.policy.transformer import Policy, initial_policy
from rlvr.task.addition import draw_additions
from rlvr.task.splits import split_prompts
from rlvr.task.streams import stream
from rlvr.task.teachers import demonstrations

log = logging.getLogger("rlvr.methods.sft")

LOSS_EVERY = 100  # steps; reading it waits for the device

SFT_METRICS = pa.schema(
    [
        column("step", pa.int64(), "optimiser steps", "step of SFT, from 1"),
        column("loss", pa.float64(), "nats per token", "mean cross-entropy of the completions"),
        column(
            "validation_accuracy",
            pa.float64(),
            "fraction",
            "greedy, exact over the validation prompts; where the stopping rule looked",
        ),
        column("accuracy", pa.float64(), "fraction", "greedy, exact over all prompts; last step"),
        column("accuracy_carry", pa.float64(), "fraction", "the same over the carry prompts"),
        column(
            "success_probability",
            pa.float64(),
            "probability",
            "of sampling the solution, mean over all prompts; last step",
        ),
        column(
            "success_probability_carry",
            pa.float64(),
            "probability",
            "the same over the carry prompts",
        ),
    ]
)


def sft_loss(policy: Policy, prompts: Tensor, completions: Tensor) -> Tensor:
    """Mean cross-entropy per token, nats, of `completions` (n, 3) after `prompts` (n, 7)."""
    return -policy.log_probs(prompts, completions).mean()


def check_finite(losses: list[Tensor]) -> None:
    """Raise a `UserError` where the loss of a step is not a finite number."""
    wrong = (~torch.stack(losses).isfinite()).nonzero().flatten().tolist()
    if wrong:
        raise UserError(
            f"the loss is not finite at step {wrong[0] + 1}: training has diverged. "
            "It needs a smaller sft.learning_rate."
        )


def train(job: SftJob, seed: int) -> tuple[Policy, list[dict[str, Any]]]:
    """The trained policy, and a metrics row per step (see `SFT_METRICS`).

    Raises a `UserError` where training diverges, or never fulfils the teacher's stopping rule.
    """
    device = prepare_torch(job.device)
    policy = initial_policy(job.policy, seed).to(device)
    optimizer = FlatAdam(policy, job.sft.learning_rate)
    weights, stopping = policy.head.weight, job.teacher.stopping
    split = split_prompts(job.teacher.split)
    validation = prepare_exam(split.validation, weights) if stopping else None

    losses, validated = [], {}
    with Progress(job.sft.steps, "step") as steps:
        for step in steps:
            generator = stream(seed, "sft_batch", step)
            asked = draw_additions(job.sft.batch_size, generator, split.train)
            shown = demonstrations(job.teacher, asked, generator)
            loss = sft_loss(policy, asked.prompts(), shown)
            optimizer.step(loss)
            losses.append(loss.detach())
            if step % LOSS_EVERY == 0 or step == job.sft.steps:
                steps.set_postfix_str(f"loss {losses[-1]:.4f}", refresh=False)
                check_finite(losses)
            if stopping and step % stopping.every == 0:
                validated[step] = averages(grade(policy, validation), validation)["accuracy"]
                if validated[step] >= stopping.validation_accuracy:
                    break
    if stopping and not (validated and max(validated.values()) >= stopping.validation_accuracy):
        raise UserError(
            f"no check found a validation accuracy of {stopping.validation_accuracy} within "
            f"{job.sft.steps} steps. Give SFT more steps (sft.steps), or the teacher another "
            "stopping rule."
        )
    check_finite(losses)
    rows = [
        {"step": step, "loss": loss, "validation_accuracy": validated.get(step)}
        for step, loss in enumerate(torch.stack(losses).tolist(), 1)
    ]
    exam = prepare_exam(split.exam, weights)
    rows[-1].update(averages(grade(policy, exam), exam))
    log.info("greedy accuracy %.4f after %d steps", rows[-1]["accuracy"], len(rows))
    return policy, rows


class SftStage(SftJob, command_line.Stage):
    """Train a policy to imitate a teacher (SFT)."""

    run: SftRun
    """Keys of this run."""
    policy_out: Path
    """The weights to write (safetensors)."""
    metrics_out: Path
    """The metrics to write (Parquet)."""

    def cli_cmd(self) -> None:
        """Train, then write weights and metrics."""
        policy, rows = train(self, self.run.seed)
        made_by = provenance(
            "rlvr.methods.sft",
            self.run.model_dump(),
            self.model_dump(include=set(SftJob.model_fields)),
            parameters=policy.parameter_count(),
        )
        save_policy(policy, self.policy_out, made_by)
        write_parquet(self.metrics_out, rows, SFT_METRICS, made_by)


if __name__ == "__main__":
    command_line.run(SftStage)
