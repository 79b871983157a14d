"""Arms: runs that differ in their seeds alone. Here are those that figures and claims name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rlvr.errors import UserError

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

PARTIAL = Arm("document_b", "partial", 0.04)
PARTIAL_FREE = PARTIAL._replace(beta=0.0)
GROUPS_OF_16 = Arm("document_b_g16", "partial", 0.04)
GROUPS_OF_16_DOUBLE = Arm("document_b_g16_double", "partial", 0.04)

LEARNING_RATES = {"1e-4": "lr1", "3e-4": "lr3", "1e-3": "lr10"}
"""How recipes name the learning rates of the KL sweep."""
FREE = {rate: Arm(f"advantage_t07_{lr}", "partial", 0.0) for rate, lr in LEARNING_RATES.items()}
ANCHORED = {rate: Arm(f"loss_t07_{lr}", "partial", 0.04) for rate, lr in LEARNING_RATES.items()}

FIGURE_ARMS = {
    "fig1_rlvr_overturns": (WEAK,),
    "fig2_unhackable_reward": (WEAK,),
    "fig3_cold_start": (WEAK, COLD),
    "fig4_partial_sft": (PARTIAL, PARTIAL_FREE, GROUPS_OF_16, GROUPS_OF_16_DOUBLE),
}
"""What each figure shows: a config whose studies lack it is refused before anything runs."""

KL_SWEEP = "fig5_kl_anchor"
"""The figure that shows all arms of its studies at one iteration, as points of curves."""
MOST_RATES = 5  # learning rates that it has colours for


class Curve(NamedTuple):
    """Arms that differ in beta alone; one arm at beta 0 stands in both placements' curves."""

    teacher: str
    placement: str
    learning_rate: float


def kl_curves(grpo_settings: Mapping[Arm, Mapping[str, Any]]) -> dict[Curve, dict[float, Arm]]:
    """The arms of each curve of the KL sweep, by beta, given the GRPO settings of each.

    Raises a `UserError` where it could not tell them apart.
    """
    curves: dict[Curve, dict[float, Arm]] = {}
    for arm, grpo in sorted(grpo_settings.items()):
        both = ("advantage", "loss") if arm.beta == 0 else (grpo["kl_placement"],)
        for placement in both:
            curve = Curve(arm.teacher, placement, grpo["learning_rate"])
            other = curves.setdefault(curve, {}).setdefault(arm.beta, arm)
            if other != arm:
                raise UserError(
                    f"{KL_SWEEP} has one place for {arm} and {other}: it tells recipes apart by "
                    "kl_placement and learning_rate alone. Leave one of them out of its studies"
                )
    if len({curve.learning_rate for curve in curves}) > MOST_RATES:
        raise UserError(f"{KL_SWEEP} has colours for {MOST_RATES} learning rates, not for more")
    return {curve: dict(sorted(curves[curve].items())) for curve in sorted(curves)}
