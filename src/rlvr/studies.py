"""Reading studies back: what figures and claims know of the runs comes from here alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from rlvr.errors import UserError
from rlvr.records import read_parquet
from rlvr.schemas import RUN_KEYS, STUDY


class Studies(NamedTuple):
    """The joined tables of one or more studies."""

    frame: pd.DataFrame
    """One row per run and iteration; the columns of `schemas.STUDY`."""
    arms: list[dict[str, Any]]
    """How the runs were made: settings, code and packages, by recipe and teacher."""

    def rows(self, recipe: str, teacher: str, beta: float) -> pd.DataFrame:
        """All rows of one arm. Raises a `UserError` if the tables hold none."""
        frame = self.frame
        chosen = (frame.recipe == recipe) & (frame.teacher == teacher) & (frame.beta == beta)
        if not chosen.any():
            held = self.frame[["recipe", "teacher", "beta"]].drop_duplicates()
            raise UserError(
                f"the tables hold no run of recipe {recipe}, teacher {teacher}, beta {beta:g}; "
                f"they hold {'; '.join(' '.join(map(str, row)) for row in held.values)}. "
                "Name another study in config.yaml."
            )
        return frame[chosen]

    def arm(self, recipe: str, teacher: str) -> dict[str, Any]:
        """How the runs of an arm were made."""
        return next(a for a in self.arms if (a["recipe"], a["teacher"]) == (recipe, teacher))

    def truth_probability(self, recipe: str, teacher: str) -> float:
        """The q of the teacher that an arm started from."""
        return self.arm(recipe, teacher)["sft"]["settings"]["teacher"]["truth_probability"]


def read_studies(paths: Sequence[Path]) -> Studies:
    """The tables at `paths` as one; a run that several of them hold counts once."""
    tables, made_by = zip(*(read_parquet(path, STUDY) for path in paths), strict=True)
    frame = pd.concat([table.to_pandas() for table in tables], ignore_index=True)
    frame = frame.drop_duplicates([*RUN_KEYS.names, "iteration"], ignore_index=True)
    return Studies(frame, [arm for one in made_by for arm in one["arms"]])
