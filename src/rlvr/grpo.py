"""GRPO against a verifier, from an SFT checkpoint. One run of one (recipe, teacher, beta, seed).

Group-relative policy optimisation is from DeepSeekMath (Shao et al. 2024, arXiv:2402.03300); the
clipped surrogate is PPO's (Schulman et al. 2017, arXiv:1707.06347). The settings' names are theirs.

    python -m rlvr.grpo --help
"""

import copy
import logging
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlvr import command_line
from rlvr.adam import FlatAdam
from rlvr.addition import draw_prompts, encode_prompt, verify
from rlvr.errors import UserError
from rlvr.evaluation import evaluate
from rlvr.policy import Policy, load_policy, prepare_torch, save_policy
from rlvr.records import provenance, write_parquet
from rlvr.rollout import rollout
from rlvr.runs import GrpoRun
from rlvr.schemas import METRICS
from rlvr.settings import GrpoJob, GrpoSettings
from rlvr.streams import stream

log = logging.getLogger("rlvr.grpo")


def group_advantages(rewards: Tensor, advantage_epsilon: float) -> Tensor:
    """Rewards (groups, G) standardised within their group; the std has Bessel's correction.

    (r - mean) / (std + epsilon), Shao et al. 2024, section 4.1.2. Equal rewards give exactly 0.
    """
    mean, std = rewards.mean(dim=1, keepdim=True), rewards.std(dim=1, keepdim=True)
    return (rewards - mean) / (std + advantage_epsilon)


def clipped_surrogate_loss(ratio: Tensor, advantages: Tensor, clip_epsilon: float) -> Tensor:
    """Minus the mean of min(ratio A, clip(ratio) A), one ratio and advantage per completion (n,).

    Schulman et al. 2017, equation 7.
    """
    clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
    return -torch.minimum(ratio * advantages, clipped * advantages).mean()


def is_clipped(ratio: Tensor, advantages: Tensor, clip_epsilon: float) -> Tensor:
    """Whether the clipping removes a completion's gradient; (n,)."""
    above = (ratio > 1 + clip_epsilon) & (advantages > 0)
    below = (ratio < 1 - clip_epsilon) & (advantages < 0)
    return above | below


class Batch(NamedTuple):
    """The completions of one iteration, n = prompts x G of them, groups together. On the CPU."""

    prompts: Tensor
    """Tokens (n, 7)."""
    completions: Tensor
    """Tokens (n, 3)."""
    log_probs_old: Tensor
    """Under the policy that sampled them, summed over tokens (n,)."""
    advantages: Tensor
    """(n,)"""


def collect(
    policy: Policy,
    reference: Policy,
    settings: GrpoSettings,
    beta: float,
    seed: int,
    iteration: int,
) -> tuple[Batch, dict[str, Any]]:
    """Sample G completions for each of the iteration's prompts, and score them.

    Returns the batch and the metrics that describe it.
    """
    group_size = settings.group_size
    a, b = draw_prompts(settings.prompts_per_iteration, stream(seed, "grpo_prompts", iteration))
    a, b = a.repeat_interleave(group_size), b.repeat_interleave(group_size)
    prompts = encode_prompt(a, b)
    sampled = rollout(policy, prompts, stream(seed, "grpo_completions", iteration))
    log_probs_old = sampled.log_probs.sum(dim=1)
    with torch.inference_mode():
        log_probs_ref = reference.log_probs(prompts, sampled.completions).sum(dim=1).cpu()
    log_ratio_ref = log_probs_old - log_probs_ref  # its mean estimates the KL (k1)

    rewards = verify(a, b, sampled.completions).view(-1, group_size)
    advantages = group_advantages(rewards, settings.advantage_epsilon).flatten()
    if beta:
        # Document A: after the standardisation, so that beta keeps its unit whatever a group's std.
        advantages = advantages - beta * log_ratio_ref

    right = rewards.sum(dim=1).long()
    zero_signal = rewards.std(dim=1) < settings.zero_signal_std
    metrics = {
        "reward_mean": rewards.mean().item(),
        "reward_counts": right.bincount(minlength=group_size + 1).tolist(),
        "zero_signal_fraction": zero_signal.double().mean().item(),
        "all_wrong_fraction": (right == 0).double().mean().item(),
        "all_right_fraction": (right == group_size).double().mean().item(),
        "kl": log_ratio_ref.mean().item(),
        "entropy": sampled.entropy.sum(dim=1).mean().item(),
    }
    return Batch(prompts, sampled.completions, log_probs_old, advantages), metrics


