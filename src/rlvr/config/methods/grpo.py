"""Settings of group-relative policy optimisation (GRPO), from an SFT policy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from rlvr.config.rewards import LEARNED, RewardFlag
from rlvr.config.settings.jobs import MethodJob, RunSettings
from rlvr.config.settings.names import RewardName
from rlvr.config.values import Count, Positive, Probability

MOST_COMPLETIONS = 1_000_000  # what a job can hold in a few gigabytes

AdvantageKind = Literal["group_std", "group_mean", "rloo", "batch"]
RatioKind = Literal["sequence", "token"]
KlPlacement = Literal["advantage", "loss"]
KlEstimator = Literal["k1", "k2", "k3"]


class GrpoSettings(RunSettings):
    """Group-relative policy optimisation (Shao et al. 2024, arXiv:2402.03300)."""

    prompts_per_iteration: Count
    """Prompts per iteration, drawn uniformly from those that are trained on."""
    group_size: Annotated[int, Field(ge=2)]
    """Completions per prompt, G."""
    reward: RewardName
    """What a completion earns: a name under `rewards`."""
    temperature: Annotated[float, Field(ge=0.01, le=100)]
    """Of sampling, and of every probability that is computed from then on."""
    advantages: AdvantageKind
    """How rewards become advantages; see `rlvr.methods.grpo.reward_advantages`."""
    epochs: Count
    """Passes over the completions of an iteration."""
    minibatch_size: Count
    """Most completions per optimiser step; an epoch has as few steps as that takes, all alike."""
    ratio: RatioKind
    """One ratio per completion (`sequence`) or one per token."""
    clip_epsilon_low: Probability
    """The ratio is clipped to at least 1 - clip_epsilon_low."""
    clip_epsilon_high: Positive
    """The ratio is clipped to at most 1 + clip_epsilon_high."""
    kl_placement: KlPlacement
    """Where beta times the KL goes: off the `advantage` (document A) or into the `loss` (B)."""
    kl_estimator: KlEstimator
    """Of the KL in the loss; off the advantage goes the log-ratio itself (k1)."""
    learning_rate: Positive
    """Adam's learning rate."""
    max_gradient_norm: Positive
    """Gradients are scaled down to this norm."""
    advantage_epsilon: Positive
    """Added to the standard deviation where rewards are standardised."""
    zero_signal_std: Positive
    """A group whose rewards have a smaller standard deviation than this is a zero-signal group."""

    @model_validator(mode="after")
    def _completions_fit_into_memory(self) -> GrpoSettings:
        if self.prompts_per_iteration * self.group_size > MOST_COMPLETIONS:
            raise PydanticCustomError(
                "completions",
                "prompts_per_iteration ({prompts}) x group_size ({size}) is more completions than "
                "{most}, the most allowed",
                {
                    "prompts": self.prompts_per_iteration,
                    "size": self.group_size,
                    "most": f"{MOST_COMPLETIONS:,}",
                },
            )
        return self


class GrpoJob(MethodJob):
    """All settings of one GRPO job."""

    grpo: GrpoSettings
    reward: RewardFlag
    """What that name stands for: its entry of `rewards`, as JSON."""

    @property
    def is_learned(self) -> bool:
        """Whether the reward is the score of a reward model."""
        return self.reward["kind"] == LEARNED

    def modules(self) -> list[str]:
        """Those of the engine and of the reward."""
        learned, rule = "rlvr.methods.learned_reward", f"rlvr.task.rewards.{self.reward['kind']}"
        return [*super().modules(), learned if self.is_learned else rule]
