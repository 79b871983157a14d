"""Means, intervals and bounds over a few seeds. Each is a small pure function.

Quantiles come from mpmath, which computes with integers: the same bytes on every machine.
"""

import functools
from collections.abc import Sequence
from math import inf, isinf, nan, sqrt
from typing import NamedTuple

import mpmath
import numpy as np

from rlvr.elementary import exp, root

ANYTHING = (-inf, inf)


class Interval(NamedTuple):
    """A mean over seeds and its confidence interval (nan for a single seed)."""

    mean: float
    low: float
    high: float
    method: str


def mean_interval(
    values: Sequence[float], confidence: float, within: tuple[float, float] = ANYTHING
) -> Interval:
    """Mean and two-sided interval over seeds: Student's t, on a scale that has no ends.

    `within` is what the mean can be. Where that is anything, the interval is mean +- t s / sqrt(n).
    Above one end it is that of the mean's logarithm, between two that of its logit, by the delta
    method, as surveys have it for proportions (Korn & Graubard 1998, Survey Methodology 24). So it
    stays within, and reaches further away from an end than towards it. Of pairs, give differences.

    It covers the mean as often as it says, to 2 points and from 3 seeds on: of normal samples, of
    fractions near an end, of positive quantities as skewed as an exponential, of differences half
    as skewed. It falls short of differences that are more so (0.88 for 0.95 at 5 seeds, 0.92 at
    20) and of estimates whose noise reaches beyond an end (0.90). Where all seeds may be equal by
    chance, as one run in five is unlike the others or a fraction is one of 32 groups, no method
    is right: three seeds mostly miss it. tests/unit/results/test_intervals.py measures all of this.

    Values that are not finite give nan: a run that never got there has no mean.
    """
    sample = np.asarray(values, dtype=float)
    n = len(sample)
    if n == 0 or not np.isfinite(sample).all():
        return Interval(nan, nan, nan, "none")
    mean = float(sample.mean())
    if n == 1:
        return Interval(mean, nan, nan, "none")
    if np.ptp(sample) == 0:
        return Interval(mean, mean, mean, "t")
    t = t_quantile((1 + confidence) / 2, n - 1)
    return Interval(mean, *_ends(mean, float(t * sample.std(ddof=1)) / sqrt(n), *within))


def _ends(mean: float, half: float, low: float, high: float) -> tuple[float, float, str]:
    """The ends of an interval whose half-width at the mean is `half`, and how they were found."""
    if isinf(low) or not low < mean < high:
        # Noisy estimates of what cannot be negative may have a mean that is, as of a sampled KL.
        return mean - half, min(mean + half, max(high, mean)), "t"
    above, below = mean - low, high - mean
    if isinf(high):
        factor = float(exp(half / above))
        return low + above / factor, low + above * factor, "log t"
    factor = float(exp(half / above + half / below))
    width = high - low
    return (
        low + width * above / (above + below * factor),
        low + width * above * factor / (above * factor + below),
        "logit t",
    )


def failure_rate_bound(failures: int, trials: int, confidence: float) -> float:
    """Exact one-sided upper bound (Clopper-Pearson) of a rate, from `failures` in `trials`.

    With no failure in 3 trials a rate up to 0.632 is still compatible at 95 %.
    """
    if failures == trials:
        return 1.0

    def doubt(rate: float) -> mpmath.mpf:
        """How much likelier than 1 - confidence so few failures are, at this rate."""
        seen = mpmath.betainc(failures + 1, trials - failures, rate, 1, regularized=True)
        return seen - (1 - confidence)

    return root(doubt, 0.0, 1.0)


@functools.cache
def t_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t distribution, of a probability above 1/2."""

    def beyond(t: float) -> mpmath.mpf:
        """How much likelier than 1 - probability a larger value is."""
        x = degrees / (degrees + mpmath.mpf(t) ** 2)
        return mpmath.betainc(degrees / 2, 0.5, 0, x, regularized=True) / 2 - (1 - probability)

    high = 1.0
    while beyond(high) > 0:
        high *= 2
    return root(beyond, 0.0, high)
