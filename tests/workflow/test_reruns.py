"""A change runs again what it invalidates: exactly that, nothing less and nothing more."""

import pytest
from helpers import ROOT, forget_digests
from reruns import CHANGES, FIGURES, JOBS, MODULES, UNSEEN_CHANGES, Project, as_markdown

from rlvr.config.settings.names import FIGURES
from rlvr.jobs import digest as source_digest


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


CHAIN = ["sft", "grpo", "table"]  # each is followed by the next, the last by all others
LAST = ["claims", *(f"figures.{name}" for name in FIGURES)]


def digests() -> dict[str, str]:
    """Of each stage, as the jobs' params have it."""
    forget_digests()
    return {stage: source_digest.source_digest(f"rlvr.{stage}") for stage in (*CHAIN, *LAST)}


def stages_that_run(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Those whose digest has changed, and all that follow."""
    stages = list(before)
    changed = {stage for stage in stages if after[stage] != before[stage]}
    first = min((CHAIN.index(stage) for stage in changed.intersection(CHAIN)), default=len(stages))
    return {*changed, *stages[first:]}


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_modules_of_a_row_run_the_same_stages(package, row):
    """A digest that changes is what a dry run sees of a module."""
    before, reached = digests(), {}
    for name in row:
        path = package / f"{name}.py"
        text = path.read_text(encoding="utf-8")
        path.write_text(f"{text}\n_CHANGED = True\n", encoding="utf-8")
        reached[name] = stages_that_run(before, digests())
        path.write_text(text, encoding="utf-8")
    assert reached == dict.fromkeys(row, reached[row[0]])


def test_every_module_is_in_the_list():
    package = ROOT / "src" / "rlvr"
    modules = {str(p.relative_to(package).with_suffix("")) for p in package.rglob("*.py")}
    listed = [name for _, names, _ in MODULES for name in names.split()]
    assert sorted(listed) == sorted(modules)


def test_touching_once_lets_later_edits_be_noticed_where_results_were_copied(clone):
    """The README's advice for results without Snakemake's records."""
    UNSEEN_CHANGES[-1].make(Project(clone.folder))
    assert clone.would_run() == set()
    done = clone.snakemake("--touch", "--forceall")
    assert done.returncode == 0, done.stderr
    Project(clone.folder).append("src/rlvr/table.py", "\n_CHANGED = True\n")
    (table,) = [change for change in CHANGES if change.name == "code-table"]
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
