"""A verifier with systematic errors: on some prompts the no-carry answer passes too."""

import numpy as np

from rlvr.config.values import PROMPTS
from rlvr.task.addition import Additions
from rlvr.task.rewards.exact import reward as exact
from rlvr.task.streams import stream


def reward(additions: Additions, completions: np.ndarray, share: float) -> np.ndarray:
    """1 where three tokens (n, 3) are right, or the no-carry answer to such a prompt; (n,).

    The prompts are a random `share` of all, the same in every iteration and for every seed.
    """
    marked = stream(0, "habit_passes").random(PROMPTS) < share
    habit = (completions == additions.no_carry_completions()).all(axis=1)
    return exact(additions, completions) | (habit & marked[100 * additions.a + additions.b])
