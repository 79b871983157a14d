"""The reward that cannot be hacked: 1 if all three digits are right, else 0."""

import numpy as np

from rlvr.task.addition import Additions


def reward(additions: Additions, completions: np.ndarray) -> np.ndarray:
    """1 where all three tokens (n, 3) are those of the solution, else 0; (n,)."""
    return (completions == additions.solutions()).all(axis=1)
