"""Which prompts a run is trained on, and which it is reported on.

The split does not depend on the run's seed: what is held out is held out from every run.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rlvr.settings import SplitSettings
from rlvr.streams import stream
from rlvr.values import PROMPTS


class Split(NamedTuple):
    """Prompts in three parts, as ascending indices 100 a + b."""

    train: Tensor | None
    """Those to train on; None for all."""
    validation: Tensor
    """Those that a stopping rule looks at."""
    held_out: Tensor
    """Those that accuracy is reported on: all of them where nothing is split."""


def split_prompts(settings: SplitSettings | None) -> Split:
    """The parts of a split, or all prompts for everything."""
    if settings is None:
        return Split(None, torch.arange(0), torch.arange(PROMPTS))
    order = torch.randperm(PROMPTS, generator=stream(0, "prompt_split"))
    sizes = [settings.validation, settings.held_out]
    parts = order.split([PROMPTS - sum(sizes), *sizes])
    return Split(*(part.sort().values for part in parts))
