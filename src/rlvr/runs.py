"""Runs: the keys that name one, and the Hive-style path that the keys stand in."""

import itertools
from collections.abc import Sequence
from decimal import Decimal

from rlvr.values import Beta, Name, Seed, Strict


def decimal(value: float) -> str:
    """The one way to write a number in a path: '0', '0.04', '0.00001'; no exponent, no '.0'."""
    return format(Decimal(repr(value or 0)).normalize(), "f")


class SftRun(Strict):
    """The keys of one SFT run."""

    teacher: Name
    seed: Seed

    @property
    def path(self) -> str:
        """The run's folder below results/sft, in Hive style."""
        return f"teacher={self.teacher}/seed={self.seed}"


class GrpoRun(Strict):
    """The keys of one GRPO run."""

    recipe: Name
    teacher: Name
    beta: Beta
    seed: Seed

    @property
    def path(self) -> str:
        """The run's folder below results/grpo, in Hive style."""
        beta = decimal(self.beta)
        return f"recipe={self.recipe}/teacher={self.teacher}/beta={beta}/seed={self.seed}"


def all_runs(
    recipes: Sequence[str], teachers: Sequence[str], betas: Sequence[float], seeds: Sequence[int]
) -> list[GrpoRun]:
    """Every combination of recipes, teachers, betas and seeds; seeds vary fastest."""
    return [
        GrpoRun(recipe=recipe, teacher=teacher, beta=beta, seed=seed)
        for recipe, teacher, beta, seed in itertools.product(recipes, teachers, betas, seeds)
    ]
