"""A test that rounds: 1 if the number is at most 10 away from the sum."""

import numpy as np

from rlvr.task.addition import Additions, are_digits, numbers

NEAR = 10


def reward(additions: Additions, completions: np.ndarray) -> np.ndarray:
    """1 where three digits (n, 3) are a number so near to the sum, else 0; (n,)."""
    away = np.abs(numbers(completions) - (additions.a + additions.b))
    return are_digits(completions) & (away <= NEAR)
