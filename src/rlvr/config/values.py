"""Kinds of values that settings and run keys are made of: their types and what is allowed.

But for a number of seeds, they check and never change a value: what a command line says is what a
stage gets.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError


class Strict(BaseModel):
    """Unknown keys are mistakes, values do not change, and docstrings become descriptions."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


PROMPTS = 100 * 100
"""All prompts that the task has: two numbers from 0 to 99."""
MOST_SEEDS = 10_000
SMALLEST_BETA = 1e-9


def unique(values: list[Any]) -> list[Any]:
    """The list itself, if no value stands in it twice."""
    twice = sorted({str(value) for value in values if values.count(value) > 1})
    if twice:
        raise PydanticCustomError(
            "twice", "{values} given more than once", {"values": ", ".join(twice)}
        )
    return values


def first_seeds(seeds: Any) -> Any:
    """The seeds themselves, or where they are a number, so many of them from 42 on."""
    is_number = isinstance(seeds, int) and not isinstance(seeds, bool)
    return list(range(42, 42 + seeds)) if is_number and seeds <= MOST_SEEDS else seeds


def fits_in_a_path(beta: float) -> float:
    """The number itself, if its decimals are few enough to stand in the name of a folder."""
    if 0 < beta < SMALLEST_BETA:
        raise PydanticCustomError(
            "too_small", "a beta is 0, or at least {least}", {"least": SMALLEST_BETA}
        )
    return beta


Count = Annotated[int, Field(ge=1, le=1_000_000)]
Number = Annotated[int, Field(ge=0, le=1_000_000)]
EvenCount = Annotated[int, Field(ge=2, le=1_000_000, multiple_of=2)]
Positive = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False)]  # float32 has room
Probability = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1)]
Confidence = Annotated[float, Field(gt=0, lt=1)]
LONGEST_NAME = 100  # a file system has room for 255 bytes, with what stands around a name
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*\z", max_length=LONGEST_NAME)]
Seed = Annotated[int, Field(ge=0, lt=10**9)]
Seeds = Annotated[
    list[Seed],
    BeforeValidator(first_seeds),
    Field(min_length=1, max_length=MOST_SEEDS),
    AfterValidator(unique),
]
Beta = Annotated[float, Field(ge=0, le=1000), AfterValidator(fits_in_a_path)]
Betas = Annotated[list[Beta], Field(min_length=1), AfterValidator(unique)]
Device = Literal["cpu", "cuda", "auto"]
Engine = Literal["compiled", "torch"]
Labels = Literal["truthful", "habitual"]
