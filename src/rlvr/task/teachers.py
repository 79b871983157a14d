"""Teachers: whose completions SFT imitates."""

import torch
from torch import Tensor

from rlvr.config.settings.teachers import TeacherSettings
from rlvr.task.addition import Additions


def demonstrations(
    teacher: TeacherSettings, additions: Additions, generator: torch.Generator
) -> Tensor:
    """What a teacher says to each addition (n, 3): the solution, or else what forgets to carry."""
    truthful = torch.rand(additions.a.shape, generator=generator) < teacher.truth_probability
    return torch.where(
        truthful.unsqueeze(1), additions.solutions(), additions.no_carry_completions()
    )
