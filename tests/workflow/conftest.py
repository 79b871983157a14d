"""A finished run of the tiny workflow, and copies of it that tests may change."""

import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from tiny_workflow import Workflow, copy_of_project


@pytest.fixture(scope="session")
def finished(tmp_path_factory, worker_id) -> Workflow:
    """A finished run. Not to be changed. Test processes that run side by side share it."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    workflow = Workflow(shared / "finished")
    with FileLock(shared / "finished.lock"):
        if not (workflow.folder / "done").exists():
            done = workflow.snakemake()
            assert done.returncode == 0, done.stdout + done.stderr
            (workflow.folder / "done").touch()
    return workflow


@pytest.fixture
def scratch(finished: Workflow, tmp_path: Path) -> Workflow:
    """A copy of the finished run, to change."""
    shutil.copytree(finished.folder, tmp_path / "scratch")
    return Workflow(tmp_path / "scratch")


@pytest.fixture
def clone(finished: Workflow, tmp_path: Path) -> Workflow:
    """A clone of the project in which the tiny workflow is finished; all of it may be changed."""
    folder = copy_of_project(tmp_path / "clone")
    for name in ("results", ".snakemake"):
        shutil.copytree(finished.folder / name, folder / name)
    return Workflow(folder, project=folder, configs=[])
