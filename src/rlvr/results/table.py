"""A study's table: the metrics of all its runs in one tidy Parquet file, run keys in front.

python -m rlvr.results.table --help
"""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr.config.runs import Run
from rlvr.config.settings.studies import StudyJob
from rlvr.errors import UserError
from rlvr.jobs import command_line
from rlvr.jobs.records import provenance, read_parquet, write_parquet
from rlvr.methods.columns import METRICS
from rlvr.results.schemas import RUN_KEYS, STUDY


def read_run(folder: Path, run: Run) -> tuple[pa.Table, dict[str, Any]]:
    """A run's metrics with its keys in front, and how they were made.

    Raises a `UserError` where the file holds another run than its path says.
    """
    path = folder / run.path / "metrics.parquet"
    metrics, made_by = read_parquet(path, METRICS)
    keys = run.model_dump()
    if made_by["run"] != keys:
        raise UserError(
            f"{path}: holds the run {made_by['run']}, not the one that its path names. "
            "Delete it and make it again."
        )
    expected = list(range(made_by["settings"][run.method]["iterations"] + 1))
    if metrics["iteration"].to_pylist() != expected:
        raise UserError(
            f"{path}: its iterations are not 0 to {expected[-1]}, one row each. "
            "Delete it and make it again."
        )
    columns = [pa.array([keys[key.name]] * len(metrics), key.type) for key in RUN_KEYS]
    return pa.table([*columns, *metrics.columns], schema=STUDY), made_by


WAY = ("method", "recipe", "teacher")
"""Keys that say how a run was made, but for its beta and its seed."""


def provenances(made_by: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each distinct way in which the runs were made, under its method, recipe and teacher.

    Raises a `UserError` where runs that differ in beta and seed alone were not made alike.
    """
    distinct: list[dict[str, Any]] = []
    for one in made_by:
        way = {key: one["run"][key] for key in WAY} | _without_keys(one)
        if way not in distinct:
            distinct.append(way)
    for one, other in itertools.combinations(distinct, 2):
        if all(one[key] == other[key] for key in WAY) and one["settings"] != other["settings"]:
            raise UserError(
                f"the runs of recipe {one['recipe']} and teacher {one['teacher']} were not all "
                f"made with the same settings: {one['settings']} and {other['settings']}. "
                "Delete those that are not as the config says, and make them again."
            )
    return distinct


def _without_keys(made_by: dict[str, Any]) -> dict[str, Any]:
    """A provenance without what differs between betas and seeds, in what it rests on as well."""
    return {
        key: _without_keys(part) if isinstance(part, dict) and "run" in part else part
        for key, part in made_by.items()
        if key not in ("run", "stage")
    }


class TableStage(StudyJob, command_line.Stage):
    """Join the metrics of a study's runs."""

    runs_in: Path
    """The folder below which runs lie, as METHOD/recipe=/teacher=/beta=/seed=/metrics.parquet."""
    table_out: Path
    """The table to write (Parquet)."""

    def cli_cmd(self) -> None:
        """Read, join and write."""
        runs = [read_run(self.runs_in, run) for run in self.runs()]
        settings = self.model_dump(include=set(StudyJob.model_fields))
        made_by = provenance(
            "rlvr.results.table", {}, settings, provenances=provenances([made for _, made in runs])
        )
        write_parquet(self.table_out, pa.concat_tables([rows for rows, _ in runs]), STUDY, made_by)


if __name__ == "__main__":
    command_line.run(TableStage)
