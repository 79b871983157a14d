"""Settings of a teacher: who writes the answers that SFT imitates, and for which prompts."""

from __future__ import annotations

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from rlvr.config.values import PROMPTS, Count, EvenCount, Probability, Strict


class SplitSettings(Strict):
    """A fixed random split of all 10,000 prompts, the same for every seed; the rest is trained on.

    GRPO then draws its prompts from the training part as well, and evaluates on the held-out one.
    A sum and its mirror, a + b and b + a, are in the same part: so parts are even.
    """

    validation: EvenCount
    """Prompts that the stopping rule looks at."""
    held_out: EvenCount
    """Prompts that no stage trains on, in either order, and that accuracy is reported on."""

    @model_validator(mode="after")
    def _leaves_prompts_to_train_on(self) -> SplitSettings:
        if self.validation + self.held_out >= PROMPTS:
            raise PydanticCustomError(
                "split",
                "validation ({validation}) and held_out ({held_out}) must leave some of the "
                "{prompts} prompts to train on",
                {
                    "validation": self.validation,
                    "held_out": self.held_out,
                    "prompts": f"{PROMPTS:,}",
                },
            )
        return self


class StoppingSettings(Strict):
    """When SFT stops early."""

    validation_accuracy: Probability
    """SFT stops at the first check that finds this greedy accuracy on the validation prompts."""
    every: Count
    """Steps between two checks."""


class TeacherSettings(Strict):
    """Who writes the answers that SFT imitates, for which prompts, and for how long."""

    truth_probability: Probability
    """Probability q that an example shows the true sum; otherwise it shows the no-carry answer."""
    split: SplitSettings | None = None
    """The split of the prompts; without one, all are trained on and reported on."""
    stopping: StoppingSettings | None = None
    """The stopping rule; without one, SFT takes all its steps."""

    @model_validator(mode="after")
    def _stopping_needs_validation_prompts(self) -> TeacherSettings:
        if self.stopping and not self.split:
            raise PydanticCustomError("stopping", "stopping needs a split, for validation prompts")
        return self
