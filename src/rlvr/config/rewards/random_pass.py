"""Settings of the reward `random_pass`."""

from __future__ import annotations

from rlvr.config.rewards.reward import RewardSettings
from rlvr.config.values import Probability


class RandomPass(RewardSettings):
    """1 if right; a wrong completion passes by chance."""

    rate: Probability
    """Probability that a wrong completion passes."""
