"""GRPO on a reward, from an SFT checkpoint. One run of one (recipe, teacher, beta, seed).

Group-relative policy optimisation is from DeepSeekMath (Shao et al. 2024, arXiv:2402.03300); the
clipped surrogate is PPO's (Schulman et al. 2017, arXiv:1707.06347). The settings' names are theirs.

    python -m rlvr.methods.grpo --help
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlvr.config.methods.grpo import GrpoJob, GrpoSettings, KlEstimator
from rlvr.config.schedule import is_evaluated
from rlvr.elementary import exp, expm1
from rlvr.errors import UserError
from rlvr.jobs import command_line
from rlvr.jobs.progress import Progress
from rlvr.methods.columns import METRICS
from rlvr.methods.rewards import prepare_reward
from rlvr.methods.run_stage import RunStage, check_start, read_start
from rlvr.policy.exam import averages, grade, kl_floor, prepare_exam
from rlvr.policy.policy import Optimizer, Policy
from rlvr.policy.sampling import rollout
from rlvr.task.addition import COMPLETION_LENGTH, draw_additions
from rlvr.task.rewards import Reward
from rlvr.task.rewards.exact import reward as is_right
from rlvr.task.splits import Split
from rlvr.task.streams import stream


def reward_advantages(rewards: np.ndarray, settings: GrpoSettings) -> np.ndarray:
    """Advantages (groups, G) of rewards (groups, G), of one of these kinds.

    - `group_std`: (r - group mean) / (group std + epsilon); Shao et al. 2024, section 4.1.2.
    - `group_mean`: r - group mean; Dr. GRPO, Liu et al. 2025, arXiv:2503.20783.
    - `rloo`: r - mean of the group's others; Ahmadian et al. 2024, arXiv:2402.14740.
    - `batch`: (r - batch mean) / (batch std + epsilon): one baseline for all prompts, document A's
      contrast.

    Standard deviations have Bessel's correction. Equal rewards of a group, or for `batch` of all
    groups, give exactly 0.
    """
    if settings.advantages == "batch":
        return _centred(rewards, None) / (rewards.std(ddof=1) + settings.advantage_epsilon)
    centred = _centred(rewards, 1)
    if settings.advantages == "rloo":
        return centred * (settings.group_size / (settings.group_size - 1))
    if settings.advantages == "group_mean":
        return centred
    return centred / (rewards.std(axis=1, ddof=1, keepdims=True) + settings.advantage_epsilon)


def _centred(rewards: np.ndarray, axis: int | None) -> np.ndarray:
    """Rewards less their mean; exactly 0 where they are equal, which rounding a mean may spoil."""
    equal = rewards.min(axis=axis, keepdims=True) == rewards.max(axis=axis, keepdims=True)
    return np.where(equal, 0.0, rewards - rewards.mean(axis=axis, keepdims=True))


def kl_estimate(
    log_probs_new: np.ndarray, log_probs_ref: np.ndarray, kl_estimator: KlEstimator
) -> tuple[np.ndarray, np.ndarray]:
    """KL(policy || reference) estimated at each sampled token, nats; same shape as both.

    And its slope by each of log_probs_new. Of each token, given those before it. With
    d = log_probs_ref - log_probs_new: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - 1 - d; Schulman 2020,
    "Approximating KL divergence". In a loss it is their gradients that count: that of k1 is 0 on
    average over samples of the policy, that of k2 the gradient of this KL, and that of k3 the
    gradient of KL(reference || policy) (Tang & Munos 2025, arXiv:2506.09477).
    """
    d = log_probs_ref - log_probs_new
    if kl_estimator == "k1":
        return -d, np.ones_like(d)
    if kl_estimator == "k2":
        return d * d / 2, -d
    rise = expm1(d)
    return rise - d, -rise


class Batch(NamedTuple):
    """The completions of one iteration, n = prompts x G of them, groups together."""

    prompts: np.ndarray
    """Tokens (n, 7)."""
    completions: np.ndarray
    """Tokens (n, 3)."""
    log_probs_old: np.ndarray
    """Of each token under the policy that sampled it (n, 3)."""
    log_probs_ref: np.ndarray
    """The same under the reference policy (n, 3)."""
    rewards: np.ndarray
    """(n,)"""
    advantages: np.ndarray
    """(n,)"""


class Losses(NamedTuple):
    """What each of n completions adds, before the mean over completions."""

    loss: np.ndarray
    """(n,)"""
    slopes: np.ndarray
    """The loss's slope by each of the completion's log_probs_new (n, 3)."""
    clipped: np.ndarray
    """Share of its ratios whose gradient the clipping removes (n,)."""


def completion_losses(
    log_probs_new: np.ndarray, batch: Batch, settings: GrpoSettings, beta: float
) -> Losses:
    """The clipped surrogate of each completion and, where it belongs there, beta times the KL.

    -min(ratio A, clip(ratio) A), Schulman et al. 2017, equation 7; with one ratio per token, the
    mean over tokens, as in DeepSeekMath. Different bounds below and above are DAPO's (Yu et al.
    2025, arXiv:2503.14476). The slope of a ratio by its log-probabilities is the ratio itself. The
    KL is summed over tokens: nats per sequence.
    """
    log_ratio = np.subtract(log_probs_new, batch.log_probs_old, dtype=np.float64)
    if settings.ratio == "sequence":
        log_ratio = log_ratio.sum(axis=1, keepdims=True)
    ratio, advantages = exp(log_ratio), batch.advantages[:, np.newaxis]
    low, high = 1 - settings.clip_epsilon_low, 1 + settings.clip_epsilon_high
    objective, ratios = ratio * advantages, ratio.shape[1]
    within = np.minimum(np.maximum(ratio, low), high) * advantages
    loss = -np.minimum(objective, within).sum(axis=1) / ratios
    clipped = ((ratio > high) & (advantages > 0)) | ((ratio < low) & (advantages < 0))
    slopes = np.where(clipped, 0, -objective / ratios) * np.ones(COMPLETION_LENGTH)
    if beta and settings.kl_placement == "loss":
        kl, kl_slopes = kl_estimate(
            log_probs_new.astype(np.float64), batch.log_probs_ref, settings.kl_estimator
        )
        loss, slopes = loss + beta * kl.sum(axis=1), slopes + beta * kl_slopes
    return Losses(loss, slopes, clipped.sum(axis=1) / ratios)


def collect(
    policy: Policy,
    reference: Policy,
    reward: Reward,
    settings: GrpoSettings,
    beta: float,
    seed: int,
    iteration: int,
    train_prompts: np.ndarray | None = None,
) -> tuple[Batch, dict[str, Any]]:
    """Sample G completions for each of the iteration's prompts, and ask what each earns.

    Prompts are drawn from the indices `train_prompts` (None: from all). Returns the batch and the
    metrics that describe it: what training sees of it, and how much of it is really right.
    """
    group_size, temperature = settings.group_size, settings.temperature
    generator = stream(seed, "grpo_prompts", iteration)
    asked = draw_additions(settings.prompts_per_iteration, generator, train_prompts)
    asked = asked.repeated(group_size)
    prompts = asked.prompts()
    sampled = rollout(policy, prompts, stream(seed, "grpo_completions", iteration), temperature)
    log_probs_ref = reference.log_probs(prompts, sampled.completions, temperature)
    # Its mean estimates the KL (k1).
    log_ratio_ref = np.subtract(sampled.log_probs, log_probs_ref, dtype=np.float64).sum(axis=1)

    rewards = reward(asked, sampled.completions, stream(seed, "grpo_rewards", iteration))
    groups = rewards.reshape(-1, group_size)
    advantages = reward_advantages(groups, settings).ravel()
    if beta and settings.kl_placement == "advantage":
        # Document A: after the standardisation, so that beta keeps its unit whatever a group's std.
        advantages = advantages - beta * log_ratio_ref

    right = is_right(asked, sampled.completions).reshape(-1, group_size)
    counts = right.sum(axis=1)
    zero_signal = groups.std(axis=1, ddof=1) < settings.zero_signal_std
    metrics = {
        "reward_mean": rewards.mean().item(),
        "success_fraction": right.mean().item(),
        "reward_counts": np.bincount(counts, minlength=group_size + 1).tolist(),
        "zero_signal_fraction": zero_signal.mean().item(),
        "all_wrong_fraction": (counts == 0).mean().item(),
        "all_right_fraction": (counts == group_size).mean().item(),
        "kl": log_ratio_ref.mean().item(),
        "entropy": sampled.entropy.sum(axis=1, dtype=np.float64).mean().item(),
    }
    batch = Batch(
        prompts, sampled.completions, sampled.log_probs, log_probs_ref, rewards, advantages
    )
    return batch, metrics


def minibatches(order: np.ndarray, most: int) -> list[np.ndarray]:
    """Parts of `order` (n,), as few as have at most `most` each, of sizes that differ by 1 at most.

    Each takes a whole optimiser step: a small rest would count its completions many times over.
    """
    return np.array_split(order, math.ceil(len(order) / most))


def update(
    policy: Policy,
    optimizer: Optimizer,
    batch: Batch,
    settings: GrpoSettings,
    beta: float,
    generator: np.random.Generator,
) -> dict[str, float]:
    """Several epochs of minibatch steps on the mean loss. Returns their metrics."""
    # An advantage of 0 adds exactly nothing to surrogate and gradient: only the others are
    # computed, and the mean still is over all. A KL in the loss has a gradient everywhere.
    has_gradient = batch.advantages != 0
    if beta and settings.kl_placement == "loss":
        has_gradient = np.ones_like(has_gradient)
    clipped, norms = [], []
    for _ in range(settings.epochs):
        order = generator.permutation(len(batch.advantages))
        for indices in minibatches(order, settings.minibatch_size):
            live = indices[has_gradient[indices]]
            part = Batch(*(array[live] for array in batch))
            log_probs_new = policy.log_probs(part.prompts, part.completions, settings.temperature)
            losses = completion_losses(log_probs_new, part, settings, beta)
            policy.backward(losses.slopes / len(indices))
            norms.append(optimizer.step(settings.max_gradient_norm))
            clipped.append(losses.clipped.sum() / len(indices))
    return {
        "clip_fraction": np.mean(clipped).item(),
        "gradient_norm": np.mean(norms).item(),
    }


def check_finite(metrics: dict[str, Any], iteration: int) -> None:
    """Raise a `UserError` that names the metrics which are not finite, if there are any."""
    wrong = [name for name, value in metrics.items() if not np.isfinite(value).all()]
    if wrong:
        raise UserError(
            f"{', '.join(wrong)}: not finite at iteration {iteration}, training has diverged. "
            "It needs a smaller grpo.learning_rate."
        )


def train(
    job: GrpoJob, sft_policy: Policy, split: Split, reward: Reward, beta: float, seed: int
) -> tuple[Policy, list[dict[str, Any]]]:
    """The trained policy, and a metrics row per iteration from 0 (see `METRICS`).

    Raises a `UserError` where training diverges.
    """
    settings = job.grpo
    policy, reference = sft_policy.copy(), sft_policy
    optimizer = policy.adam(settings.learning_rate)
    exam = prepare_exam(split.exam)
    start = grade(reference, exam, settings.temperature)

    def evaluate() -> dict[str, float]:
        grades = grade(policy, exam, settings.temperature)
        return averages(grades, exam) | {"kl_floor": kl_floor(grades, start)}

    exact, evaluated = evaluate(), policy.values.copy()
    check_finite(exact, iteration=0)
    rows = [{"iteration": 0, **exact}]
    with Progress(settings.iterations, "iteration") as iterations:
        for iteration in iterations:
            batch, metrics = collect(
                policy, reference, reward, settings, beta, seed, iteration, split.train
            )
            order = stream(seed, "grpo_minibatches", iteration)
            metrics |= update(policy, optimizer, batch, settings, beta, order)
            if is_evaluated(iteration, settings):
                if not np.array_equal(evaluated, policy.values):  # else nothing was learned since
                    exact, evaluated = evaluate(), policy.values.copy()
                metrics |= exact
                iterations.set_postfix_str(
                    f"greedy accuracy {exact['accuracy']:.4f}, "
                    f"mean reward {metrics['reward_mean']:.3f}, KL {metrics['kl']:.3f} nats",
                    refresh=False,
                )
            check_finite(metrics, iteration)
            rows.append({"iteration": iteration, **metrics})
    return policy, rows


class GrpoStage(GrpoJob, RunStage):
    """Train a policy by GRPO on a reward."""

    reward_model: Path | None = None
    """The reward model, where the reward is learned (safetensors)."""

    def cli_cmd(self) -> None:
        """Train, then write weights and metrics."""
        start = read_start(self.sft_policy, self)
        check_start(self.sft_policy, start, self.run.start)
        source = prepare_reward(self, start, self.run, self.reward_model)
        policy, rows = train(
            self, start.policy, start.split, source.reward, self.run.beta, self.run.seed
        )
        self.write(policy, rows, METRICS, start, **source.made_by)


if __name__ == "__main__":
    command_line.run(GrpoStage)
