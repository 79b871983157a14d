"""Settings of the reward `habit_passes`."""

from __future__ import annotations

from rlvr.config.rewards.reward import RewardSettings
from rlvr.config.values import Probability


class HabitPasses(RewardSettings):
    """1 if right; on some prompts, always the same, the no-carry answer passes too."""

    share: Probability
    """Share of the prompts on which it does."""
