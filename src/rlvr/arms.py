"""Arms: runs that differ in their seeds alone. Here are those that figures and claims name."""

from typing import NamedTuple

BASE = "base"
"""The recipe that changes nothing."""


class Arm(NamedTuple):
    """Runs that differ in their seeds alone."""

    recipe: str
    teacher: str
    beta: float

    def __str__(self) -> str:
        """The arm in words, for messages."""
        return f"recipe {self.recipe}, teacher {self.teacher}, beta {self.beta:g}"


WEAK = Arm(BASE, "weak", 0.0)
COLD = Arm("short", "cold", 0.0)

FIGURE_ARMS = {
    "fig1_rlvr_overturns": (WEAK,),
    "fig2_unhackable_reward": (WEAK,),
    "fig3_cold_start": (WEAK, COLD),
}
"""What each figure shows: a config whose studies lack it is refused before anything runs."""
