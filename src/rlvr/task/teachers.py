"""Teachers: whose completions SFT imitates."""

import numpy as np

from rlvr.config.settings.teachers import TeacherSettings
from rlvr.task.addition import Additions


def demonstrations(
    teacher: TeacherSettings, additions: Additions, generator: np.random.Generator
) -> np.ndarray:
    """What a teacher says to each addition (n, 3): the solution, or else what forgets to carry."""
    truthful = generator.random(additions.a.shape) < teacher.truth_probability
    return np.where(
        truthful[:, np.newaxis], additions.solutions(), additions.no_carry_completions()
    )
