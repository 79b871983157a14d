"""Every setting of the workflow: what it means, its unit and what is allowed, written once.

The models check config.yaml before any job starts and define the stages' command lines. They only
group values: whatever a stage gets from here stands in its rule's params as well, which is why
`rlvr.source_digest` leaves this module out.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rlvr.arms import BASE, FIGURE_ARMS, KL_SWEEP, Arm, kl_curves
from rlvr.errors import UserError
from rlvr.runs import GrpoRun, SftRun, all_runs
from rlvr.values import (
    LONGEST_NAME,
    PROMPTS,
    AdvantageKind,
    Betas,
    Confidence,
    Count,
    Device,
    EvenCount,
    KlEstimator,
    KlPlacement,
    Name,
    Positive,
    Probability,
    RatioKind,
    Seeds,
    Strict,
    unique,
)

FIGURES = sorted(path.stem for path in (Path(__file__).parent / "figures").glob("fig*.py"))
"""Names of the figures that the package can draw: one module each."""

# What a job can hold in a few gigabytes.
MOST_WEIGHTS = 100_000_000
MOST_COMPLETIONS = 1_000_000
MOST_TABLES = 500  # whose paths stand in one command


# --- Names that the config itself defines ---------------------------------------------------------


def _one_of(kind: str) -> Callable[[str, ValidationInfo], str]:
    """A check that a name is one of the config's `kind`, which the validation context lists."""

    def check(name: str, info: ValidationInfo) -> str:
        names = (info.context or {}).get(kind)
        if names is not None and name not in names:
            raise PydanticCustomError(
                "unknown_name",
                "not among the {kind}; allowed: {names}",
                {"kind": kind, "names": ", ".join(map(str, names)) or "(none is defined)"},
            )
        return name

    return check


TeacherName = Annotated[str, AfterValidator(_one_of("teachers"))]
RecipeName = Annotated[str, AfterValidator(_one_of("recipes"))]
StudyName = Annotated[str, AfterValidator(_one_of("studies"))]
FigureName = Annotated[Name, AfterValidator(_one_of("figures"))]


# --- Settings, group by group -------------------------------------------------------------------


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


class SftSettings(Strict):
    """Supervised fine-tuning."""

    learning_rate: Positive
    """Adam's learning rate."""
    steps: Count
    """Optimiser steps; the most of them, where the teacher has a stopping rule."""
    batch_size: Count
    """Fresh prompts per step, drawn uniformly from those that are trained on."""


class GrpoSettings(Strict):
    """Group-relative policy optimisation (Shao et al. 2024, arXiv:2402.03300)."""

    iterations: Count
    """Iterations, each of one rollout and `epochs` passes over it."""
    prompts_per_iteration: Count
    """Prompts per iteration, drawn uniformly from those that are trained on."""
    group_size: Annotated[int, Field(ge=2)]
    """Completions per prompt, G."""
    temperature: Annotated[float, Field(ge=0.01, le=100)]
    """Of sampling, and of every probability that is computed from then on."""
    advantages: AdvantageKind
    """How rewards become advantages; see `rlvr.grpo.reward_advantages`."""
    epochs: Count
    """Passes over the completions of an iteration."""
    minibatch_size: Count
    """Most completions per optimiser step; an epoch has as few steps as that takes, all alike."""
    ratio: RatioKind
    """One ratio per completion (`sequence`) or one per token."""
    clip_epsilon_low: Probability
    """The ratio is clipped to at least 1 - clip_epsilon_low."""
    clip_epsilon_high: Positive
    """The ratio is clipped to at most 1 + clip_epsilon_high."""
    kl_placement: KlPlacement
    """Where beta times the KL goes: off the `advantage` (document A) or into the `loss` (B)."""
    kl_estimator: KlEstimator
    """Of the KL in the loss; off the advantage goes the log-ratio itself (k1)."""
    learning_rate: Positive
    """Adam's learning rate."""
    max_gradient_norm: Positive
    """Gradients are scaled down to this norm."""
    advantage_epsilon: Positive
    """Added to the standard deviation where rewards are standardised."""
    zero_signal_std: Positive
    """A group whose rewards have a smaller standard deviation than this is a zero-signal group."""
    evaluate_every: Count
    """Iterations between two exact evaluations; the first (0) and the last are always evaluated."""


