"""Measure every claim of document A against the tables: a ledger as Parquet and as Markdown.

python -m rlvr.claims --help
"""

import json
from math import nan
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import CliPositionalArg

from rlvr import command_line, document_a
from rlvr.ledger import CLAIMS, Evidence, as_markdown, judge
from rlvr.records import provenance, replacing, write_parquet
from rlvr.settings import GrpoRun, SftRun, Strict
from rlvr.studies import Studies, read_studies


def training_minutes(studies: Studies, folder: Path) -> float:
    """Minutes that the training jobs behind the tables took, summed; nan if a file is missing.

    Snakemake writes a line of JSON per job under `folder`, its seconds as `s`.
    """
    runs = [GrpoRun(**keys) for keys in studies.run_keys()]
    starts = {SftRun(teacher=run.teacher, seed=run.seed) for run in runs}
    paths = [f"grpo/{run.path}" for run in runs] + [f"sft/{start.path}" for start in starts]
    files = [folder / f"{path}.jsonl" for path in paths]
    if not all(file.is_file() for file in files):
        return nan
    return sum(json.loads(file.read_text())["s"] for file in files) / 60


class ClaimsStage(Strict):
    """Judge every claim on the tables of the studies."""

    tables: CliPositionalArg[list[Path]]
    """The studies' tables (Parquet)."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Confidence of intervals over seeds and of binomial bounds."""
    benchmarks_in: Path
    """The folder below which Snakemake wrote how long the jobs took."""
    parquet_out: Path
    """The ledger to write, without times (Parquet)."""
    markdown_out: Path
    """The ledger to write, with times (Markdown)."""

    def cli_cmd(self) -> None:
        """Judge and write. Times go to the Markdown alone: Parquet is the same on every machine."""
        studies = read_studies(self.tables)
        timed = Evidence(studies, training_minutes(studies, self.benchmarks_in))
        results, readable = (
            [judge(claim, evidence, self.confidence) for claim in document_a.CLAIMS]
            for evidence in (Evidence(studies), timed)
        )
        made_by = provenance("rlvr.claims", {}, {"confidence": self.confidence}, arms=studies.arms)
        write_parquet(self.parquet_out, results, CLAIMS, made_by)
        with replacing(self.markdown_out) as partial:
            partial.write_text(as_markdown(readable, self.confidence), encoding="utf-8")


if __name__ == "__main__":
    command_line.run(ClaimsStage)
