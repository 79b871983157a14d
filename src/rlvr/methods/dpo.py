"""Direct preference optimisation (DPO) from an SFT policy: one (recipe, teacher, beta, seed).

Rafailov et al. 2023 (arXiv:2305.18290): a policy learns from labelled pairs, without a reward
model; beta holds it to the SFT policy.

    python -m rlvr.methods.dpo --help
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlvr.config.methods.dpo import DpoJob
from rlvr.config.runs import PreferencesRun
from rlvr.config.schedule import is_evaluated
from rlvr.errors import UserError
from rlvr.jobs import command_line
from rlvr.jobs.progress import Progress
from rlvr.methods.columns import METRICS
from rlvr.methods.pairs import Pairs, read_pairs
from rlvr.methods.preference_losses import log_sigmoid_loss
from rlvr.methods.run_stage import RunStage, check_start, read_start
from rlvr.policy.exam import averages, grade, kl_floor, prepare_exam
from rlvr.policy.policy import Policy
from rlvr.policy.sampling import rollout
from rlvr.task.addition import COMPLETION_LENGTH, draw_additions
from rlvr.task.splits import Split
from rlvr.task.streams import stream


def log_probs_of(policy: Policy, pairs: Pairs) -> np.ndarray:
    """Log-probabilities of the chosen and the rejected completions (2, n): sums over tokens."""
    each = policy.log_probs(pairs.prompts(), pairs.completions())
    return each.sum(axis=1, dtype=np.float64).reshape(2, -1)


def dpo_loss(log_ratios: np.ndarray, beta: float) -> tuple[float, np.ndarray]:
    """The loss of log-ratios to the reference, chosen and rejected (2, n); nats per pair.

    -log sigmoid(beta (chosen - rejected)), Rafailov et al. 2023, equation 7; and its slopes by each
    log-ratio, or log-probability of the policy (2, n).
    """
    loss, slopes = log_sigmoid_loss(beta * (log_ratios[0] - log_ratios[1]))
    return loss, beta * np.stack([slopes, -slopes])


class Looks(NamedTuple):
    """What an evaluation looks at, the same each time but for the completions of the KL."""

    reference: Policy
    fresh: Pairs
    fresh_log_probs_ref: np.ndarray
    """Of the fresh pairs (2, n)."""

    def measure(self, policy: Policy, asked: np.ndarray, generator: Any) -> dict[str, float]:
        """The sampled KL and entropy on prompts (n, 7), and the log-ratios of fresh pairs."""
        sampled = rollout(policy, asked, generator)
        log_probs_ref = self.reference.log_probs(asked, sampled.completions)
        kl = np.subtract(sampled.log_probs, log_probs_ref, dtype=np.float64).sum(axis=1)
        chosen, rejected = log_probs_of(policy, self.fresh) - self.fresh_log_probs_ref
        return {
            "kl": kl.mean().item(),
            "entropy": sampled.entropy.sum(axis=1, dtype=np.float64).mean().item(),
            "log_ratio_chosen": chosen.mean().item(),
            "log_ratio_rejected": rejected.mean().item(),
            "preference_accuracy": (chosen > rejected).mean().item(),
        }


def train(
    job: DpoJob,
    sft_policy: Policy,
    split: Split,
    pairs: Pairs,
    fresh: Pairs,
    beta: float,
    seed: int,
) -> tuple[Policy, list[dict[str, Any]]]:
    """The trained policy, and a metrics row per step from 0 (see `METRICS`).

    Raises a `UserError` where training diverges.
    """
    settings = job.dpo
    policy, reference = sft_policy.copy(), sft_policy
    optimizer = policy.adam(settings.learning_rate)
    log_probs_ref = log_probs_of(reference, pairs)
    looks = Looks(reference, fresh, log_probs_of(reference, fresh))
    exam = prepare_exam(split.exam)
    start = grade(reference, exam)

    def evaluate(step: int) -> dict[str, float]:
        asked = draw_additions(
            settings.kl_completions, stream(seed, "dpo_kl_prompts", step), split.train
        )
        grades = grade(policy, exam)
        return {
            **averages(grades, exam),
            "kl_floor": kl_floor(grades, start),
            **looks.measure(policy, asked.prompts(), stream(seed, "dpo_kl_completions", step)),
        }

    rows = [{"iteration": 0, **evaluate(0)}]
    with Progress(settings.iterations, "step") as steps:
        for step in steps:
            drawn = stream(seed, "dpo_batch", step).integers(
                len(pairs.chosen), size=settings.batch_size
            )
            log_ratios = log_probs_of(policy, pairs.taken(drawn)) - log_probs_ref[:, drawn]
            loss, slopes = dpo_loss(log_ratios, beta)
            if not np.isfinite(loss):
                raise UserError(
                    f"the loss is not finite at step {step}: training has diverged. It needs a "
                    "smaller dpo.learning_rate."
                )
            policy.backward(np.repeat(slopes.reshape(-1, 1), COMPLETION_LENGTH, axis=1))
            rows.append({"iteration": step, "loss": loss, "gradient_norm": optimizer.step()})
            if is_evaluated(step, settings):
                rows[-1] |= evaluate(step)
                steps.set_postfix_str(
                    f"greedy accuracy {rows[-1]['accuracy']:.4f}, KL {rows[-1]['kl']:.3f} nats",
                    refresh=False,
                )
    return policy, rows


class DpoStage(DpoJob, RunStage):
    """Train a policy by direct preference optimisation (DPO) on labelled pairs."""

    pairs: Path
    """The pairs to learn from (Parquet)."""
    fresh_pairs: Path
    """The pairs to judge it on (Parquet)."""

    def cli_cmd(self) -> None:
        """Train, then write weights and metrics."""
        if not self.run.beta:
            raise UserError("beta is 0, at which DPO has nothing to learn: name one above 0")
        start = read_start(self.sft_policy, self)
        check_start(self.sft_policy, start, self.run.start)
        source = PreferencesRun(
            labels=self.dpo.labels, pairs=self.dpo.pairs, **self.run.start.model_dump()
        )
        pairs, made_pairs = read_pairs(self.pairs, source)
        fresh, _ = read_pairs(self.fresh_pairs, source)
        policy, rows = train(
            self, start.policy, start.split, pairs, fresh, self.run.beta, self.run.seed
        )
        self.write(policy, rows, METRICS, start, preferences=made_pairs)


if __name__ == "__main__":
    command_line.run(DpoStage)
