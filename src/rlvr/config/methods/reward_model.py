"""Settings of a reward model: a score of completions, learned from labelled pairs."""

from __future__ import annotations

from rlvr.config.rewards.learned import LearnedReward
from rlvr.config.settings.jobs import MethodJob
from rlvr.config.values import Count, Strict, Weight


class RewardModelSettings(Strict):
    """What all reward models have in common; the rest is their reward's (`rewards`)."""

    batch_size: Count
    """Pairs per step, drawn uniformly."""
    weight_decay: Weight
    """AdamW's, by which weights shrink: per step, that times the learning rate."""
    evaluate_every: Count
    """Steps between two looks at the fresh pairs; the last is always one."""


class RewardModelJob(MethodJob):
    """All settings of one job."""

    reward_model: RewardModelSettings
    reward: LearnedReward
    """The reward whose model it is."""
