"""Preferences: pairs of an SFT policy's completions, and which of the two an annotator chooses.

python -m rlvr.methods.preferences --help
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np

from rlvr.config.methods.preferences import PreferencesJob, PreferencesSettings
from rlvr.config.runs import PreferencesRun
from rlvr.config.values import Labels
from rlvr.errors import UserError
from rlvr.jobs import command_line
from rlvr.jobs.records import provenance, write_parquet
from rlvr.methods.pairs import PAIRS
from rlvr.methods.run_stage import Start, check_start, read_start
from rlvr.policy.sampling import rollout
from rlvr.task.addition import draw_additions
from rlvr.task.annotators import NEITHER, chosen
from rlvr.task.streams import stream

log = logging.getLogger("rlvr.methods.preferences")

AT_ONCE = 512  # prompts, of which as many pairs are sampled and some are ties
MOST_DRAWS = 10_000  # of so many; then there are too few pairs that are no ties


def draw_pairs(
    start: Start,
    settings: PreferencesSettings,
    labels: Labels,
    count: int,
    seed: int,
    purpose: str,
) -> list[dict[str, Any]]:
    """So many labelled pairs, rows of `PAIRS`; ties are not among them.

    Prompts are uniform over those that SFT was trained on, and both completions are sampled at
    temperature 1. Of two counts, the pairs of the smaller are the first of the larger. Raises a
    `UserError` where the policy's completions tie without end.
    """
    rows: list[dict[str, Any]] = []
    draw = 0
    while len(rows) < count:
        draw += 1
        if draw > MOST_DRAWS:
            raise UserError(
                f"of {MOST_DRAWS * AT_ONCE:,} pairs of completions only {len(rows)} were no ties "
                f"to {labels} labels; {count} are asked for. The policy's completions are too much "
                "alike: name another teacher, or fewer pairs."
            )
        asked = draw_additions(AT_ONCE, stream(seed, f"{purpose}_prompts", draw), start.split.train)
        generator = stream(seed, f"{purpose}_completions", draw)
        sampled = [rollout(start.policy, asked.prompts(), generator) for _ in range(2)]
        first, second = (one.completions for one in sampled)
        choice = chosen(
            labels,
            asked,
            (first, second),
            settings.habitual_truth,
            stream(seed, f"{purpose}_labels", draw),
        )
        log_probs = [one.log_probs.sum(axis=1, dtype=np.float64) for one in sampled]
        columns = (asked.a, asked.b, first, second, *log_probs, choice)
        kept = (column[choice != NEITHER].tolist() for column in columns)
        rows += [dict(zip(PAIRS.names, row, strict=True)) for row in zip(*kept, strict=True)]
    log.info("%d of %d pairs were no ties", len(rows), draw * AT_ONCE)
    return rows[:count]


class PreferencesStage(PreferencesJob, command_line.Stage):
    """Sample pairs of completions of an SFT policy, and label them."""

    run: PreferencesRun
    """Keys of this run."""
    sft_policy: Path
    """The SFT weights to sample from (safetensors)."""
    pairs_out: Path
    """The pairs to write (Parquet)."""
    fresh_out: Path
    """More of them to write, to judge on what was learned (Parquet)."""

    def cli_cmd(self) -> None:
        """Sample, label and write."""
        start = read_start(self.sft_policy, self)
        check_start(self.sft_policy, start, self.run)
        made_by = provenance(
            "rlvr.methods.preferences",
            self.run.model_dump(),
            self.model_dump(include=set(PreferencesJob.model_fields)),
            self.modules(),
            sft=start.made_by,
        )
        counts = {"preference": self.run.pairs, "fresh": self.preferences.fresh_pairs}
        rows, fresh = (
            draw_pairs(start, self.preferences, self.run.labels, count, self.run.seed, purpose)
            for purpose, count in counts.items()
        )
        write_parquet(self.pairs_out, rows, PAIRS, made_by)
        write_parquet(self.fresh_out, fresh, PAIRS, made_by)


if __name__ == "__main__":
    command_line.run(PreferencesStage)
