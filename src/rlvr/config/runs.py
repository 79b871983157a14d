"""Runs: the keys that name one, and the Hive-style path that the keys stand in."""

import itertools
from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar

from rlvr.config.values import Beta, Count, Labels, Name, Seed, Strict


def decimal(value: float) -> str:
    """The one way to write a number in a path: '0', '0.04', '0.00001'; no exponent, no '.0'."""
    return format(Decimal(repr(value or 0)).normalize(), "f")


class SftRun(Strict):
    """The keys of one SFT run."""

    files: ClassVar = ("policy.safetensors", "metrics.parquet")
    """What it leaves in its folder; of all runs."""

    teacher: Name
    seed: Seed

    @property
    def path(self) -> str:
        """The run's folder below results, in Hive style."""
        return f"sft/teacher={self.teacher}/seed={self.seed}"

    @property
    def start(self) -> "SftRun":
        """The SFT run, of one that starts from it."""
        return SftRun(teacher=self.teacher, seed=self.seed)


class PreferencesRun(SftRun):
    """The keys of one set of labelled pairs, whose completions an SFT policy says."""

    files: ClassVar = ("pairs.parquet", "fresh.parquet")

    labels: Labels
    pairs: Count

    @property
    def path(self) -> str:
        """The run's folder below results, in Hive style."""
        keys = f"teacher={self.teacher}/labels={self.labels}/pairs={self.pairs}"
        return f"preferences/{keys}/seed={self.seed}"


class RewardModelRun(SftRun):
    """The keys of one reward model, which starts from an SFT policy."""

    files: ClassVar = ("model.safetensors", "metrics.parquet")

    reward: Name

    @property
    def path(self) -> str:
        """The run's folder below results, in Hive style."""
        return f"reward_model/reward={self.reward}/teacher={self.teacher}/seed={self.seed}"


class Run(Strict):
    """The keys of one run that starts from an SFT policy, by whatever method."""

    files: ClassVar = SftRun.files

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
