"""The curves of figure 5: which arms of its studies form which, found before they are trained."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rlvr.config.arms import Arm
from rlvr.config.methods.grpo import GrpoJob
from rlvr.config.schedule import is_evaluated
from rlvr.config.settings.whole import Config
from rlvr.errors import UserError

MOST_RATES = 5  # learning rates that there are colours for


class Curve(NamedTuple):
    """Arms that differ in beta alone; one arm at beta 0 stands in both placements' curves."""

    teacher: str
    placement: str
    learning_rate: float


def kl_curves(settings: Mapping[Arm, Mapping[str, Any]]) -> dict[Curve, dict[float, Arm]]:
    """The arms of each curve, by beta, given the GRPO settings of each.

    Raises a `UserError` where the figure could not tell them apart.
    """
    curves: dict[Curve, dict[float, Arm]] = {}
    for arm, grpo in sorted(settings.items()):
        both = ("advantage", "loss") if arm.beta == 0 else (grpo["kl_placement"],)
        for placement in both:
            curve = Curve(arm.teacher, placement, grpo["learning_rate"])
            other = curves.setdefault(curve, {}).setdefault(arm.beta, arm)
            if other != arm:
                raise UserError(
                    f"figure 5 has one place for {arm} and {other}: it tells recipes apart by "
                    "kl_placement and learning_rate alone. Leave one of them out of its studies"
                )
    if len({curve.learning_rate for curve in curves}) > MOST_RATES:
        raise UserError(f"figure 5 has colours for {MOST_RATES} learning rates, not for more")
    return {curve: dict(sorted(curves[curve].items())) for curve in sorted(curves)}


def check_kl_sweep(config: Config, figure: str) -> None:
    """Raise a `UserError` where a config's studies hold what the figure could not draw."""
    jobs = config.arms(figure)
    others = {arm.recipe: None for arm, job in jobs.items() if not isinstance(job, GrpoJob)}
    if others:
        raise UserError(f"it shows runs of grpo, not those of {', '.join(others)}")
    arms = {arm: job.grpo for arm, job in jobs.items()}
    at = config.figures[figure].iterations
    unseen = {
        arm.recipe: None
        for arm, grpo in arms.items()
        if at > grpo.iterations or not is_evaluated(at, grpo)
    }
    if unseen:
        raise UserError(
            f"iterations: found {at}, at which runs of {', '.join(unseen)} are not evaluated. "
            "Name an iteration at which all of its runs are"
        )
    kl_curves({arm: grpo.model_dump() for arm, grpo in arms.items()})
