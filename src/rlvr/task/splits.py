"""Which prompts a run is trained on, and which it is reported on.

The split does not depend on the run's seed: what is held out is held out from every run. A sum and
its mirror, a + b and b + a, go together: who has seen one has seen the other.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rlvr.config.settings.teachers import SplitSettings
from rlvr.config.values import PROMPTS
from rlvr.task.streams import stream


class Split(NamedTuple):
    """Prompts in three parts, as ascending indices 100 a + b."""

    train: Tensor | None
    """Those to train on; None for all."""
    validation: Tensor
    """Those that a stopping rule looks at."""
    exam: Tensor
    """Those that accuracy is reported on: the held-out ones, or all where nothing is split."""


def split_prompts(settings: SplitSettings | None) -> Split:
    """The parts of a split, or all prompts for everything."""
    if settings is None:
        return Split(None, torch.arange(0), torch.arange(PROMPTS))
    pairs = _mirrored()
    order = torch.randperm(len(pairs), generator=stream(0, "prompt_split"))
    sizes = [settings.validation, settings.held_out]
    parts = pairs[order].flatten().split([PROMPTS - sum(sizes), *sizes])
    return Split(*(part.sort().values for part in parts))


def _mirrored() -> Tensor:
    """All prompts in twos that stay together, (5000, 2): a + b and b + a; of the a + a any two."""
    a, b = torch.triu_indices(100, 100, offset=1)
    doubles = 101 * torch.arange(100)
    return torch.cat([torch.stack([100 * a + b, 100 * b + a], dim=1), doubles.view(-1, 2)])
