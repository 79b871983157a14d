"""Confidence intervals over seeds, as bands over iterations and as bars over settings."""

from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes

from rlvr.results.schemas import range_of, unit_of
from rlvr.results.statistics import Interval, mean_interval

CONFIDENCE = 0.95


def interval_of(column: str, values: pd.Series) -> Interval:
    """The mean over seeds of what a column of the tables holds, with its interval."""
    return mean_interval(values.to_list(), CONFIDENCE, range_of(unit_of(column)))


def in_words(methods: set[str]) -> str:
    """What the intervals are, for a legend."""
    known = sorted(methods - {"none"}, key=len)
    return f"{CONFIDENCE:.0%} interval of the mean ({', '.join(known)})" if known else "one seed"


def draw_band(
    axes: Axes, column: str, by_seed: pd.DataFrame, color: str, label: str, **line: object
) -> set[str]:
    """A column of the tables over iterations: seeds thin, mean thick, its interval a band.

    `by_seed` has a row per iteration and a column per seed. Returns the names of the methods behind
    the intervals.
    """
    axes.plot(by_seed.index, by_seed, color=color, linewidth=0.6, alpha=0.45)
    intervals = [interval_of(column, by_seed.loc[iteration]) for iteration in by_seed.index]
    mean, low, high = zip(*((i.mean, i.low, i.high) for i in intervals), strict=True)
    axes.plot(by_seed.index, mean, color=color, linewidth=2, label=label, **line)
    axes.fill_between(by_seed.index, low, high, color=color, alpha=0.15, linewidth=0)
    return {interval.method for interval in intervals}


def draw_bars(
    axes: Axes,
    column: str,
    by_setting: dict[float, pd.Series],
    place: Callable[[float], float],
    color: str,
    **line: object,
) -> set[str]:
    """A column of the tables over a setting: each seed a dot, means joined, intervals as bars.

    `by_setting` holds the values over seeds for each setting, `place` where the setting stands.
    """
    intervals = {setting: interval_of(column, values) for setting, values in by_setting.items()}
    for setting, values in by_setting.items():
        axes.plot([place(setting)] * len(values), values, ".", color=color, markersize=3, alpha=0.6)
        axes.vlines(
            place(setting), intervals[setting].low, intervals[setting].high, color=color,
            linewidth=1, alpha=0.5,
        )  # fmt: skip
    axes.plot(
        [place(setting) for setting in intervals],
        [interval.mean for interval in intervals.values()],
        color=color,
        **line,
    )
    return {interval.method for interval in intervals.values()}
