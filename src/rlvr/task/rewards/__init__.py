"""What a completion earns: a module per reward, which `grpo.reward` in the config names.

Its function `reward` takes the additions asked, n of them, and their completions (n, 3), and gives
what each earns (n,), from 0 to 1. A run depends on the module of its own reward, and on no other.
"""

from importlib import import_module

import numpy as np

from rlvr.errors import UserError
from rlvr.task.addition import Additions


def rewards_by(name: str, additions: Additions, completions: np.ndarray) -> np.ndarray:
    """What completions (n, 3) earn by the reward of this name (n,).

    Raises a `UserError` where it is not one number from 0 to 1 for each.
    """
    module = import_module(f"{__name__}.{name}")
    rewards = np.asarray(module.reward(additions, completions), dtype=np.float64)
    if rewards.shape != completions.shape[:1] or not ((rewards >= 0) & (rewards <= 1)).all():
        raise UserError(
            f"the reward {name} must give one number from 0 to 1 for each completion. To "
            f"{len(completions)} of them it gave {tuple(rewards.shape)} numbers from "
            f"{rewards.min():g} to {rewards.max():g}."
        )
    return rewards
