"""The columns of GRPO runs and of the studies' tables: name, type, unit and meaning, written once.

Units and meanings travel in the files' own metadata, so that a reader needs nothing of ours.
"""

from math import inf

import pyarrow as pa

from rlvr.records import column

METRICS = pa.schema(
    [
        column("iteration", pa.int64(), "GRPO iterations", "0 is the SFT policy itself"),
        column("reward_mean", pa.float64(), "fraction", "mean reward of the batch"),
        column(
            "reward_counts",
            pa.list_(pa.int64()),
            "groups",
            "groups of the batch with k = 0..G right completions",
        ),
        column("zero_signal_fraction", pa.float64(), "fraction", "groups whose rewards are equal"),
        column("all_wrong_fraction", pa.float64(), "fraction", "groups with no right completion"),
        column("all_right_fraction", pa.float64(), "fraction", "groups with only right ones"),
        column(
            "kl",
            pa.float64(),
            "nats per sequence",
            "KL to the SFT policy, estimator k1: batch mean of log_probs_old - log_probs_ref",
        ),
        column(
            "entropy",
            pa.float64(),
            "nats per sequence",
            "of the next-token distributions along the sampled completions, batch mean",
        ),
        column(
            "clip_fraction",
            pa.float64(),
            "fraction",
            "ratios whose gradient the clipping removes, mean over the updates",
        ),
        column("gradient_norm", pa.float64(), "1", "before clipping, mean over the updates"),
        column(
            "accuracy",
            pa.float64(),
            "fraction",
            "greedy, exact over all prompts (over the held-out ones, if the teacher has a split)",
        ),
        column("accuracy_carry", pa.float64(), "fraction", "the same over the carry prompts"),
        column(
            "success_probability",
            pa.float64(),
            "probability",
            "of sampling the right answer at the sampling temperature, mean over the same prompts",
        ),
        column(
            "success_probability_carry",
            pa.float64(),
            "probability",
            "the same over the carry prompts",
        ),
        column(
            "kl_floor",
            pa.float64(),
            "nats per sequence",
            "least KL to the SFT policy of any policy with these success probabilities, each "
            "prompt from its own, mean over the same prompts",
        ),
    ]
)

RUN_KEYS = pa.schema(
    [
        column("recipe", pa.string(), "name", "changes to the grpo settings"),
        column("teacher", pa.string(), "name", "whose answers SFT imitated"),
        column("beta", pa.float64(), "1 per nat", "strength of the KL penalty"),
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
