"""Reading studies back: what figures and claims know of the runs comes from here alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from rlvr.config.arms import Arm
from rlvr.errors import UserError
from rlvr.jobs.records import read_parquet
from rlvr.results.schemas import RUN_KEYS, STUDY


class Studies(NamedTuple):
    """The joined tables of one or more studies."""

    frame: pd.DataFrame
    """One row per run and iteration; the columns of `schemas.STUDY`."""
    provenances: list[dict[str, Any]]
    """How the runs were made: settings, code and packages, by method, recipe and teacher."""

    def held(self) -> set[Arm]:
        """The arms that the tables hold runs of."""
        keys = self.frame[list(Arm._fields)].drop_duplicates()
        return {Arm(*row) for row in keys.itertuples(index=False, name=None)}

    def rows(self, arm: Arm) -> pd.DataFrame:
        """All rows of one arm. Raises a `UserError` if the tables hold none."""
        frame = self.frame
        of_arm = (
            (frame.recipe == arm.recipe) & (frame.teacher == arm.teacher) & (frame.beta == arm.beta)
        )
        if not of_arm.any():
            held = "; ".join(sorted(map(str, self.held())))
            raise UserError(
                f"the tables hold no run of {arm}. They hold {held}. "
                "Name a study that has it in config.yaml."
            )
        return frame[of_arm]

    def seeds(self, arm: Arm) -> list[int]:
        """The seeds of an arm, in order."""
        return sorted(self.rows(arm).seed.unique().tolist())

    def made_by(self, arm: Arm) -> dict[str, Any]:
        """How the runs of an arm were made."""
        return next(p for p in self.provenances if (p["recipe"], p["teacher"]) == arm[:2])

    def truth_probability(self, arm: Arm) -> float:
        """The q of the teacher that an arm started from."""
        return self.made_by(arm)["sft"]["settings"]["teacher"]["truth_probability"]

    def settings(self, arm: Arm) -> dict[str, Any]:
        """The settings of an arm's method, by their names in the config."""
        made_by = self.made_by(arm)
        return made_by["settings"][made_by["method"]]

    def group_size(self, arm: Arm) -> int:
        """Completions per prompt, G."""
        return self.settings(arm)["group_size"]


def read_studies(paths: Sequence[Path]) -> Studies:
    """The tables at `paths` as one; a run that several of them hold counts once."""
    tables, made_by = zip(*(read_parquet(path, STUDY) for path in paths), strict=True)
    frame = pd.concat([table.to_pandas() for table in tables], ignore_index=True)
    frame = frame.drop_duplicates([*RUN_KEYS.names, "iteration"], ignore_index=True)
    return Studies(frame, [way for one in made_by for way in one["provenances"]])
