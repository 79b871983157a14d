"""SFT: imitate a teacher's answers, from random weights. One run of one (teacher, seed).

python -m rlvr.methods.sft --help
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr.config.methods.sft import SftJob
from rlvr.config.runs import SftRun
from rlvr.errors import UserError
from rlvr.jobs import command_line
from rlvr.jobs.progress import Progress
from rlvr.jobs.records import column, provenance, write_parquet
from rlvr.policy.checkpoints import save_policy
from rlvr.policy.engines import policy_on
from rlvr.policy.exam import averages, grade, prepare_exam
from rlvr.policy.parameters import initial_values
from rlvr.policy.policy import Policy
from rlvr.task.addition import draw_additions
from rlvr.task.splits import split_prompts
from rlvr.task.streams import stream
from rlvr.task.teachers import demonstrations

log = logging.getLogger("rlvr.methods.sft")

LOSS_EVERY = 100  # steps between two looks at it

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


def sft_loss(log_probs: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean cross-entropy per token, nats, of tokens with these log-probabilities (n, 3).

    And its slopes by them (n, 3).
    """
    return -log_probs.mean(dtype=np.float64).item(), np.full_like(log_probs, -1 / log_probs.size)


def check_finite(losses: list[float]) -> None:
    """Raise a `UserError` where the loss of a step is not a finite number."""
    wrong = np.flatnonzero(~np.isfinite(losses))
    if len(wrong):
        raise UserError(
            f"the loss is not finite at step {wrong[0] + 1}: training has diverged. "
            "It needs a smaller sft.learning_rate."
        )


def train(job: SftJob, seed: int) -> tuple[Policy, list[dict[str, Any]]]:
    """The trained policy, and a metrics row per step (see `SFT_METRICS`).

    Raises a `UserError` where training diverges, or never fulfils the teacher's stopping rule.
    """
    policy = policy_on(job, job.policy, initial_values(job.policy, seed))
    optimizer = policy.adam(job.sft.learning_rate)
    stopping = job.teacher.stopping
    split = split_prompts(job.teacher.split)
    validation = prepare_exam(split.validation) if stopping else None

    losses, validated = [], {}
    with Progress(job.sft.steps, "step") as steps:
        for step in steps:
            generator = stream(seed, "sft_batch", step)
            asked = draw_additions(job.sft.batch_size, generator, split.train)
            shown = demonstrations(job.teacher, asked, generator)
            loss, slopes = sft_loss(policy.log_probs(asked.prompts(), shown))
            policy.backward(slopes)
            optimizer.step()
            losses.append(loss)
            if step % LOSS_EVERY == 0 or step == job.sft.steps:
                steps.set_postfix_str(f"loss {loss:.4f}", refresh=False)
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
        for step, loss in enumerate(losses, 1)
    ]
    exam = prepare_exam(split.exam)
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
            self.modules(),
            parameters=len(policy.values),
        )
        save_policy(policy, self.policy_out, made_by)
        write_parquet(self.metrics_out, rows, SFT_METRICS, made_by)


if __name__ == "__main__":
    command_line.run(SftStage)
