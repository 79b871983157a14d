"""What a claim is, how it is judged on the evidence, and the ledger of claims.

A claim that fails is a result, not an error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, NamedTuple

import pyarrow as pa

from rlvr.jobs.records import column
from rlvr.results.schemas import range_of
from rlvr.results.statistics import failure_rate_bound, mean_interval
from rlvr.results.studies import Studies

CLAIMS = pa.schema(
    [
        column("claim", pa.string(), "name", "key of the claim"),
        column("source", pa.string(), "text", "the document that makes the claim"),
        column("statement", pa.string(), "text", "what the document says"),
        column("unit", pa.string(), "text", "unit of all values of this row"),
        column("document", pa.list_(pa.float64()), "unit", "the document's own values"),
        column("seeds", pa.list_(pa.int64()), "1", "seeds of `ours`; empty for a single value"),
        column(
            "ours",
            pa.list_(pa.float64()),
            "unit",
            "a value per seed",
            not_finite="nan: not measured; inf: never reached",
        ),
        column(
            "mean",
            pa.float64(),
            "unit",
            "mean of `ours`",
            not_finite="nan: a seed was not measured, or never got there",
        ),
        column(
            "interval_low",
            pa.float64(),
            "unit",
            "confidence interval of the mean over seeds",
            not_finite="nan: of fewer than two seeds, or no mean",
        ),
        column(
            "interval_high",
            pa.float64(),
            "unit",
            "its upper end",
            not_finite="nan: of fewer than two seeds, or no mean",
        ),
        column("interval_method", pa.string(), "text", "t, log t, logit t, or none"),
        column("theory", pa.float64(), "unit", "theory's value", not_finite="nan: there is none"),
        column("low", pa.float64(), "unit", "a value holds from here", not_finite="-inf: no limit"),
        column("high", pa.float64(), "unit", "to here", not_finite="inf: no limit"),
        column("reason", pa.string(), "text", "why these limits"),
        column(
            "failure_rate_bound",
            pa.float64(),
            "1",
            "exact upper bound, for 'never' claims",
            not_finite="nan: no such claim, or not measured",
        ),
        column(
            "verdict",
            pa.string(),
            "text",
            "holds, holds on n of m seeds, fails, not measured; see claims.md: a time, which this "
            "file does not record, being the same on every machine",
        ),
    ]
)


class Evidence(NamedTuple):
    """All that claims are judged on."""

    studies: Studies
    minutes: dict[int, float] | None = None
    """What each seed's training took; None where times are not to be recorded."""


@dataclass(frozen=True)
class Claim:
    """A claim of a document, how it is measured, and when it holds: low <= value <= high."""

    key: str
    statement: str
    unit: str
    document: tuple[float, ...]
    """What the document prints: one value per seed of its own, one in all, none for a sentence."""
    measure: Callable[[Evidence], dict[int | None, float]]
    """Values by seed, or a single one under None. nan is not measured, inf is never reached."""
    low: float
    high: float
    reason: str
    """Why these limits."""
    theory: Callable[[Evidence], float] = lambda evidence: nan
    difference: bool = False
    """Its values are differences of two of its unit."""
    never: bool = False
    """The claim says that something never happens: then the rate of it is bounded too."""
    timed: bool = False
    """The claim is about time, which the Parquet does not record."""
    source: str = "A"
    """The document that makes the claim."""


def verdict(holds: Sequence[bool | None], per_seed: bool) -> str:
    """'holds', 'holds on n of m seeds', 'fails'; 'not measured' where a value is missing (None)."""
    if not holds or None in holds:
        return "not measured"
    if all(holds):
        return "holds"
    if any(holds) and per_seed:
        return f"holds on {sum(holds)} of {len(holds)} seeds"
    return "fails"


def judge(claim: Claim, evidence: Evidence, confidence: float) -> dict[str, Any]:
    """The claim's row in the ledger; the columns of `CLAIMS`."""
    values = claim.measure(evidence)
    holds = [None if isnan(v) else claim.low <= v <= claim.high for v in values.values()]
    seeds = [seed for seed in values if seed is not None]
    within = range_of(claim.unit, claim.difference)
    interval = mean_interval(list(values.values()), confidence, within)
    bound = nan
    if claim.never and holds and None not in holds:
        bound = failure_rate_bound(holds.count(False), len(holds), confidence)
    return {
        "claim": claim.key,
        "source": claim.source,
        "statement": claim.statement,
        "unit": claim.unit,
        "document": list(claim.document),
        "seeds": seeds,
        "ours": list(values.values()),
        "mean": interval.mean,
        "interval_low": interval.low,
        "interval_high": interval.high,
        "interval_method": interval.method,
        "theory": claim.theory(evidence),
        "low": claim.low,
        "high": claim.high,
        "reason": claim.reason,
        "failure_rate_bound": bound,
        "verdict": (
            "see claims.md"
            if claim.timed and evidence.minutes is None
            else verdict(holds, per_seed=bool(seeds))
        ),
    }
