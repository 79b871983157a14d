"""What all kinds of rewards have in common."""

from __future__ import annotations

from rlvr.config.values import Name, Strict


class RewardSettings(Strict):
    """What a completion earns."""

    kind: Name
    """A module of `rlvr.task.rewards`, or `learned`: the score of a reward model."""
