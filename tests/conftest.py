import pytest
import torch
import yaml
from helpers import FULL_SIZE, ROOT, SMALL
from hypothesis import settings as hypothesis_settings

from rlvr.policy import Policy, initial_policy
from rlvr.settings import (
    Config,
    SftJob,
    SftSettings,
    TeacherSettings,
    load_config,
)
from rlvr.sft import train

torch.set_num_threads(1)
# Examples are derived from the test, so that a red run is red again; no deadline on busy machines.
hypothesis_settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis_settings.load_profile("repeatable")


@pytest.fixture
def raw_config() -> dict:
    """config.yaml as YAML reads it, fresh for each test to change."""
    return yaml.safe_load((ROOT / "config.yaml").read_text())


@pytest.fixture
def config(raw_config: dict) -> Config:
    return load_config(raw_config)


@pytest.fixture
def small_policy() -> Policy:
    """A small policy in float64, as initialised."""
    return initial_policy(SMALL, seed=0).double()


@pytest.fixture(scope="session")
def half_trained() -> Policy:
    """A full-size policy that is right on some prompts and wrong on others."""
    job = SftJob(
        device="cpu",
        policy=FULL_SIZE,
        teacher=TeacherSettings(truth_probability=0.5),
        sft=SftSettings(learning_rate=3e-3, steps=250, batch_size=128),
    )
    return train(job, seed=0)[0].requires_grad_(False)
