import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import half_trained as half_trained_policy
import helpers
import pytest
import torch
import yaml
from helpers import ROOT, forget_digests
from hypothesis import settings as hypothesis_settings
from xdist.scheduler import LoadScopeScheduling

from rlvr.config.settings.whole import Config, load_config
from rlvr.jobs import digest as source_digest
from rlvr.policy.checkpoints import read_checkpoint
from rlvr.policy.engines.compiled import CompiledPolicy

torch.set_num_threads(1)
# Examples are derived from the test, so that a red run is red again; no deadline on busy machines.
hypothesis_settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis_settings.load_profile("repeatable")


class ClusterTestsTogether(LoadScopeScheduling):
    """All cluster tests go to one test process, since they share one SLURM; others where they may.

    xdist's own way, --dist loadgroup, changes names in a manner that pytest 9 does not notice.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "cluster" if nodeid.startswith("tests/cluster/") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ClusterTestsTogether:
    return ClusterTestsTogether(config, log)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package, to edit, of which digests are made."""
    copy = tmp_path / "rlvr"
    shutil.copytree(ROOT / "src/rlvr", copy)
    with monkeypatch.context() as patched:
        patched.setattr(source_digest, "ROOT", copy)
        forget_digests()
        yield copy
    forget_digests()


@pytest.fixture(scope="session")
def update() -> ModuleType:
    """docs/update.py, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("docs_update", ROOT / "docs" / "update.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def raw_config() -> dict:
    """config.yaml as YAML reads it, fresh for each test to change."""
    return yaml.safe_load((ROOT / "config.yaml").read_text())


@pytest.fixture
def config(raw_config: dict) -> Config:
    return load_config(raw_config)


@pytest.fixture
def small_policy() -> CompiledPolicy:
    """A small policy in float64, as initialised."""
    return helpers.small_policy()


@pytest.fixture
def half_trained() -> CompiledPolicy:
    """A full-size policy that is right on some prompts and wrong on others, the same everywhere."""
    checkpoint = read_checkpoint(half_trained_policy.PATH)
    return CompiledPolicy(checkpoint.settings, checkpoint.values)
