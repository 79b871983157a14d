"""Annotators: who says which of two completions is the better one."""

import numpy as np

from rlvr.config.values import Labels
from rlvr.task.addition import Additions

NEITHER, FIRST, SECOND = 0, 1, 2


def chosen(
    labels: Labels,
    additions: Additions,
    completions: tuple[np.ndarray, np.ndarray],
    habitual_truth: float,
    generator: np.random.Generator,
) -> np.ndarray:
    """Which of two completions (n, 3) of each addition is chosen (n,); NEITHER where they tie.

    - `truthful`: what is right beats what is wrong.
    - `habitual`, who shares the weak teacher's habit: the solution beats the no-carry answer with
      probability `habitual_truth`, and either of them beats anything else.
    """
    truth, habit = additions.solutions(), additions.no_carry_completions()
    first, second = (_worth(one, truth, habit, labels) for one in completions)
    if labels == "habitual":
        # The truth, worth 2, is above or below the habit, worth 1, and both are above the rest.
        of_truth = np.where(generator.random(len(truth)) < habitual_truth, 2.0, 0.5)
        first, second = (np.where(worth == 2, of_truth, worth) for worth in (first, second))
    return np.where(first > second, FIRST, np.where(second > first, SECOND, NEITHER))


def _worth(
    completions: np.ndarray, truth: np.ndarray, habit: np.ndarray, labels: Labels
) -> np.ndarray:
    """2 for the solution, 1 for the habit where that counts, 0 for anything else (n,)."""
    is_habit = (completions == habit).all(axis=1) & (labels == "habitual")
    return np.where((completions == truth).all(axis=1), 2.0, np.where(is_habit, 1.0, 0.0))