def _all_optional(model: type[Strict], name: str) -> type[Strict]:
    """A model like `model` in which every key may be left out; a key that is given is checked."""
    fields: dict[str, Any] = {}
    for key, field in model.model_fields.items():
        optional = copy(field)
        optional.default = None
        fields[key] = (field.annotation, optional)
    return create_model(name, __base__=Strict, __doc__=f"Changes to {model.__name__}.", **fields)


Recipe = _all_optional(GrpoSettings, "Recipe")


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


# --- Jobs: what each training stage reads -------------------------------------------------------


class SftJob(Strict):
    """All settings of one SFT job."""

    device: Device
    """Where to train; `auto` is cuda where there is one, else cpu."""
    policy: PolicySettings
    teacher: TeacherSettings
    sft: SftSettings


class GrpoJob(Strict):
    """All settings of one GRPO job."""

    device: Device
    """Where to train; `auto` is cuda where there is one, else cpu."""
    policy: PolicySettings
    grpo: GrpoSettings


# --- The whole ------------------------------------------------------------------------------------


class Config(Strict):
    """config.yaml as a whole."""

    device: Device
    """Where training runs; `auto` is cuda where there is one, else cpu."""
    seeds: Seeds
    """Run seeds of every study that names none of its own."""
    policy: PolicySettings
    sft: SftSettings
    teachers: Annotated[dict[Name, TeacherSettings], Field(min_length=1)]
    grpo: GrpoSettings
    recipes: Annotated[dict[Name, Recipe], Field(min_length=1)]
    """Named changes to `grpo`; `base` changes nothing."""
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
    def _completions_fit_into_memory(self) -> Config:
        for recipe in self.recipes:
            grpo = self.grpo_job(recipe).grpo
            completions = grpo.prompts_per_iteration * grpo.group_size
            if completions > MOST_COMPLETIONS:
                raise PydanticCustomError(
                    "completions",
                    "grpo, with recipes.{recipe}: prompts_per_iteration ({prompts}) x group_size "
                    "({size}) is more completions than {most}, the most allowed",
                    {
                        "recipe": recipe,
                        "prompts": grpo.prompts_per_iteration,
                        "size": grpo.group_size,
                        "most": f"{MOST_COMPLETIONS:,}",
                    },
                )
        return self

    @model_validator(mode="after")
    def _figures_find_their_arms(self) -> Config:
        lacking = [
            f"figures.{name}.studies: none of {', '.join(figure.studies)} has {arm}, "
            "which this figure shows"
            for name, figure in self.figures.items()
            for arm in FIGURE_ARMS.get(name, ())
            if arm
            not in {
                Arm(run.recipe, run.teacher, run.beta)
                for study in figure.studies
                for run in self.runs(study)
            }
        ]
        if lacking:
            raise PydanticCustomError("arms", "{lacking}", {"lacking": "; ".join(lacking)})
        return self

    @model_validator(mode="after")
    def _kl_sweep_can_be_drawn(self) -> Config:
        figure = self.figures.get(KL_SWEEP)
        if figure is None:
            return self
        runs = [run for study in figure.studies for run in self.runs(study)]
        grpo = {run.recipe: self.grpo_job(run.recipe).grpo for run in runs}
        at = figure.iterations
        unseen = [
            recipe
            for recipe, settings in grpo.items()
            if at > settings.iterations
            or (at % settings.evaluate_every and at != settings.iterations)
        ]
        if unseen:
            raise PydanticCustomError(
                "arms",
                "figures.{figure}.iterations: found {at}, at which runs of {recipes} are not "
                "evaluated. Name an iteration at which all of its runs are",
                {"figure": KL_SWEEP, "at": at, "recipes": ", ".join(unseen)},
            )
        try:
            kl_curves(
                {
                    Arm(run.recipe, run.teacher, run.beta): grpo[run.recipe].model_dump()
                    for run in runs
                }
            )
        except UserError as error:
            raise PydanticCustomError("arms", "figures.{error}", {"error": str(error)}) from None
        return self

    def sft_job(self, teacher: str) -> SftJob:
        """Settings of the SFT jobs of `teacher`."""
        return SftJob(
            device=self.device, policy=self.policy, teacher=self.teachers[teacher], sft=self.sft
        )

    def grpo_job(self, recipe: str) -> GrpoJob:
        """Settings of the GRPO jobs of `recipe`."""
        changes = self.recipes[recipe].model_dump(exclude_unset=True)
        grpo = self.grpo.model_copy(update=changes)
        return GrpoJob(device=self.device, policy=self.policy, grpo=grpo)

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

    def runs(self, study: str) -> list[GrpoRun]:
        """The runs of a study, in the order in which its table holds them."""
        chosen = self.study(study)
        return all_runs(chosen.recipes, chosen.teachers, chosen.betas, chosen.seeds)

    def used_studies(self) -> list[str]:
        """The studies that a figure or the claims read."""
        readers = [*self.figures.values(), self.claims]
        return list(dict.fromkeys(study for reader in readers for study in reader.studies))

    @functools.cached_property
    def run_paths(self) -> set[str]:
        """The paths of all runs that a study names: GRPO runs, and the SFT runs before them."""
        runs = [run for study in self.studies for run in self.runs(study)]
        starts = {SftRun(teacher=run.teacher, seed=run.seed).path for run in runs}
        return starts | {run.path for run in runs}

    def check_path(self, path: str) -> None:
        """Raise a `UserError` if no study names the run of this path."""
        if path not in self.run_paths:
            named = ", ".join(self.studies)
            raise UserError(
                f"no study names the run {path}. Add its recipe, teacher, beta or seed to one of "
                f"the config's studies ({named}), and write beta as there: 0.04, not 4e-2."
            )

    def used_runs(self) -> list[GrpoRun]:
        """The GRPO runs of those studies, each once."""
        return list(dict.fromkeys(run for study in self.used_studies() for run in self.runs(study)))

    def used_starts(self) -> list[SftRun]:
        """The SFT runs that those start from, each once."""
        starts = (SftRun(teacher=run.teacher, seed=run.seed) for run in self.used_runs())
        return list(dict.fromkeys(starts))


