"""The same lock file gives the same bytes, however the work is done, and on other processors."""

import os
import platform
import random
import subprocess
import sys

import numpy as np
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
            "rlvr.methods.preferences",
            "rlvr.methods.reward_model",
            "rlvr.methods.grpo",
            "rlvr.methods.dpo",
            "rlvr.results.table",
            "rlvr.claims.ledger",
            FIGURE,
        )
    }
    for stage in stages:
        made = scratch.stage(*stage)
        assert made.returncode == 0, made.stderr
    assert scratch.contents() == before


PROCESSORS = {
    "all for an old one": {
        "NPY_DISABLE_CPU_FEATURES": " ".join(np._core._multiarray_umath.__cpu_dispatch__),
        "OPENBLAS_CORETYPE": "Prescott",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
    },
    "OpenBLAS for AVX-512": {"OPENBLAS_CORETYPE": "SkylakeX"},
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="of x86-64 processors")
@pytest.mark.parametrize("processor", PROCESSORS)
def test_libraries_that_choose_their_code_by_the_processor(scratch, processor):
    """Told to take another's, they must not change a byte. Of the engine, see test_engine.py.

    A stage clears such variables when it is started by -m; here it is not.
    """
    before = scratch.products()
    stages = [
        command
        for command in scratch.printed_commands()
        if "--run.seed" not in command or {"weak", "1"} <= set(command)
    ]
    assert len(stages) > 8
    for stage, *arguments in stages:
        program = f"import runpy; runpy.run_module('{stage}', run_name='__main__', alter_sys=True)"
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=scratch.folder,
            env=os.environ | PROCESSORS[processor],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert scratch.products() == before


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
