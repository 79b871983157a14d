"""A reward that is not all or nothing: the share of the three digits that are right."""

import numpy as np

from rlvr.task.addition import Additions


def reward(additions: Additions, completions: np.ndarray) -> np.ndarray:
    """The share of three tokens (n, 3) that are those of the solution; (n,)."""
    return (completions == additions.solutions()).mean(axis=1)
