"""Settings of the policy, a decoder-only Transformer."""

from __future__ import annotations

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from rlvr.config.values import Count, Strict

MOST_WEIGHTS = 100_000_000  # what a job can hold in a few gigabytes
LANES = 8  # numbers that the compiled engine computes at a time


class PolicySettings(Strict):
    """The decoder-only Transformer."""

    width: Count
    """Width of the residual stream."""
    heads: Count
    """Attention heads; they divide the width."""
    feed_forward: Count
    """Width of the hidden layer of each feed-forward block."""
    layers: Count
    """Transformer layers."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> PolicySettings:
        if self.width % self.heads:
            raise PydanticCustomError(
                "heads",
                "heads ({heads}) must divide width ({width})",
                {"heads": self.heads, "width": self.width},
            )
        return self

    @model_validator(mode="after")
    def _fits_into_memory(self) -> PolicySettings:
        weights = self.layers * (4 * self.width**2 + 2 * self.width * self.feed_forward)
        if weights > MOST_WEIGHTS:
            raise PydanticCustomError(
                "memory",
                "its layers would have {weights} weights; allowed: {most}",
                {"weights": f"{weights:,}", "most": f"{MOST_WEIGHTS:,}"},
            )
        return self

    def whole_vectors(self) -> bool:
        """Whether the compiled engine can compute it: heads and hidden layers are whole vectors."""
        return not (self.width // self.heads % LANES or self.feed_forward % LANES)
