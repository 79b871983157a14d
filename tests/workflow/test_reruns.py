"""A change runs again what it invalidates: exactly that, nothing less and nothing more."""

import pytest
from helpers import ROOT
from reruns import CHANGES, JOBS, MODULES, UNSEEN_CHANGES, Project, as_markdown


def test_the_jobs_that_the_list_speaks_of_are_those_of_the_tiny_config(finished):
    assert finished.would_run("--forceall") == set(JOBS)


@pytest.mark.parametrize("change", [*CHANGES, *UNSEEN_CHANGES], ids=lambda change: change.name)
def test_a_change_runs_what_it_invalidates_and_nothing_else(clone, change):
    change.make(Project(clone.folder))
    assert clone.would_run() == change.runs


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


def test_the_readme_shows_the_list():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"<!-- reruns: begin -->\n{as_markdown()}\n<!-- reruns: end -->" in readme
