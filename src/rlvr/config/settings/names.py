"""Names in the config: of its own entries, and of modules of ours that it may name."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from rlvr.config.values import Name

ROOMS = Path(__file__).parents[2]
FIGURES = sorted(path.stem for path in (ROOMS / "figures").glob("fig*.py"))
"""Names of the figures that the package can draw: one module each."""
REWARD_RULES = sorted(path.stem for path in (ROOMS / "task" / "rewards").glob("[a-z]*.py"))
"""Names of the rules by which a completion can earn something: one module each."""


def _one_of(kind: str) -> Callable[[str, ValidationInfo], str]:
    """A check that a name is one of a `kind`, of those in the validation context.

    The context lists the config's own entries. Without it, any name will do.
    """

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
RewardName = Annotated[Name, AfterValidator(_one_of("rewards"))]
