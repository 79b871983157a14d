"""Means, intervals and bounds over a few seeds. Each is a small pure function."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

FEWEST_FOR_BOOTSTRAP = 5


class Interval(NamedTuple):
    """A mean over seeds and its confidence interval (nan for a single seed)."""

    mean: float
    low: float
    high: float
    method: str


def mean_interval(values: Sequence[float], confidence: float) -> Interval:
    """Mean and two-sided interval: BCa bootstrap over seeds, or Student's t for fewer than 5.

    Values that are not finite give nan: a run that never got there has no mean.
    """
    sample = np.asarray(values, dtype=float)
    n = len(sample)
    if n == 0 or not np.isfinite(sample).all():
        return Interval(float("nan"), float("nan"), float("nan"), "none")
    mean = float(sample.mean())
    if n == 1:
        return Interval(mean, float("nan"), float("nan"), "none")
    method = "t" if n < FEWEST_FOR_BOOTSTRAP else "BCa bootstrap"
    if np.ptp(sample) == 0:
        return Interval(mean, mean, mean, method)
    if method == "t":
        low, high = stats.t.interval(confidence, n - 1, loc=mean, scale=stats.sem(sample))
    else:
        result = stats.bootstrap((sample,), np.mean, confidence_level=confidence, rng=0)
        low, high = result.confidence_interval
    return Interval(mean, float(low), float(high), method)


def failure_rate_bound(failures: int, trials: int, confidence: float) -> float:
    """Exact one-sided upper bound (Clopper-Pearson) of a rate, from `failures` in `trials`.

    With no failure in 3 trials a rate up to 0.632 is still compatible at 95 %.
    """
    test = stats.binomtest(failures, trials, alternative="less")
    return float(test.proportion_ci(confidence, method="exact").high)
