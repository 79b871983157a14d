"""A verifier with random errors: 1 if right; a wrong completion passes by chance."""

import numpy as np

from rlvr.task.addition import Additions
from rlvr.task.rewards.exact import reward as exact


def reward(
    additions: Additions, completions: np.ndarray, rate: float, generator: np.random.Generator
) -> np.ndarray:
    """1 where three tokens (n, 3) are right, or else with probability `rate`; (n,)."""
    passes = generator.random(len(completions)) < rate
    return exact(additions, completions) | passes
