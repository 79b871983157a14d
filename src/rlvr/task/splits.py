"""Which prompts a run is trained on, and which it is reported on.

The split does not depend on the run's seed: what is held out is held out from every run. A sum and
its mirror, a + b and b + a, go together: who has seen one has seen the other.
"""

from typing import NamedTuple

import numpy as np

from rlvr.config.settings.teachers import SplitSettings
from rlvr.config.values import PROMPTS
from rlvr.task.streams import stream


class Split(NamedTuple):
    """Prompts in three parts, as ascending indices 100 a + b."""

    train: np.ndarray | None
    """Those to train on; None for all."""
    validation: np.ndarray
    """Those that a stopping rule looks at."""
    exam: np.ndarray
    """Those that accuracy is reported on: the held-out ones, or all where nothing is split."""


def split_prompts(settings: SplitSettings | None) -> Split:
    """The parts of a split, or all prompts for everything."""
    if settings is None:
        return Split(None, np.arange(0), np.arange(PROMPTS))
    pairs = _mirrored()
    order = stream(0, "prompt_split").permutation(len(pairs))
    ends = [PROMPTS - settings.validation - settings.held_out, PROMPTS - settings.held_out]
    return Split(*map(np.sort, np.split(pairs[order].ravel(), ends)))


def _mirrored() -> np.ndarray:
    """All prompts in twos that stay together, (5000, 2): a + b and b + a; of the a + a any two."""
    a, b = np.triu_indices(100, k=1)
    doubles = 101 * np.arange(100)
    return np.concatenate([np.stack([100 * a + b, 100 * b + a], axis=1), doubles.reshape(-1, 2)])
