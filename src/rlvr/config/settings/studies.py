"""Settings of what reads runs: studies, figures and claims."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from rlvr.config.runs import Run, all_runs
from rlvr.config.settings.names import RecipeName, StudyName, TeacherName
from rlvr.config.values import Betas, Confidence, Count, Name, Seeds, Strict, unique

MOST_TABLES = 500  # whose paths stand in one command


class StudySettings(Strict):
    """A named set of GRPO runs: every combination of its recipes, teachers, betas and seeds."""

    recipes: Annotated[list[RecipeName], Field(min_length=1), AfterValidator(unique)]
    """Names under `recipes`."""
    teachers: Annotated[list[TeacherName], Field(min_length=1), AfterValidator(unique)]
    """Names under `teachers`."""
    betas: Betas
    """Strengths of the KL penalty to the SFT reference, per nat (0: none)."""
    seeds: Seeds | None = None
    """Run seeds, where they are to differ from the top-level `seeds`."""


class StudyJob(StudySettings):
    """All settings of the job that makes a study's table."""

    methods: list[Name]
    """The method of each recipe."""

    def runs(self) -> list[Run]:
        """Every combination of recipes, teachers, betas and seeds, as the table holds them."""
        return all_runs(self.methods, self.recipes, self.teachers, self.betas, self.seeds)


class FigureSettings(Strict):
    """What one figure shows."""

    studies: Annotated[
        list[StudyName], Field(min_length=1, max_length=MOST_TABLES), AfterValidator(unique)
    ]
    """The studies whose tables it reads."""
    iterations: Count
    """The last GRPO iteration that it shows."""


class ClaimsSettings(Strict):
    """The ledger of the documents' claims."""

    studies: Annotated[
        list[StudyName], Field(min_length=1, max_length=MOST_TABLES), AfterValidator(unique)
    ]
    """The studies whose tables it reads."""
    confidence: Confidence
    """Confidence of intervals over seeds and of binomial bounds."""
