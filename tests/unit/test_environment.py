"""pyproject.toml, requirements.lock and environment.yml describe one environment."""

import importlib.metadata
import subprocess
import sys
import tomllib

import pytest
import yaml
from helpers import ROOT
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = {
    canonicalize_name(requirement.name): requirement.specifier
    for line in (ROOT / "requirements.lock").read_text().splitlines()
    if line.strip() and not line.strip().startswith("#")
    for requirement in [Requirement(line)]
}
DEPENDENCIES = [
    Requirement(text)
    for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for text in group
]


@pytest.mark.parametrize("dependency", DEPENDENCIES, ids=str)
def test_lock_pins_each_dependency_within_its_range(dependency):
    (pin,) = LOCK[canonicalize_name(dependency.name)]
    assert pin.operator == "=="
    assert dependency.specifier.contains(pin.version)


def test_lock_pins_exact_releases_only():
    for name, specifiers in LOCK.items():
        assert [s.operator for s in specifiers] == ["=="], name
        assert "+" not in str(specifiers), f"{name}: a build that other machines cannot get"


def test_conda_takes_its_pins_from_the_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *conda, pip = environment["dependencies"]
    assert pip == {"pip": ["--requirement requirements.lock", "--editable ."]}
    assert conda[1] == "pip"
    name, version = conda[0].split("=")
    assert name == "python"
    assert SpecifierSet(PROJECT["requires-python"]).contains(version)


def test_this_environment_is_the_locked_one():
    for name, specifiers in LOCK.items():
        assert specifiers.contains(importlib.metadata.version(name)), name


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        # What the Snakefile imports, at each start and in each remote job.
        (
            "rlvr.config.settings.whole, rlvr.jobs.command_line, rlvr.jobs.digest",
            "torch pandas matplotlib pyarrow",
        ),
        ("rlvr.results.table", "torch pandas matplotlib mpmath"),
        ("rlvr.claims.ledger", "torch scipy matplotlib"),
        ("rlvr.figures.fig1_rlvr_overturns", "torch scipy"),
        (
            "rlvr.methods.sft, rlvr.methods.grpo, rlvr.policy.engines.compiled",
            "torch pandas matplotlib mpmath scipy",
        ),
    ],
)
def test_stages_import_nothing_heavy_that_they_do_not_need(modules, heavy):
    code = f"import sys, {modules}; print(*sorted(set({heavy.split()}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_training_job_writes_its_metrics_without_pandas(tmp_path):
    """pyarrow imports it where it finds it, unless it is kept from looking."""
    code = f"""
import sys
from pathlib import Path
from rlvr.jobs.records import write_parquet
from rlvr.methods.columns import METRICS
rows = [{{"iteration": 0, "accuracy": 0.5}}, {{"iteration": 1, "reward_counts": [1, 2]}}]
write_parquet(Path({str(tmp_path / "m.parquet")!r}), rows, METRICS, {{}})
print("pandas" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
