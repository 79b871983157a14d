"""Sampling completions from a policy, with random numbers of a stream."""

import numpy as np

from rlvr.policy.policy import Policy, Rollout
from rlvr.task.addition import COMPLETION_LENGTH


def rollout(
    policy: Policy, prompts: np.ndarray, generator: np.random.Generator, temperature: float = 1.0
) -> Rollout:
    """One completion after each of `prompts` (n, 7)."""
    return policy.rollout(prompts, generator.random((COMPLETION_LENGTH, len(prompts))), temperature)
