"""config.yaml as a whole: every group of it, checked, and the jobs and runs that it means.

What a setting means is said once, in the module of its group; here is what holds between groups.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError, create_model, model_validator
from pydantic_core import PydanticCustomError

from rlvr.config.arms import BASE, Arm
from rlvr.config.methods import JOBS, SETTINGS
from rlvr.config.methods.dpo import DpoJob
from rlvr.config.methods.grpo import GrpoJob
from rlvr.config.methods.preferences import PreferencesJob
from rlvr.config.methods.reward_model import RewardModelJob
from rlvr.config.methods.sft import SftJob
from rlvr.config.rewards import LEARNED, Reward
from rlvr.config.rewards.learned import LearnedReward
from rlvr.config.runs import PreferencesRun, RewardModelRun, Run, SftRun
from rlvr.config.settings.jobs import Computing, MethodJob, PolicyComputing
from rlvr.config.settings.mistakes import explain
from rlvr.config.settings.names import FIGURES, FigureName
from rlvr.config.settings.recipes import Recipe
from rlvr.config.settings.studies import ClaimsSettings, FigureSettings, StudyJob, StudySettings
from rlvr.config.settings.teachers import TeacherSettings
from rlvr.config.values import Name, Seeds
from rlvr.errors import UserError


class _Common(PolicyComputing):
    """What all jobs have in common."""

    seeds: Seeds
    """Run seeds of every study that names none of its own."""
    teachers: Annotated[dict[Name, TeacherSettings], Field(min_length=1)]
    rewards: Annotated[dict[Name, Reward], Field(min_length=1)]
    """What a completion may earn; `grpo` and its recipes name one."""


# A group for each method, of the method's name.
_Methods = create_model(
    "_Methods", __base__=_Common, **{method: (model, ...) for method, model in SETTINGS.items()}
)


class Config(_Methods):
    """config.yaml as a whole."""

    recipes: Annotated[dict[Name, Recipe], Field(min_length=1)]
    """Named changes to the settings of a method; `base` changes nothing."""
    studies: Annotated[dict[Name, StudySettings], Field(min_length=1)]
    figures: Annotated[dict[FigureName, FigureSettings], Field(min_length=1)]
    claims: ClaimsSettings

    @model_validator(mode="after")
    def _base_changes_nothing(self) -> Config:
        if BASE not in self.recipes or self.recipes[BASE].model_fields_set:
            raise PydanticCustomError(
                "base",
                "recipes.{base} must be there and empty: it stands for `grpo` itself",
                {"base": BASE},
            )
        return self

    @model_validator(mode="after")
    def _recipes_make_settings_that_are_allowed(self) -> Config:
        for recipe in self.recipes:
            try:
                self._job(recipe)
            except ValidationError as error:
                raise PydanticCustomError(
                    "recipe",
                    "{method}, with recipes.{recipe}: {mistake}",
                    {
                        "method": self.method(recipe),
                        "recipe": recipe,
                        "mistake": error.errors()[0]["msg"],
                    },
                ) from None
        return self

    @model_validator(mode="after")
    def _studies_have_betas_that_their_methods_can_take(self) -> Config:
        for name, study in self.studies.items():
            for recipe in study.recipes:
                method = self.method(recipe)
                if 0 in study.betas and SETTINGS[method].needs_beta:
                    raise PydanticCustomError(
                        "beta",
                        "studies.{study}.betas: found 0, at which {method} (recipe {recipe}) has "
                        "nothing to learn. Give it betas above 0",
                        {"study": name, "method": method, "recipe": recipe},
                    )
        return self

    def sft_job(self, teacher: str) -> SftJob:
        """Settings of the SFT jobs of `teacher`."""
        return SftJob(
            policy=self.policy, teacher=self.teachers[teacher], sft=self.sft, **self._computing()
        )

    def method(self, recipe: str) -> str:
        """The method whose settings `recipe` changes."""
        return self.recipes[recipe].method

    def job(self, recipe: str) -> MethodJob:
        """Settings of the training jobs of `recipe`."""
        return self._jobs[recipe]

    @functools.cached_property
    def _jobs(self) -> dict[str, MethodJob]:
        return {recipe: self._job(recipe) for recipe in self.recipes}

    def _job(self, recipe: str) -> MethodJob:
        method = self.method(recipe)
        changes = self.recipes[recipe].model_dump(exclude_unset=True, exclude={"method"})
        settings = getattr(self, method).model_dump() | changes
        job = {method: settings, **self._computing()}
        if "reward" in settings:
            job["reward"] = self.rewards[settings["reward"]].model_dump()
        return JOBS[method].model_validate(job)

    def preferences_job(self) -> PreferencesJob:
        """Settings of the jobs that make pairs."""
        return PreferencesJob(preferences=self.preferences, **self._computing())

    def reward_model_jobs(self) -> dict[str, RewardModelJob]:
        """Settings of the jobs that train the models of learned rewards, by the reward's name."""
        common = {"reward_model": self.reward_model, **self._computing()}
        return {
            name: RewardModelJob(reward=reward.model_dump(), **common)
            for name, reward in self.rewards.items()
            if reward.kind == LEARNED
        }

    def reward_model_of(self, run: Run) -> RewardModelRun | None:
        """The reward model that a run learns from; None where it learns from none."""
        job = self.job(run.recipe)
        if not (isinstance(job, GrpoJob) and job.is_learned):
            return None
        return RewardModelRun(reward=job.grpo.reward, teacher=run.teacher, seed=run.seed)

    def preferences_of(self, run: Run | RewardModelRun) -> PreferencesRun | None:
        """The pairs that a run or a reward model learns from; None where it learns from none."""
        if isinstance(run, RewardModelRun):
            source: LearnedReward = self.rewards[run.reward]
        elif isinstance(job := self.job(run.recipe), DpoJob):
            source = job.dpo
        else:
            return None
        return PreferencesRun(
            teacher=run.teacher, labels=source.labels, pairs=source.pairs, seed=run.seed
        )

    def behind(self, runs: Iterable[Run]) -> list[SftRun]:
        """The runs that those rest on, each once: of SFT, of pairs, of reward models."""
        found: dict[SftRun, None] = {}
        for run in runs:
            model = self.reward_model_of(run)
            pairs = self.preferences_of(model or run)
            found |= dict.fromkeys(one for one in (run.start, pairs, model) if one)
        return list(found)

    def _computing(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in Computing.model_fields}

    def modules(self, recipe: str) -> list[str]:
        """The modules that runs of `recipe` rest on: the method's, and those that settings name."""
        return [f"rlvr.methods.{self.method(recipe)}", *self.job(recipe).modules()]

    def sft_modules(self, teacher: str) -> list[str]:
        """The same of the SFT runs of `teacher`."""
        return ["rlvr.methods.sft", *self.sft_job(teacher).modules()]

    def figure(self, name: str) -> FigureSettings:
        """Settings of the figure `name`. Raises a `UserError` if the config has none such."""
        if name not in self.figures:
            raise UserError(
                f"no figure is named {name}. Figures: {', '.join(self.figures)}. "
                "Another is a module in src/rlvr/figures/ and an entry under `figures`."
            )
        return self.figures[name]

    def study(self, name: str) -> StudySettings:
        """The study `name`, its seeds filled in. Raises a `UserError` if there is none such."""
        if name not in self.studies:
            raise UserError(f"no study is named {name}. Studies: {', '.join(self.studies)}.")
        study = self.studies[name]
        return study.model_copy(update={"seeds": study.seeds or self.seeds})

    def study_job(self, name: str) -> StudyJob:
        """Settings of the job that makes the table of the study `name`."""
        study = self.study(name)
        methods = [self.method(recipe) for recipe in study.recipes]
        return StudyJob(methods=methods, **study.model_dump())

    def arms(self, figure: str) -> dict[Arm, MethodJob]:
        """The arms that a figure's studies hold, each with the settings of its jobs."""
        runs = [run for study in self.figures[figure].studies for run in self.runs(study)]
        return {Arm(run.recipe, run.teacher, run.beta): self.job(run.recipe) for run in runs}

    def runs(self, study: str) -> list[Run]:
        """The runs of a study, in the order in which its table holds them."""
        return self.study_job(study).runs()

    def used_studies(self) -> list[str]:
        """The studies that a figure or the claims read."""
        readers = [*self.figures.values(), self.claims]
        return list(dict.fromkeys(study for reader in readers for study in reader.studies))

    @functools.cached_property
    def _by_path(self) -> dict[str, Run | SftRun]:
        runs = [run for study in self.studies for run in self.runs(study)]
        return {run.path: run for run in [*runs, *self.behind(runs)]}

    def run_at(self, path: str) -> Run | SftRun:
        """The run of this path, which a study names, or one that such a run rests on.

        Raises a `UserError` if there is none.
        """
        if path not in self._by_path:
            named = ", ".join(self.studies)
            raise UserError(
                f"no study names the run {path}, or one that needs it. Add its recipe, teacher, "
                f"beta or seed to one of the config's studies ({named}), and write beta as there: "
                "0.04, not 4e-2."
            )
        return self._by_path[path]

    def used_runs(self) -> list[Run]:
        """The runs of those studies, each once."""
        return list(dict.fromkeys(run for study in self.used_studies() for run in self.runs(study)))

    def all_used(self) -> list[Run | SftRun]:
        """The same with all that they rest on."""
        runs = self.used_runs()
        return [*runs, *self.behind(runs)]


NAMED = ("teachers", "rewards", "recipes", "studies", "figures")
"""Groups whose entries have names, which an overlay can take out: `figures: {NAME: null}`."""


def load_config(raw: Mapping[str, Any]) -> Config:
    """The checked config. Raises one `UserError` that lists every mistake."""
    there = {
        kind: {
            name: entry
            for name, entry in raw[kind].items()
            # No entry of that name to take out: a slip of the pen, which is reported below.
            if entry is not None or (kind == "figures" and name not in FIGURES)
        }
        for kind in NAMED
        if isinstance(raw.get(kind), Mapping)
    }
    context = {kind: list(entries) for kind, entries in there.items()} | {"figures": FIGURES}
    try:
        return Config.model_validate({**raw, **there}, strict=True, context=context)
    except ValidationError as error:
        raise UserError(explain(error, Config, "the config")) from None
