"""Settings of supervised fine-tuning (SFT): imitate a teacher's answers, from random weights."""

from __future__ import annotations

from rlvr.config.settings.jobs import MethodJob, PolicyComputing
from rlvr.config.settings.teachers import TeacherSettings
from rlvr.config.values import Count, Positive, Strict


class SftSettings(Strict):
    """Supervised fine-tuning."""

    learning_rate: Positive
    """Adam's learning rate."""
    steps: Count
    """Optimiser steps; the most of them, where the teacher has a stopping rule."""
    batch_size: Count
    """Fresh prompts per step, drawn uniformly from those that are trained on."""


class SftJob(PolicyComputing, MethodJob):
    """All settings of one SFT job."""

    teacher: TeacherSettings
    sft: SftSettings