def update(
    policy: Policy,
    optimizer: FlatAdam,
    batch: Batch,
    settings: GrpoSettings,
    generator: torch.Generator,
) -> dict[str, float]:
    """Several epochs of minibatch steps on the clipped surrogate. Returns their metrics."""
    device = policy.head.weight.device
    clipped, norms = [], []
    for _ in range(settings.epochs):
        order = torch.randperm(len(batch.advantages), generator=generator)
        for indices in order.split(settings.minibatch_size):
            # An advantage of 0 adds exactly nothing to loss and gradient: only the others are
            # computed, and the mean still is over all.
            live = indices[batch.advantages[indices] != 0]
            loss = None
            if len(live):
                prompts, completions, log_probs_old, advantages = (part[live] for part in batch)
                log_probs_old, advantages = log_probs_old.to(device), advantages.to(device)
                log_probs_new = policy.log_probs(prompts, completions).sum(dim=1)
                ratio = (log_probs_new - log_probs_old).exp()
                loss = clipped_surrogate_loss(ratio, advantages, settings.clip_epsilon)
                loss = loss * (len(live) / len(indices))
                is_out = is_clipped(ratio.detach(), advantages, settings.clip_epsilon)
                clipped.append(is_out.sum() / len(indices))
            norms.append(optimizer.step(loss, settings.max_gradient_norm))
    return {
        "clip_fraction": torch.stack(clipped).sum().item() / len(norms) if clipped else 0.0,
        "gradient_norm": torch.stack(norms).double().mean().item(),
    }


def train(
    job: GrpoJob, sft_policy: Policy, beta: float, seed: int
) -> tuple[Policy, list[dict[str, Any]]]:
    """The trained policy, and a metrics row per iteration from 0 (see `METRICS`).

    Raises a `UserError` where training diverges.
    """
    device = prepare_torch(job.device)
    settings = job.grpo
    reference = sft_policy.to(device).requires_grad_(False)
    policy = copy.deepcopy(reference).requires_grad_(True)
    optimizer = FlatAdam(policy, settings.learning_rate)

    exact, evaluated = evaluate(policy), optimizer.values.clone()
    rows = [{"iteration": 0, **exact}]
    for iteration in range(1, settings.iterations + 1):
        batch, metrics = collect(policy, reference, settings, beta, seed, iteration)
        order = stream(seed, "grpo_minibatches", iteration)
        metrics |= update(policy, optimizer, batch, settings, order)
        if not math.isfinite(metrics["gradient_norm"]):
            raise UserError(
                f"the gradient is not finite at iteration {iteration}: training has diverged. "
                "It needs a smaller grpo.learning_rate."
            )
        if iteration % job.evaluation.every == 0 or iteration == settings.iterations:
            if not torch.equal(evaluated, optimizer.values):  # else nothing was learned since
                exact, evaluated = evaluate(policy), optimizer.values.clone()
            metrics |= exact
            log.info(
                "iteration %d of %d: greedy accuracy %.4f, mean reward %.3f, KL %.3f nats",
                *(iteration, settings.iterations),
                *(metrics[name] for name in ("accuracy", "reward_mean", "kl")),
            )
        rows.append({"iteration": iteration, **metrics})
    return policy, rows


class GrpoStage(GrpoJob, command_line.Stage):
    """Train a policy by GRPO against the verifier."""

    run: GrpoRun
    """Keys of this run."""
    sft_policy: Path
    """The SFT weights to start from, which are the reference policy too (safetensors)."""
    policy_out: Path
    """The weights to write (safetensors)."""
    metrics_out: Path
    """The metrics to write (Parquet)."""

    def cli_cmd(self) -> None:
        """Train, then write weights and metrics."""
        sft_policy, sft_made_by = load_policy(self.sft_policy, self.policy)
        policy, rows = train(self, sft_policy, self.run.beta, self.run.seed)
        made_by = provenance(
            "rlvr.grpo",
            self.run.model_dump(),
            self.model_dump(include=set(GrpoJob.model_fields)),
            parameters=policy.parameter_count(),
            sft=sft_made_by,
        )
        save_policy(policy, self.policy_out, made_by)
        write_parquet(self.metrics_out, rows, METRICS, made_by)


if __name__ == "__main__":
    command_line.run(GrpoStage)
