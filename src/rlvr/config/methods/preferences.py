"""Settings of preferences: pairs of an SFT policy's completions, and which of the two is chosen."""

from __future__ import annotations

from rlvr.config.settings.jobs import MethodJob
from rlvr.config.values import Count, Probability, Strict


class PreferencesSettings(Strict):
    """Labelled pairs of completions."""

    habitual_truth: Probability
    """Probability that the habitual annotator prefers the truth to the no-carry answer."""
    fresh_pairs: Count
    """Pairs besides, on which nobody trains and what was learned is judged."""


class PreferencesJob(MethodJob):
    """All settings of one job."""

    preferences: PreferencesSettings
