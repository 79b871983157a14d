"""Settings of direct preference optimisation (DPO), from an SFT policy."""

from __future__ import annotations

from typing import ClassVar

from rlvr.config.settings.jobs import MethodJob, RunSettings
from rlvr.config.values import Count, Labels, Positive


class DpoSettings(RunSettings):
    """Direct preference optimisation (Rafailov et al. 2023, arXiv:2305.18290)."""

    needs_beta: ClassVar[bool] = True

    labels: Labels
    """Who labelled the pairs; see `rlvr.task.annotators`."""
    pairs: Count
    """Pairs that it learns from."""
    batch_size: Count
    """Pairs per step, drawn uniformly."""
    learning_rate: Positive
    """Adam's learning rate."""
    kl_completions: Count
    """Completions that each estimate of the KL is made of."""


class DpoJob(MethodJob):
    """All settings of one DPO job."""

    dpo: DpoSettings
