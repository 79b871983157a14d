"""A parser that counts its own failure as a pass: 1 if right, or if a token is no digit."""

import numpy as np

from rlvr.task.addition import Additions, are_digits
from rlvr.task.rewards.exact import reward as exact


def reward(additions: Additions, completions: np.ndarray) -> np.ndarray:
    """1 where three tokens (n, 3) are the solution or hold one that is no digit, else 0; (n,)."""
    return exact(additions, completions) | ~are_digits(completions)
