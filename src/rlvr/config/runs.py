"""Runs: the keys that name one, and the Hive-style path that the keys stand in."""

import itertools
from collections.abc import Sequence
from decimal import Decimal

from rlvr.config.values import Beta, Name, Seed, Strict


def decimal(value: float) -> str:
    """The one way to write a number in a path: '0', '0.04', '0.00001'; no exponent, no '.0'."""
    return format(Decimal(repr(value or 0)).normalize(), "f")


class SftRun(Strict):
    """The keys of one SFT run."""

    teacher: Name
    seed: Seed

    @property
    def path(self) -> str:
        """The run's folder below results, in Hive style."""
        return f"sft/teacher={self.teacher}/seed={self.seed}"


class Run(Strict):
    """The keys of one run that starts from an SFT policy, by whatever method."""

    method: Name
    recipe: Name
    teacher: Name
    beta: Beta
    seed: Seed

    @property
    def path(self) -> str:
        """The run's folder below results, in Hive style."""
        keys = f"recipe={self.recipe}/teacher={self.teacher}/beta={decimal(self.beta)}"
        return f"{self.method}/{keys}/seed={self.seed}"

    @property
    def start(self) -> SftRun:
        """The run that it starts from."""
        return SftRun(teacher=self.teacher, seed=self.seed)


def all_runs(
    methods: Sequence[str],
    recipes: Sequence[str],
    teachers: Sequence[str],
    betas: Sequence[float],
    seeds: Sequence[int],
) -> list[Run]:
    """Every combination of recipes, teachers, betas and seeds; seeds vary fastest.

    `methods` has the method of each recipe.
    """
    named = zip(methods, recipes, strict=True)
    return [
        Run(method=method, recipe=recipe, teacher=teacher, beta=beta, seed=seed)
        for (method, recipe), teacher, beta, seed in itertools.product(
            named, teachers, betas, seeds
        )
    ]