# --- Checking config.yaml -----------------------------------------------------------------------


NAMED = ("teachers", "recipes", "studies", "figures")
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


def explain(error: ValidationError, model: type[BaseModel], source: str) -> str:
    """All mistakes of a validation, a line each: path, what was found, what is allowed."""
    mistakes = [_explain_one(mistake, model) for mistake in error.errors(include_url=False)]
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    return "\n".join([f"{count} in {source}:", *(f"  {line}" for line in mistakes)])


def _explain_one(mistake: Mapping[str, Any], model: type[BaseModel]) -> str:
    location = mistake["loc"]
    path = ".".join(str(part) for part in location if part != "[key]") or "(top level)"
    found = repr(mistake["input"])
    found = found if len(found) <= 60 else f"{found[:57]}..."
    kind, message = mistake["type"], mistake["msg"]
    if kind == "missing":
        return f"{path}: missing. Add this key; see config.yaml for its meaning."
    if kind == "extra_forbidden":
        allowed = _keys_at(model, location[:-1])
        close = difflib.get_close_matches(str(location[-1]), allowed, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        return f"{path}: unknown key.{hint} Allowed here: {', '.join(allowed)}."
    if kind in (
        "base",
        "arms",
        "completions",
    ):  # about the config as a whole; they name the key themselves
        return f"{message}."
    if kind in ("string_pattern_mismatch", "string_too_long"):
        message = (
            "names are lower-case letters, digits and _, begin with a letter, and have at most "
            f"{LONGEST_NAME} characters"
        )
    if kind == "multiple_of":
        message += " (a sum stays with its mirror, a + b with b + a)"
    if kind == "less_than_equal" and mistake["ctx"]["le"] >= 1e15:
        message = f"input should be at most {mistake['ctx']['le']:g}"  # not all of its zeros
    if kind.startswith(("int_", "float_")) and isinstance(mistake["input"], str):
        message += (
            " (numbers are written without quotes; YAML takes 1e-3 for text and wants 1.0e-3; "
            "--config takes what is inside brackets for text: use --configfile)"
        )
    return f"{path}: found {found}. {message[0].upper()}{message[1:]}."


def _keys_at(model: Any, location: tuple[Any, ...]) -> list[str]:
    """The keys that are allowed at a path of the config."""
    for part in location:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[part].annotation
            if NoneType in get_args(model):  # model | None
                model = get_args(model)[0]
        else:  # dict[name, model]
            model = get_args(model)[-1]
    return list(model.model_fields)
