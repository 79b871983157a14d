"""The same lock file on the same machine gives the same bytes, however the work is done."""

import random

import pytest
from interruptions import (
    INTERRUPTIONS,
    complete_run,
    differences,
    interrupted_run,
    small_project,
)
from tiny_workflow import Workflow

FIGURE = "rlvr.figures.fig1_rlvr_overturns"


def test_a_stage_run_by_hand_from_the_printed_command(scratch):
    before = scratch.contents()
    stages = [
        command
        for command in scratch.printed_commands()
        if "--run.seed" not in command or {"weak", "1"} <= set(command)
    ]
    assert {stage[0] for stage in stages} >= {
        *(
            "rlvr.methods.sft",
            "rlvr.methods.grpo",
            "rlvr.results.table",
            "rlvr.claims.ledger",
            FIGURE,
        )
    }
    for stage in stages:
        made = scratch.stage(*stage)
        assert made.returncode == 0, made.stderr
    assert scratch.contents() == before


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return small_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def undisturbed(project, tmp_path_factory):
    return complete_run(project, tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize("cores", ["1", "4"])
def test_on_any_number_of_cores(project, undisturbed, tmp_path, cores):
    """Elsewhere they have two."""
    workflow = Workflow(tmp_path, project, configs=[])
    done = workflow.snakemake("--cores", cores)
    assert done.returncode == 0, done.stdout + done.stderr
    assert differences(workflow, undisturbed[0]) == []


@pytest.mark.parametrize("kind", INTERRUPTIONS)
def test_after_an_interruption(project, undisturbed, tmp_path, kind):
    """One random moment of each kind; `python tests/interruptions.py 50` tries more."""
    expected, duration = undisturbed
    seconds = random.uniform(0.1, 0.4) * duration  # unfinished then, even if others are done now
    workflow, interrupted = interrupted_run(project, tmp_path, kind, seconds)
    assert interrupted, f"{kind} after {seconds:.2f} of {duration:.2f} s did nothing"
    assert differences(workflow, expected) == [], f"after {seconds:.2f} s"
