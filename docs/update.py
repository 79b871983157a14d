"""Copy the finished results into docs/ and README.md: figures, their pages, claims, the rule graph.

The page of a figure is its template in docs/templates/ with the blanks filled in. A blank names a
claim and what is to be said of it, one of the fields of `Measured`: {carry_lifted.ours}, or with a
format {carry_lifted.mean:.3f}. A blank that the ledger has nothing for is an error.

    make docs
"""

import difflib
import os
import re
import shutil
import string
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isinf, isnan, nan
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from rlvr.claims.pages import number
from rlvr.config.runs import PreferencesRun, RewardModelRun
from rlvr.config.settings.whole import Config, load_config
from rlvr.errors import UserError
from rlvr.results.fixed_points import rest_advantage, rest_loss_k3

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DOCUMENT_A = ("fig1_rlvr_overturns", "fig2_unhackable_reward", "fig3_cold_start")

# --- Pages of figures, from templates -------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What a template can say of a claim. None and nan stand for what is not there."""

    document: str | None
    """The values that the document prints; none where it makes its claim in words."""
    ours: str | None
    """Our values, one per seed; none where one was not measured."""
    seeds: str | None
    """The seeds of `ours`."""
    mean: float
    """Over seeds; none where a seed never gets there."""
    interval: str
    """Confidence interval of the mean over seeds, in brackets."""
    theory: float
    """What theory predicts."""
    limits: str
    """Within which a seed's value holds."""
    bound: float
    """Upper bound of the rate of failing, for what is claimed never to happen."""
    verdict: str
    """holds, holds on n of m seeds, fails, not measured."""


def measured(row: Mapping[str, Any]) -> Measured:
    """A row of the ledger, as templates name it."""
    interval = in_words([row["interval_low"], row["interval_high"]], row["unit"], ", ")
    return Measured(
        document=in_words(row["document"], row["unit"]),
        ours=in_words(row["ours"], row["unit"]),
        seeds=", ".join(map(str, row["seeds"])) or None,
        mean=row["mean"],
        interval=f"[{interval}]" if interval else "(no interval)",
        theory=row["theory"],
        limits=limits_in_words(row["low"], row["high"]),
        bound=row["failure_rate_bound"],
        verdict=row["verdict"],
    )


def in_words(values: Sequence[float], unit: str, between: str = " / ") -> str | None:
    """Numbers as the ledger writes them; None if there is none, or one was not measured."""
    if not values or any(map(isnan, values)):
        return None
    return between.join(number(value, unit) for value in values)


def limits_in_words(low: float, high: float) -> str:
    """The values within which a claim holds."""
    low_text, high_text = (with_minus(f"{limit:,.6g}") for limit in (low, high))
    if isinf(low):
        return f"at most {high_text}"
    return f"at least {low_text}" if isinf(high) else f"{low_text} to {high_text}"


def with_minus(number: str) -> str:
    """A number with the minus sign that typography has for it."""
    return number.replace("-", "−")


