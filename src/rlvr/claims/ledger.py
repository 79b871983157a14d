"""Measure the documents' claims against the tables: a ledger as Parquet, Markdown and HTML.

python -m rlvr.claims.ledger --help
"""

import json
from pathlib import Path

from pydantic_settings import CliPositionalArg

from rlvr.claims import contrasts, document_a, document_b
from rlvr.claims.claim import CLAIMS, Evidence, judge
from rlvr.claims.pages import as_html, as_markdown
from rlvr.config.arms import COLD, WEAK, Arm
from rlvr.config.runs import Run
from rlvr.config.values import Confidence
from rlvr.jobs import command_line
from rlvr.jobs.records import provenance, replacing, write_parquet
from rlvr.results.studies import Studies, read_studies

ALL_CLAIMS = (*document_a.CLAIMS, *document_b.CLAIMS, *contrasts.CLAIMS)


def training_minutes(studies: Studies, folder: Path) -> dict[int, float]:
    """Minutes of all training jobs behind document A's figures, by seed; one thread per job.

    Snakemake writes a line of JSON per job under `folder`, its seconds as `s`. Empty where a line
    is missing, or where training was not on a CPU.
    """
    if not {WEAK, COLD} <= studies.held():
        return {}
    if any(studies.made_by(arm)["settings"]["device"] != "cpu" for arm in (WEAK, COLD)):
        return {}
    try:
        return {
            seed: sum(_seconds(folder, arm, seed) for arm in (WEAK, COLD)) / 60
            for seed in studies.seeds(WEAK)
        }
    except (OSError, ValueError, KeyError):
        return {}


def _seconds(folder: Path, arm: Arm, seed: int) -> float:
    """What GRPO and the SFT before it took."""
    run = Run(method="grpo", **arm._asdict(), seed=seed)
    files = (folder / f"{run.path}.jsonl", folder / f"{run.start.path}.jsonl")
    return sum(json.loads(file.read_text())["s"] for file in files)


class ClaimsStage(command_line.Stage):
    """Judge every claim on the tables of the studies."""

    tables: CliPositionalArg[list[Path]]
    """The studies' tables (Parquet)."""
    confidence: Confidence
    """Confidence of intervals over seeds and of binomial bounds."""
    benchmarks_in: Path
    """The folder below which Snakemake wrote how long the jobs took."""
    parquet_out: Path
    """The ledger to write, without times (Parquet)."""
    markdown_out: Path
    """The ledger to write, with times (Markdown)."""
    html_out: Path
    """The same as a page of its own (HTML)."""

    def cli_cmd(self) -> None:
        """Judge and write. Times are for people alone: Parquet is the same on every machine."""
        studies = read_studies(self.tables)
        timed = Evidence(studies, training_minutes(studies, self.benchmarks_in))
        results, readable = (
            [judge(claim, evidence, self.confidence) for claim in ALL_CLAIMS]
            for evidence in (Evidence(studies), timed)
        )
        made_by = provenance(
            "rlvr.claims.ledger",
            {},
            {"confidence": self.confidence},
            provenances=studies.provenances,
        )
        write_parquet(self.parquet_out, results, CLAIMS, made_by)
        for path, text in (
            (self.markdown_out, as_markdown(readable, self.confidence)),
            (self.html_out, as_html(readable, self.confidence)),
        ):
            with replacing(path) as partial:
                partial.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    command_line.run(ClaimsStage)
