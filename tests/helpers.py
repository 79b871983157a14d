"""Where things are, and the settings that tests use."""

from pathlib import Path

from rlvr.config.settings.whole import GrpoSettings, PolicySettings
from rlvr.jobs import digest as source_digest

ROOT = Path(__file__).parent.parent
TINY = ROOT / "tests" / "tiny.yaml"
FULL_SIZE = PolicySettings(width=64, heads=4, feed_forward=128, layers=2)
SMALL = PolicySettings(width=8, heads=2, feed_forward=16, layers=2)


def grpo_settings(**changes) -> GrpoSettings:
    """Settings of a tiny GRPO run, some of them changed."""
    values = {
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
        "evaluate_every": 2,
    }
    return GrpoSettings(**values | changes)


def forget_digests() -> None:
    """Make the next digest of code read it afresh."""
    for cached in ("source_digest", "package_versions", "_reached", "_imports", "_tree"):
        getattr(source_digest, cached).cache_clear()
