"""A reward model: the policy's Transformer with a scalar head, learned from labelled pairs.

It starts from the SFT weights; the loss is that of Bradley and Terry (1952), as in Stiennon et al.
2020 (arXiv:2009.01325), equation 1.

    python -m rlvr.methods.reward_model --help
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr.config.methods.reward_model import RewardModelJob
from rlvr.config.runs import PreferencesRun, RewardModelRun
from rlvr.errors import UserError
from rlvr.jobs import command_line
from rlvr.jobs.progress import Progress
from rlvr.jobs.records import column, provenance, write_parquet
from rlvr.methods.pairs import Pairs, read_pairs
from rlvr.methods.preference_losses import log_sigmoid_loss
from rlvr.methods.run_stage import check_start, read_start
from rlvr.policy.checkpoints import save_policy
from rlvr.policy.policy import Policy
from rlvr.policy.scores import SCORE_HEAD, ScoreModel
from rlvr.task.streams import stream

log = logging.getLogger("rlvr.methods.reward_model")

REWARD_MODEL_METRICS = pa.schema(
    [
        column("step", pa.int64(), "optimiser steps", "step of training, from 1"),
        column("loss", pa.float64(), "nats per pair", "Bradley-Terry, mean of the step's pairs"),
        column(
            "accuracy",
            pa.float64(),
            "fraction",
            "pairs to learn from whose chosen completion scores higher",
        ),
        column("accuracy_fresh", pa.float64(), "fraction", "the same of fresh pairs"),
    ]
)


def margins(model: ScoreModel, pairs: Pairs) -> np.ndarray:
    """By how much the chosen completion of each pair scores higher than the rejected one (n,)."""
    scores = model.score(pairs.prompts(), pairs.completions())
    chosen, rejected = np.split(scores, 2)
    return chosen - rejected


def train(
    job: RewardModelJob, sft_policy: Policy, pairs: Pairs, fresh: Pairs, seed: int
) -> tuple[ScoreModel, list[dict[str, Any]]]:
    """The trained model, and a metrics row per step (see `REWARD_MODEL_METRICS`).

    Raises a `UserError` where training diverges.
    """
    settings, reward = job.reward_model, job.reward
    model = ScoreModel(sft_policy.copy())
    optimizer = model.adam(reward.learning_rate, settings.weight_decay)
    rows = []
    with Progress(reward.steps, "step") as steps:
        for step in steps:
            drawn = stream(seed, "reward_model_batch", step).integers(
                len(pairs.chosen), size=settings.batch_size
            )
            loss, slopes = log_sigmoid_loss(margins(model, pairs.taken(drawn)))
            if not np.isfinite(loss):
                raise UserError(
                    f"the loss is not finite at step {step}: training has diverged. It needs a "
                    "smaller learning rate (rewards)."
                )
            model.backward(np.concatenate([slopes, -slopes])[:, np.newaxis])
            optimizer.step()
            rows.append({"step": step, "loss": loss})
            if step % settings.evaluate_every == 0 or step == reward.steps:
                right = [(margins(model, one) > 0).mean().item() for one in (pairs, fresh)]
                rows[-1] |= dict(zip(("accuracy", "accuracy_fresh"), right, strict=True))
                steps.set_postfix_str(f"accuracy on fresh pairs {right[1]:.3f}", refresh=False)
    log.info("accuracy on fresh pairs %.4f after %d steps", right[1], len(rows))
    return model, rows


class RewardModelStage(RewardModelJob, command_line.Stage):
    """Train a reward model on labelled pairs."""

    run: RewardModelRun
    """Keys of this run."""
    sft_policy: Path
    """The SFT weights to start from (safetensors)."""
    pairs: Path
    """The pairs to learn from (Parquet)."""
    fresh_pairs: Path
    """The pairs to judge it on (Parquet)."""
    model_out: Path
    """The weights to write (safetensors)."""
    metrics_out: Path
    """The metrics to write (Parquet)."""

    def cli_cmd(self) -> None:
        """Train, then write weights and metrics."""
        start = read_start(self.sft_policy, self)
        check_start(self.sft_policy, start, self.run)
        source = PreferencesRun(
            labels=self.reward.labels, pairs=self.reward.pairs, **self.run.start.model_dump()
        )
        pairs, made_pairs = read_pairs(self.pairs, source)
        fresh, _ = read_pairs(self.fresh_pairs, source)
        model, rows = train(self, start.policy, pairs, fresh, self.run.seed)
        made_by = provenance(
            "rlvr.methods.reward_model",
            self.run.model_dump(),
            self.model_dump(include=set(RewardModelJob.model_fields)),
            self.modules(),
            sft=start.made_by,
            preferences=made_pairs,
        )
        save_policy(model.transformer, self.model_out, made_by, **{SCORE_HEAD: model.head})
        write_parquet(self.metrics_out, rows, REWARD_MODEL_METRICS, made_by)


if __name__ == "__main__":
    command_line.run(RewardModelStage)
