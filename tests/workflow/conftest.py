"""A finished run of the tiny workflow, and copies of it that tests may change."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from helpers import ROOT, TINY


class Workflow:
    """A folder in which Snakemake runs the tiny config."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def snakemake(
        self, *options: str, targets: Sequence[str] = (), overlay: dict | str | None = None
    ) -> subprocess.CompletedProcess:
        """Run it; `overlay` is one more config file, as data or as raw text."""
        configs = [TINY]
        if overlay is not None:
            text = overlay if isinstance(overlay, str) else yaml.safe_dump(overlay)
            configs.append(self.folder / "overlay.yaml")
            configs[-1].write_text(text)
        command = [
            *(sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile"),
            *("--directory", self.folder, "--cores", "2", "--configfile", *configs),
            *(*options, "--", *targets),
        ]
        return subprocess.run(command, capture_output=True, text=True)

    def would_run(self, overlay: dict | None = None) -> dict[str, int]:
        """How many jobs of each rule a dry run would start."""
        done = self.snakemake("--dry-run", "--quiet", "rules", overlay=overlay)
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.splitlines()]
        counts = {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}
        counts.pop("total", None)
        return counts

    def stage(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run a stage by hand."""
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def contents(self) -> dict[str, bytes]:
        """Every file below results, and its bytes."""
        files = (path for path in (self.folder / "results").rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in sorted(files)}


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Workflow:
    """A finished run. Not to be changed."""
    workflow = Workflow(tmp_path_factory.mktemp("finished"))
    done = workflow.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    return workflow


@pytest.fixture
def scratch(finished: Workflow, tmp_path: Path) -> Workflow:
    """A copy of the finished run, to change."""
    shutil.copytree(finished.folder, tmp_path / "scratch")
    return Workflow(tmp_path / "scratch")
