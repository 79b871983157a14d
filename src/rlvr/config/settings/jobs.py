"""What the settings of all methods have in common; a method's own are in `rlvr.config.methods`."""

from __future__ import annotations

from rlvr.config.values import Count, Device, Strict


class MethodJob(Strict):
    """All settings of one training job; the field named like the method is the config's group."""

    device: Device
    """Where to train; `auto` is cuda where there is one, else cpu."""


class RunSettings(Strict):
    """Settings of a method that studies hold runs of, so that all of them can be read alike."""

    iterations: Count
    """Iterations, each of one rollout and `epochs` passes over it."""
    evaluate_every: Count
    """Iterations between two exact evaluations; the first (0) and the last are always evaluated."""

    def modules(self) -> list[str]:
        """Modules of ours that these settings name, on which a run rests besides its stage."""
        return []
