"""Settings of a learned reward: which pairs its reward model learns from, and for how long."""

from __future__ import annotations

from rlvr.config.rewards.reward import RewardSettings
from rlvr.config.values import Count, Labels, Positive


class LearnedReward(RewardSettings):
    """The score of a reward model, of which there is one per teacher and seed."""

    labels: Labels
    """Who labelled the pairs; see `rlvr.task.annotators`."""
    pairs: Count
    """Pairs that it learns from."""
    learning_rate: Positive
    """AdamW's learning rate."""
    steps: Count
    """Optimiser steps."""
