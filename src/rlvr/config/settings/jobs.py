"""What the settings of all methods have in common; a method's own are in `rlvr.config.methods`."""

from __future__ import annotations

from typing import ClassVar

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from rlvr.config.settings.policy import LANES, PolicySettings
from rlvr.config.values import Count, Device, Engine, Number, Strict


class Computing(Strict):
    """What computes, and where."""

    engine: Engine
    """What computes the policy: the compiled engine, or PyTorch, which a GPU needs."""
    device: Device
    """Where PyTorch does; `auto` is cuda where there is one, else cpu."""

    @model_validator(mode="after")
    def _the_compiled_engine_is_on_the_cpu(self) -> Computing:
        if self.engine == "compiled" and self.device != "cpu":
            raise PydanticCustomError(
                "engine",
                "device {device} needs engine torch: the compiled engine is on the CPU",
                {"device": self.device},
            )
        return self


class PolicyComputing(Computing):
    """The same of a policy whose shape is known."""

    policy: PolicySettings

    @model_validator(mode="after")
    def _the_compiled_engine_takes_whole_vectors(self) -> PolicyComputing:
        if self.engine == "compiled" and not self.policy.whole_vectors():
            raise PydanticCustomError(
                "engine",
                "with engine compiled, policy.width / policy.heads ({head}) and "
                "policy.feed_forward ({feed_forward}) must be multiples of {lanes}",
                {
                    "head": self.policy.width // self.policy.heads,
                    "feed_forward": self.policy.feed_forward,
                    "lanes": LANES,
                },
            )
        return self


class MethodJob(Computing):
    """All settings of one training job; the field named like the method is the config's group."""

    def modules(self) -> list[str]:
        """Modules of ours that these settings name, on which a job rests besides its stage."""
        return [f"rlvr.policy.engines.{self.engine}"]


class RunSettings(Strict):
    """Settings of a method that studies hold runs of, so that all of them can be read alike."""

    needs_beta: ClassVar[bool] = False
    """Whether a run at beta 0 means nothing."""

    iterations: Count
    """Iterations; what one is, is the method's: an optimiser step, or a rollout and its steps."""
    evaluate_first: Number
    """Each iteration up to this one is evaluated; see `rlvr.config.schedule`."""
    evaluate_every: Count
    """Iterations between two exact evaluations from then on; the last is always evaluated."""
