"""Sampling completions from the policy, with their log-probabilities under that policy."""

from typing import NamedTuple

import torch
from torch import Tensor

from rlvr.policy.prefix_tree import prefix_tree
from rlvr.policy.transformer import Policy, log_softmax
from rlvr.task.addition import COMPLETION_LENGTH, OUTPUT_CLASSES


class Rollout(NamedTuple):
    """Sampled completions, each of shape (n, 3): one entry per token."""

    completions: Tensor
    """Tokens."""
    log_probs: Tensor
    """Log-probability of each token under the policy that sampled it, nats."""
    entropy: Tensor
    """Entropy of the distribution that each token was drawn from, nats."""


def rollout(
    policy: Policy, prompts: Tensor, generator: torch.Generator, temperature: float = 1.0
) -> Rollout:
    """One completion after each of `prompts` (n, 7). All on the CPU.

    What is drawn depends on the generator alone, not on the policy's device.
    """
    uniforms = torch.rand((COMPLETION_LENGTH, len(prompts), OUTPUT_CLASSES), generator=generator)
    # Gumbel-max: the argmax of log-probabilities plus Gumbel noise is a draw from them.
    gumbel = -(-uniforms.log()).log()
    sequences, distributions = prompts, []
    with torch.inference_mode():
        for noise in gumbel:
            tree = prefix_tree(sequences, sequences.shape[1] - 1, like=policy.head.weight)
            log_probs = log_softmax(policy.logits_on(tree), temperature)
            log_probs = log_probs.index_select(0, tree.result_of.squeeze(1)).cpu()
            tokens = (log_probs + noise).argmax(dim=-1, keepdim=True)
            distributions.append(log_probs)
            sequences = torch.cat([sequences, tokens], dim=1)
    # Made outside of it, so that training may use them.
    log_probs = torch.stack(distributions, dim=1)
    completions = sequences[:, prompts.shape[1] :].clone()
    return Rollout(
        completions,
        log_probs.gather(-1, completions.unsqueeze(-1)).squeeze(-1),
        -(log_probs.exp() * log_probs).sum(dim=-1),
    )
