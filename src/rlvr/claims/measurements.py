"""What claims are measured by: one number per run, nan where a run is too short to say.

A measurement takes a run's rows, indexed by iteration; `per_seed` applies it to an arm's runs.
"""

from collections.abc import Callable, Sequence
from math import inf, nan, sqrt

import pandas as pd

from rlvr.claims.claim import Evidence
from rlvr.config.arms import Arm

Run = pd.DataFrame  # the rows of one run, indexed by iteration
BySeed = dict[int | None, float]


def value_at(column: str, iteration: int) -> Callable[[Run], float]:
    """The column's value at one iteration."""
    return lambda run: float(run[column].get(iteration, nan))


def mean_over(column: str, first: int, last: int) -> Callable[[Run], float]:
    """The column's mean over iterations first..last."""
    rows = slice(first, last)
    return lambda run: run[column].loc[rows].mean(skipna=False) if last in run.index else nan


def largest(column: str, last: int) -> Callable[[Run], float]:
    """The column's largest value in iterations 1..last."""
    rows = slice(1, last)
    return lambda run: run[column].loc[rows].max(skipna=False) if last in run.index else nan


def best(column: str, last: int) -> Callable[[Run], float]:
    """The column's largest value at any evaluation up to `last`, the start included."""
    return lambda run: run[column].loc[:last].max() if last in run.index else nan


def change(column: str, last: int) -> Callable[[Run], float]:
    """The column's value at `last` less its value at iteration 0."""
    return lambda run: float(run[column].get(last, nan) - run[column].loc[0])


def first_above(column: str, threshold: float, last: int) -> Callable[[Run], float]:
    """The first evaluated iteration at which the column exceeds a threshold; inf for never."""

    def measure(run: Run) -> float:
        above = run.index[run[column] > threshold]
        if len(above):
            return float(above[0])
        return inf if last in run.index else nan

    return measure


def largest_fall(column: str, last: int) -> Callable[[Run], float]:
    """How far the column ever falls below the best that it had reached before."""

    def measure(run: Run) -> float:
        values = run[column].loc[:last].dropna()
        return float((values.cummax() - values).max()) if last in run.index else nan

    return measure


def fall_from_best(column: str, last: int) -> Callable[[Run], float]:
    """How far the column is at the end below the best that it had reached."""

    def measure(run: Run) -> float:
        values = run[column].loc[:last].dropna()
        return float(values.max() - values.iloc[-1]) if last in values.index else nan

    return measure


def first_pierced(last: int) -> Callable[[Run], float]:
    """The first evaluated iteration with the reward up and the accuracy down; inf for never.

    Both against the start: the reward's is its mean over the first batch, the SFT policy's.
    """

    def measure(run: Run) -> float:
        down = run.accuracy < run.accuracy.loc[0]
        pierced = run.index[down & (run.reward_mean > run.reward_mean.loc[1])]
        if len(pierced):
            return float(pierced[0])
        return inf if last in run.index else nan

    return measure


def growth(column: str, window: int, last: int) -> Callable[[Run], float]:
    """The column's mean over the last `window` iterations less that over as many before them."""

    def measure(run: Run) -> float:
        late, before = (
            run[column].loc[end - window + 1 : end].mean() for end in (last, last - window)
        )
        return float(late - before) if last in run.index else nan

    return measure


def kl_above_floor(window: int, last: int) -> Callable[[Run], float]:
    """The KL over the last `window` iterations less what its success at the end takes at least."""

    def measure(run: Run) -> float:
        kl = run["kl"].loc[last - window + 1 : last].mean()
        return float(kl - run["kl_floor"].get(last, nan))

    return measure


def noise(column: str, last: int) -> Callable[[Run], float]:
    """Standard deviation of the column's changes from one iteration to the next, 1..last."""
    rows = slice(1, last)
    return lambda run: run[column].loc[rows].diff().std() if last in run.index else nan


def correlation(one: str, other: str, window: int, every: int, last: int) -> Callable[[Run], float]:
    """Pearson correlation, over every so many iterations to `last`, of two columns.

    `one` is a noisy one of single batches: its mean over the `window` iterations up to each.
    """

    def measure(run: Run) -> float:
        smooth = run[one].loc[1:last].rolling(window).mean()
        pairs = pd.DataFrame({"one": smooth, "other": run[other]}).dropna()
        pairs = pairs[pairs.index % every == 0]
        x, y = ((pairs[name] - pairs[name].mean()).to_numpy() for name in ("one", "other"))
        # Not pandas' own, whose sums of products some processors round otherwise.
        spread = sqrt((x * x).sum() * (y * y).sum())
        return float((x * y).sum() / spread) if last in run.index and spread else nan

    return measure


def per_seed(arm: Arm, measure: Callable[[Run], float]) -> Callable[[Evidence], BySeed]:
    """The measurement on each run of an arm, by seed."""

    def measure_all(evidence: Evidence) -> BySeed:
        if arm not in evidence.studies.held():
            return {}
        runs = evidence.studies.rows(arm).set_index("iteration").groupby("seed")
        return {int(seed): float(measure(run)) for seed, run in runs}

    return measure_all


def constant(value: float) -> Callable[[Evidence], float]:
    """A theory that needs no evidence."""
    return lambda evidence: value


def predicted(arm: Arm, formula: Callable[[float, int], float]) -> Callable[[Evidence], float]:
    """A theory of the arm's truth probability q and group size G; nan if there is no such run."""

    def predict(evidence: Evidence) -> float:
        studies = evidence.studies
        if arm not in studies.held():
            return nan
        return formula(studies.truth_probability(arm), studies.group_size(arm))

    return predict


def paired(
    one: Callable[[Evidence], BySeed],
    other: Callable[[Evidence], BySeed],
    combine: Callable[[float, float], float],
) -> Callable[[Evidence], BySeed]:
    """Two measurements combined, seed by seed: arms share their seeds, so noise in common goes."""
    return combined([one, other], combine)


def combined(
    measurements: Sequence[Callable[[Evidence], BySeed]], combine: Callable[..., float]
) -> Callable[[Evidence], BySeed]:
    """Several measurements combined, seed by seed, where all have the seed."""

    def measure(evidence: Evidence) -> BySeed:
        first, *others = (one(evidence) for one in measurements)
        seeds = [seed for seed in first if all(seed in other for other in others)]
        return {seed: combine(first[seed], *(o[seed] for o in others)) for seed in seeds}

    return measure
