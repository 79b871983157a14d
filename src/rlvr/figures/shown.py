"""What the figures show, known before anything is trained: a config that lacks it is refused.

A figure's module names the arms that it shows: ARMS = (WEAK, Arm("recipe", "teacher", 0.04)). That
line is read, not run: Snakemake asks at each start, and the module imports Matplotlib.
"""

import ast
from collections.abc import Callable
from pathlib import Path

from rlvr.config import arms
from rlvr.config.arms import Arm
from rlvr.config.settings.whole import Config
from rlvr.errors import UserError
from rlvr.figures.kl_sweep import check_kl_sweep

FOLDER = Path(__file__).parent

CHECKS: dict[str, Callable[[Config, str], None]] = {"fig5_kl_anchor": check_kl_sweep}
"""Of figures that show whatever their studies hold, what that may be."""


def arms_of(figure: str) -> tuple[Arm, ...]:
    """The ARMS of a figure's module; none if it names none.

    Raises a `UserError` where they are neither names of `rlvr.config.arms` nor spelt out.
    """
    path = FOLDER / f"{figure}.py"
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "ARMS":
            try:
                return tuple(_arm(element) for element in statement.value.elts)
            except (AttributeError, TypeError, ValueError):
                raise UserError(
                    f"{path}: ARMS is read without running the module, so it must be a list of "
                    'names from rlvr.config.arms, or of arms as Arm("recipe", "teacher", 0.04).'
                ) from None
    return ()


def _arm(element: ast.expr) -> Arm:
    """An arm that is named, or spelt out."""
    if isinstance(element, ast.Call) and ast.unparse(element.func) == "Arm":
        return Arm(*(ast.literal_eval(value) for value in element.args))
    return getattr(arms, element.id)


def check_figures(config: Config) -> None:
    """Raise one `UserError` that says what any figure lacks in the studies that it reads."""
    mistakes = []
    for figure, settings in config.figures.items():
        held = config.arms(figure)
        mistakes += [
            f"figures.{figure}.studies: none of {', '.join(settings.studies)} has {arm}, which "
            "this figure shows."
            for arm in arms_of(figure)
            if arm not in held
        ]
        try:
            CHECKS.get(figure, lambda *_: None)(config, figure)
        except UserError as error:
            mistakes.append(f"figures.{figure}: {error}.")
    if mistakes:
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        raise UserError("\n  ".join([f"{count} in the config's figures:", *mistakes]))
