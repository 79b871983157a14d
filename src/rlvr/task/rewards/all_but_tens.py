"""An incomplete test: 1 if hundreds and units are right, whatever the tens are."""

import numpy as np

from rlvr.task.addition import Additions


def reward(additions: Additions, completions: np.ndarray) -> np.ndarray:
    """1 where the first and the last of three tokens (n, 3) are right, else 0; (n,)."""
    return (completions == additions.solutions())[:, [0, 2]].all(axis=1)
