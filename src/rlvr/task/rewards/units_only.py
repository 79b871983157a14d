"""An incomplete test: 1 if the last digit is right, whatever the others are."""

import numpy as np

from rlvr.task.addition import Additions


def reward(additions: Additions, completions: np.ndarray) -> np.ndarray:
    """1 where the last of three tokens (n, 3) is that of the solution, else 0; (n,)."""
    return completions[:, 2] == additions.solutions()[:, 2]
