"""Where things are, and the settings that tests use."""

from pathlib import Path

import numpy as np
import yaml

from rlvr.config.methods.dpo import DpoJob
from rlvr.config.methods.grpo import GrpoJob, GrpoSettings
from rlvr.config.methods.reward_model import RewardModelJob
from rlvr.config.methods.sft import SftSettings
from rlvr.config.settings.policy import PolicySettings
from rlvr.jobs import digest
from rlvr.methods.pairs import Pairs
from rlvr.policy.engines.compiled import CompiledPolicy
from rlvr.policy.parameters import initial_values, named
from rlvr.task.addition import Additions, draw_additions
from rlvr.task.rewards import rule
from rlvr.task.streams import stream

ROOT = Path(__file__).parent.parent
TINY = ROOT / "tests" / "tiny.yaml"
FULL_SIZE = PolicySettings(width=64, heads=4, feed_forward=128, layers=2)
SMALL = PolicySettings(width=16, heads=2, feed_forward=16, layers=2)


CPU = {"engine": "compiled", "device": "cpu"}
"""The settings of what computes, in a job."""


def config_yaml() -> dict:
    """config.yaml as YAML reads it."""
    return yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


def merge(config: dict, overlay: dict) -> dict:
    """A config with an overlay, merged as Snakemake does it."""
    merged = dict(config)
    for key, value in overlay.items():
        old = merged.get(key)
        merged[key] = (
            merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return merged


def tiny_yaml() -> dict:
    """A whole config of a graph that stays as it is, whatever config.yaml gets.

    Of config.yaml it has the settings, made tiny; teachers, rewards, recipes, studies, figures and
    claims are those of tests/tiny.yaml alone.
    """
    named = ("teachers", "rewards", "recipes", "studies", "figures", "claims")
    settings = {key: group for key, group in config_yaml().items() if key not in named}
    return merge(settings, yaml.safe_load(TINY.read_text(encoding="utf-8")))


def grpo_settings(**changes) -> GrpoSettings:
    """Settings of a tiny GRPO run, some of them changed; new ones are as in config.yaml."""
    tiny = {
        "iterations": 4,
        "prompts_per_iteration": 8,
        "group_size": 4,
        "epochs": 2,
        "minibatch_size": 16,
        "temperature": 1.0,
        "advantages": "group_std",
        "ratio": "sequence",
        "clip_epsilon_low": 0.2,
        "clip_epsilon_high": 0.2,
        "kl_placement": "advantage",
        "kl_estimator": "k3",
        "learning_rate": 1e-3,
        "max_gradient_norm": 1.0,
        "advantage_epsilon": 1e-4,
        "zero_signal_std": 1e-6,
        "evaluate_first": 0,
        "evaluate_every": 2,
    }
    return GrpoSettings(**config_yaml()["grpo"] | tiny | changes)


def grpo_job(**changes) -> GrpoJob:
    """A tiny GRPO job on the exact reward, some settings changed."""
    return GrpoJob(**CPU, grpo=grpo_settings(**changes), reward={"kind": "exact"})


EXACT = rule("exact")
"""The reward that cannot be hacked."""


LEARNED = {"kind": "learned", "labels": "truthful", "pairs": 64, "learning_rate": 1e-3, "steps": 12}
"""A learned reward, as an entry of the config has it."""


def reward_model_job(**changes) -> RewardModelJob:
    """A tiny job of a reward model; changes are those of its reward."""
    settings = {"batch_size": 16, "weight_decay": 0.01, "evaluate_every": 5}
    return RewardModelJob(**CPU, reward_model=settings, reward=LEARNED | changes)


def dpo_job(**changes) -> DpoJob:
    """A tiny DPO job, some settings changed; new ones are as in config.yaml."""
    tiny = {"iterations": 6, "pairs": 64, "batch_size": 16, "kl_completions": 64}
    schedule = {"evaluate_first": 0, "evaluate_every": 3}
    return DpoJob(**CPU, dpo=config_yaml()["dpo"] | tiny | schedule | changes)


def pairs_of(n: int, seed: int = 0) -> Pairs:
    """Right completions, chosen, and others."""
    asked = draw_additions(n, stream(seed, "test_pairs"))
    wrong = stream(seed, "test_wrong").integers(10, size=(n, 3))
    return Pairs(asked, asked.solutions(), wrong)


def pairs_in(rows: list[dict]) -> Pairs:
    """Those of the rows of a file."""
    asked = Additions(*(np.array([row[key] for row in rows]) for key in "ab"))
    first, second = (np.array([row[f"completion_{i}"] for row in rows]) for i in (1, 2))
    is_first = np.array([row["chosen"] for row in rows])[:, np.newaxis] == 1
    return Pairs(asked, np.where(is_first, first, second), np.where(is_first, second, first))


def sft_settings(**changes) -> SftSettings:
    """Settings of a small SFT run, some of them changed; new ones are as in config.yaml."""
    small = {"learning_rate": 3e-3, "steps": 50, "batch_size": 64}
    return SftSettings(**config_yaml()["sft"] | small | changes)


def small_policy(seed: int = 0, settings: PolicySettings = SMALL) -> CompiledPolicy:
    """A policy in float64, as initialised."""
    return CompiledPolicy(settings, initial_values(settings, seed).astype(np.float64))


def weights_of(policy: CompiledPolicy) -> dict[str, np.ndarray]:
    """Views of a policy's weights by name, to look at or to change."""
    return named(policy.values, policy.settings)


def forget_digests() -> None:
    """Make the next digest of code read it afresh."""
    for cached in ("source_digest", "package_versions", "_reached", "_source"):
        getattr(digest, cached).cache_clear()
