"""A change runs again what it invalidates: exactly that, nothing less and nothing more."""

from pathlib import Path

import pytest
from helpers import ROOT, forget_digests
from reruns import CHANGES, FIGURES, JOBS, MODULES, UNSEEN_CHANGES, Project, as_markdown

from rlvr.jobs import digest


def test_the_jobs_that_the_list_speaks_of_are_those_of_the_tiny_config(finished):
    assert finished.would_run("--forceall") == set(JOBS)


# Of modules that the list has in one row, a dry run is asked about the first alone.
ROWS = [names.split() for _, names, _ in MODULES if " " in names]
ASKED = [
    change
    for change in (*CHANGES, *UNSEEN_CHANGES)
    if change.name not in {f"code-{other}" for _, *others in ROWS for other in others}
]


@pytest.mark.parametrize("change", ASKED, ids=lambda change: change.name)
def test_a_change_runs_what_it_invalidates_and_nothing_else(clone, change):
    change.make(Project(clone.folder))
    assert clone.would_run() == change.runs


ENGINE = "rlvr.policy.engines.compiled"
LAST = {"claims": ["rlvr.claims.ledger"]} | {name: [f"rlvr.figures.{name}"] for name in FIGURES}
STAGES = {
    "sft": ["rlvr.methods.sft", ENGINE],
    "preferences": ["rlvr.methods.preferences", ENGINE],
    "reward_model": ["rlvr.methods.reward_model", ENGINE],
    "grpo": ["rlvr.methods.grpo", ENGINE, "rlvr.task.rewards.exact"],
    "grpo, learned": ["rlvr.methods.grpo", ENGINE, "rlvr.methods.learned_reward"],
    "dpo": ["rlvr.methods.dpo", ENGINE],
    "table": ["rlvr.results.table"],
    **LAST,
}
FOLLOWED_BY = {
    "sft": ["preferences", "grpo"],
    "preferences": ["reward_model", "dpo"],
    "reward_model": ["grpo, learned"],
    "grpo": ["table"],
    "grpo, learned": ["table"],
    "dpo": ["table"],
    "table": [*LAST],
}


def digests() -> dict[str, str]:
    """Of each stage of the tiny config, as the jobs' params have it."""
    forget_digests()
    return {stage: digest.source_digest(*modules) for stage, modules in STAGES.items()}


def stages_that_run(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Those whose digest has changed, and all that follow."""
    run = {stage for stage in STAGES if after[stage] != before[stage]}
    for stage in STAGES:  # in the order in which they follow each other
        run |= set(FOLLOWED_BY.get(stage, [])) if stage in run else set()
    return run


def stages_that_a_change_runs(package: Path, name: str) -> set[str]:
    """The stages that run again when a module of the package changes."""
    before = digests()
    path = package / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text}\n_CHANGED = True\n", encoding="utf-8")
    after = digests()
    path.write_text(text, encoding="utf-8")
    return stages_that_run(before, after)


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_modules_of_a_row_run_the_same_stages(package, row):
    """A digest that changes is what a dry run sees of a module."""
    reached = {name: stages_that_a_change_runs(package, name) for name in row}
    assert reached == dict.fromkeys(row, reached[row[0]])


LISTED = {name for _, names, _ in MODULES for name in names.split()}


def test_the_list_names_no_module_that_is_not_there(package):
    modules = {str(path.relative_to(package).with_suffix("")) for path in package.rglob("*.py")}
    assert not LISTED - modules, "take them out of MODULES in tests/reruns.py"


def test_every_module_that_results_rest_on_is_in_the_list(package):
    """A new reward, method or figure that the tiny config does not know is none of them."""
    paths = (str(path.relative_to(package).with_suffix("")) for path in package.rglob("*.py"))
    for name in sorted(set(paths) - LISTED):
        runs = stages_that_a_change_runs(package, name)
        assert not runs, (
            f"a change of {name} runs {sorted(runs)} again: name it in the row of MODULES in "
            "tests/reruns.py that has what should run again"
        )


def test_touching_once_lets_later_edits_be_noticed_where_results_were_copied(clone):
    """The README's advice for results without Snakemake's records."""
    UNSEEN_CHANGES[-1].make(Project(clone.folder))
    assert clone.would_run() == set()
    done = clone.snakemake("--touch", "--forceall")
    assert done.returncode == 0, done.stderr
    Project(clone.folder).append("src/rlvr/results/table.py", "\n_CHANGED = True\n")
    (table,) = [change for change in CHANGES if change.name == "code-results/table"]
    assert clone.would_run() == table.runs


@pytest.mark.parametrize(
    "name", ["sft/teacher=weak/seed=1/policy.safetensors", "tables/weak_start.parquet"]
)
def test_a_large_file_touched_runs_nothing(clone, name):
    """Left alone, Snakemake compares checksums of files up to 1 MB, and times of larger ones."""
    file = clone.folder / "results" / name
    with file.open("ab") as stream:
        stream.write(bytes(3_000_000))  # nothing reads it here
    assert clone.snakemake("--touch", "--forceall").returncode == 0
    file.touch()
    assert clone.would_run() == set()
    with file.open("ab") as stream:
        stream.write(b"x")
    assert clone.would_run() != set()


def test_the_readme_shows_the_list():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"<!-- reruns: begin -->\n{as_markdown()}\n<!-- reruns: end -->" in readme
