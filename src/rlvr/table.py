"""A study's table: the metrics of all its GRPO runs in one tidy Parquet file, run keys in front.

python -m rlvr.table --help
"""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr import command_line
from rlvr.errors import UserError
from rlvr.records import provenance, read_parquet, write_parquet
from rlvr.runs import GrpoRun, all_runs
from rlvr.schemas import METRICS, RUN_KEYS, STUDY
from rlvr.settings import StudySettings


def read_run(folder: Path, run: GrpoRun) -> tuple[pa.Table, dict[str, Any]]:
    """A run's metrics with its keys in front, and how they were made.

    Raises a `UserError` where the file holds another run than its path says.
    """
    path = folder / run.path / "metrics.parquet"
    metrics, made_by = read_parquet(path, METRICS)
    keys = run.model_dump()
    expected = list(range(made_by["settings"]["grpo"]["iterations"] + 1))
    if metrics["iteration"].to_pylist() != expected:
        raise UserError(
            f"{path}: its iterations are not 0 to {expected[-1]}, one row each. "
            "Delete it and make it again."
        )
    if made_by["run"] != keys:
        raise UserError(
            f"{path}: holds the run {made_by['run']}, not the one that its path names. "
            "Delete it and make it again."
        )
    columns = [pa.array([keys[key.name]] * len(metrics), key.type) for key in RUN_KEYS]
    return pa.table([*columns, *metrics.columns], schema=STUDY), made_by


def arms(made_by: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each distinct way in which the runs were made, under its recipe and teacher."""
    distinct: list[dict[str, Any]] = []
    for one in made_by:
        names = {key: one["run"][key] for key in ("recipe", "teacher")}
        arm = names | one | {"sft": one["sft"].copy()}
        for part, key in itertools.product((arm, arm["sft"]), ("run", "stage")):
            part.pop(key, None)  # what is left is the same for all seeds
        if arm not in distinct:
            distinct.append(arm)
    for one, other in itertools.combinations(distinct, 2):
        if (one["recipe"], one["teacher"]) == (other["recipe"], other["teacher"]) and (
            one["settings"] != other["settings"]
        ):
            raise UserError(
                f"the runs of recipe {one['recipe']} and teacher {one['teacher']} were not all "
                f"made with the same settings: {one['settings']} and {other['settings']}. "
                "Delete those that are not as the config says, and make them again."
            )
    return distinct


class TableStage(StudySettings, command_line.Stage):
    """Join the metrics of a study's runs."""

    runs_in: Path
    """The folder below which the runs lie, as recipe=/teacher=/beta=/seed=/metrics.parquet."""
    table_out: Path
    """The table to write (Parquet)."""

    def cli_cmd(self) -> None:
        """Read, join and write."""
        runs = [
            read_run(self.runs_in, run)
            for run in all_runs(self.recipes, self.teachers, self.betas, self.seeds)
        ]
        settings = self.model_dump(include=set(StudySettings.model_fields))
        made_by = provenance("rlvr.table", {}, settings, arms=arms([made for _, made in runs]))
        write_parquet(self.table_out, pa.concat_tables([rows for rows, _ in runs]), STUDY, made_by)


if __name__ == "__main__":
    command_line.run(TableStage)
