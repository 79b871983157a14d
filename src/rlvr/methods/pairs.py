"""Labelled pairs of completions: what reward models and DPO learn from, as a file.

`rlvr.methods.preferences` makes it; both columns of completions are in the order in which they were
sampled, so that which was chosen is a column of its own.
"""

from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from rlvr.config.runs import PreferencesRun
from rlvr.errors import UserError
from rlvr.jobs.records import column, read_parquet
from rlvr.task.addition import Additions
from rlvr.task.annotators import SECOND

PAIRS = pa.schema(
    [
        column("a", pa.int64(), "1", "first operand of the prompt"),
        column("b", pa.int64(), "1", "second operand"),
        column("completion_1", pa.list_(pa.int64()), "tokens", "a completion of the SFT policy"),
        column("completion_2", pa.list_(pa.int64()), "tokens", "another, sampled alike"),
        column("log_prob_1", pa.float64(), "nats", "log-probability of sampling the first"),
        column("log_prob_2", pa.float64(), "nats", "of sampling the second"),
        column("chosen", pa.int64(), "1", "which of the two the annotator chose: 1 or 2"),
    ]
)


class Pairs(NamedTuple):
    """Completions of n additions, of which one was chosen."""

    asked: Additions
    """The additions, n of them."""
    chosen: np.ndarray
    """Tokens (n, 3)."""
    rejected: np.ndarray
    """Tokens (n, 3)."""

    def taken(self, indices: np.ndarray) -> Self:
        """Those of these indices (m,)."""
        asked = Additions(*(operands[indices] for operands in self.asked))
        return type(self)(asked, self.chosen[indices], self.rejected[indices])

    def prompts(self) -> np.ndarray:
        """The prompts of the chosen completions, then the same of the rejected ones (2n, 7)."""
        return np.tile(self.asked.prompts(), (2, 1))

    def completions(self) -> np.ndarray:
        """The chosen completions, then the rejected ones (2n, 3)."""
        return np.concatenate([self.chosen, self.rejected])


def read_pairs(path: Path, run: PreferencesRun) -> tuple[Pairs, dict[str, Any]]:
    """The pairs of a file, and how they were made.

    Raises a `UserError` where the file does not hold pairs of this run.
    """
    table, made_by = read_parquet(path, PAIRS)
    if made_by["run"] != run.model_dump():
        raise UserError(
            f"{path}: holds the pairs {made_by['run']}, not {run.model_dump()}, of which this is "
            "to learn. Name those."
        )
    columns = table.to_pydict()
    asked = Additions(*(np.array(columns[name], dtype=np.int64) for name in ("a", "b")))
    first, second = (np.array(columns[f"completion_{i}"], dtype=np.int64) for i in (1, 2))
    swapped = (np.array(columns["chosen"]) == SECOND)[:, np.newaxis]
    return Pairs(asked, np.where(swapped, second, first), np.where(swapped, first, second)), made_by
