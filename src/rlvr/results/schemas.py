"""The columns of the studies' tables, and what their quantities can be."""

from math import inf

import pyarrow as pa

from rlvr.jobs.records import column
from rlvr.methods.columns import METRICS

RUN_KEYS = pa.schema(
    [
        column("method", pa.string(), "name", "how the run learns"),
        column("recipe", pa.string(), "name", "changes to the settings of the method"),
        column("teacher", pa.string(), "name", "whose completions SFT imitated"),
        column("beta", pa.float64(), "1 per nat", "strength of the KL penalty, or DPO's beta"),
        column("seed", pa.int64(), "1", "run seed"),
    ]
)

STUDY = pa.schema([*RUN_KEYS, *METRICS])
"""A study's table: the metrics of all its runs, with the run keys in front."""


def unit_of(name: str) -> str:
    """The unit of a column of the studies' tables."""
    return STUDY.field(name).metadata[b"unit"].decode()


RANGES = {
    "fraction": (0, 1),
    "probability": (0, 1),
    "correlation": (-1, 1),
    "ratio": (0, inf),
    "nats per sequence": (0, inf),
    "iterations": (0, inf),
    "minutes": (0, inf),
}
"""What a quantity, and so its mean, can be: by unit. Any other can be anything."""


def range_of(unit: str, difference: bool = False) -> tuple[float, float]:
    """What a quantity of this unit can be, or the difference of two."""
    low, high = RANGES.get(unit, (-inf, inf))
    return (low - high, high - low) if difference else (low, high)