class Blanks(string.Formatter):
    """`str.format` that refuses a blank which it has nothing for, and writes proper minus signs."""

    def get_field(self, field_name: str, args: Sequence, kwargs: Mapping) -> tuple[Any, Any]:
        """The value of a blank. Raises a `UserError` that says what is wrong with the blank."""
        blank = f"{{{field_name}}}"
        claim, _, field = field_name.partition(".")
        if claim not in kwargs:
            close = difflib.get_close_matches(claim, kwargs, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise UserError(f"{blank}: there is no claim {claim}.{hint}")
        if not isinstance(kwargs[claim], Measured):
            return super().get_field(field_name, args, kwargs)
        fields = kwargs[claim].__dict__
        if field not in fields:
            raise UserError(f"{blank}: a claim has no field {field!r}; it has {', '.join(fields)}.")
        value = fields[field]
        if value is None or value != value:
            raise UserError(f"{blank}: the ledger has no such value; verdict: {fields['verdict']}.")
        return value, claim

    def format_field(self, value: Any, format_spec: str) -> str:
        """The value in its format. Raises a `UserError` where that is for another kind of value."""
        try:
            text = super().format_field(value, format_spec)
        except ValueError:
            raise UserError(f"not a format for {value!r}: {format_spec!r}.") from None
        return with_minus(text) if isinstance(value, float) else text


def fill(template: str, blanks: Mapping[str, Any]) -> str:
    """A template with its blanks filled in. Raises a `UserError` where that cannot be done."""
    try:
        return Blanks().vformat(template, (), blanks)
    except ValueError as error:  # a lone brace
        raise UserError(f"{error}. A brace that is meant is written twice.") from None


def resting_points(config: Config) -> str:
    """Where theory puts success on carry prompts in figure 5, as rows of a table, over beta."""
    q = config.teachers["weak"].truth_probability
    grpo = config.job("advantage_t10_lr1").grpo
    kind = (grpo.group_size, grpo.advantage_epsilon)
    return "\n".join(
        f"| {b:g} | {rest_advantage(q, b, *kind):.3f} | {rest_loss_k3(q, b, *kind):.3f} |"
        for b in config.studies["kl_weak_advantage"].betas
    )


def reward_models(results: Path, config: Config) -> str:
    """How well the reward models know fresh pairs at their end, by seed, as rows of a table."""
    accuracies: dict[str, list[str]] = {}
    for run in config.all_used():
        if isinstance(run, RewardModelRun):
            path = results / run.path / "metrics.parquet"
            steps = pq.read_table(path, partitioning=None).to_pylist() if path.exists() else []
            accuracy = steps[-1]["accuracy_fresh"] if steps else nan
            accuracies.setdefault(run.reward, []).append(number(accuracy, "fraction"))
    rows = []
    for name, values in accuracies.items():
        reward = config.rewards[name]
        rows.append(f"| `{name}` | {reward.pairs:,}, {reward.labels} | {' / '.join(values)} |")
    return "\n".join(rows)


def blanks_for(
    ledger: Iterable[Mapping[str, Any]], config: Config, results: Path
) -> dict[str, Any]:
    """All that a template can name, from the rows of the ledger, settings and reward models."""
    claims = {row["claim"]: measured(row) for row in ledger}
    tables = {
        "resting_points": resting_points(config),
        "reward_models": reward_models(results, config),
    }
    return {**claims, **tables}


def our_config() -> Config:
    """config.yaml, checked."""
    return load_config(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")))


def write_pages(results: Path) -> None:
    """The page of each figure, from its template and the ledger in `results`."""
    config = our_config()
    ledger = pq.read_table(results / "claims.parquet").to_pylist()
    blanks = blanks_for(ledger, config, results)
    pages = {}
    for template in sorted((DOCS / "templates").glob("*.md")):
        try:
            pages[template.name] = fill(template.read_text(encoding="utf-8"), blanks)
        except UserError as error:
            sys.exit(f"docs/templates/{template.name}: {error}")
    for name, page in pages.items():  # all of them, or none
        note = f"<!-- Made by `make docs` from templates/{name}: edit that, not this. -->\n\n"
        (DOCS / name).write_text(note + page, encoding="utf-8")


# --- README.md ------------------------------------------------------------------------------------


def replace_section(text: str, name: str, content: str) -> str:
    """The text with what stands between the markers of a section replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"README.md: expected the markers {begin} and {end} once each")
    pattern = re.escape(begin) + ".*" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{content}\n{end}", text, flags=re.DOTALL)


def output_of(*command: str) -> str:
    """What a command prints, in one order whenever it does."""
    ordered = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, env=ordered
    )
    return done.stdout.strip()


def jobs_in_words(config: Config) -> str:
    """How many jobs train for all figures and claims, and for document A's."""
    trained = [run for run in config.all_used() if not isinstance(run, PreferencesRun)]
    of_a = [run for figure in DOCUMENT_A for study in config.figures[figure].studies
            for run in config.runs(study)]  # fmt: skip
    of_a = {*of_a, *(run.start for run in of_a)}
    return f"{len(trained)} jobs train, {len(of_a)} of them for document A"


def update_readme(results: Path) -> None:
    """The sections of README.md that are made from results and from tests."""
    ledger = (results / "claims.md").read_text(encoding="utf-8").split("## When a claim holds")[0]
    graph = output_of("snakemake", "--rulegraph", "mermaid-js")
    reruns = output_of(sys.executable, "tests/reruns.py")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    text = replace_section(text, "claims", ledger.split("\n", 2)[2].strip())
    text = replace_section(text, "speed", (ROOT / "benchmarks" / "report.md").read_text().strip())
    text = replace_section(text, "graph", f"```mermaid\n{graph}\n```")
    text = replace_section(text, "reruns", reruns)
    jobs = jobs_in_words(our_config())
    text = re.sub(r"\d+\s+jobs\s+train,\s+\d+\s+of\s+them\s+for\s+document\s+A", jobs, text)
    readme.write_text(text, encoding="utf-8")


def main() -> None:
    """Update docs/ and README.md from results/."""
    results = ROOT / "results"
    figures = sorted(results.glob("fig*.png"))
    claims = results / "claims.md"
    if not (figures and claims.exists()):
        sys.exit("results/ holds no finished figures and claims: run `make figures` first.")
    write_pages(results)
    for figure in figures:
        shutil.copy(figure, DOCS / "figures" / figure.name)
    shutil.copy(claims, DOCS / "claims.md")
    update_readme(results)


if __name__ == "__main__":
    main()
