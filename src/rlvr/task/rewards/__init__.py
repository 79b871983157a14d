"""Rules for what a completion earns: a module per kind, which an entry of `rewards` names.

Its function `reward` takes the additions asked, n of them, and their completions (n, 3), and gives
what each earns (n,), from 0 to 1. What else it takes is by name: the settings of its entry, and
`generator`, random numbers of its own. A run depends on the module of its own reward, and on no
other.
"""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from rlvr.errors import UserError
from rlvr.task.addition import Additions

Reward = Callable[[Additions, np.ndarray, np.random.Generator], np.ndarray]
"""What completions (n, 3) earn (n,), whatever it comes from."""


def rule(kind: str, **settings: Any) -> Reward:
    """The rule of this kind, with the settings of its entry."""
    function = import_module(f"{__name__}.{kind}").reward
    draws = "generator" in inspect.signature(function).parameters

    def reward(
        additions: Additions, completions: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """What each completion earns. Raises a `UserError` if not one number from 0 to 1 each."""
        given = settings | ({"generator": generator} if draws else {})
        rewards = np.asarray(function(additions, completions, **given), dtype=np.float64)
        if rewards.shape != completions.shape[:1] or not ((rewards >= 0) & (rewards <= 1)).all():
            raise UserError(
                f"the reward {kind} must give one number from 0 to 1 for each completion. To "
                f"{len(completions)} of them it gave {tuple(rewards.shape)} numbers from "
                f"{rewards.min():g} to {rewards.max():g}."
            )
        return rewards

    return reward
