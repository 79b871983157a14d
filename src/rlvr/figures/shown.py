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


def source_of(figure: str) -> ast.Module:
    """The module of a figure, as written."""
    path = FOLDER / f"{figure}.py"
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def arms_of(figure: str) -> tuple[Arm, ...]:
    """The ARMS of a figure's module; none if it names none.

    Raises a `UserError` where they are neither names of `rlvr.config.arms` nor spelt out.
    """
    for statement in source_of(figure).body:
        match statement:
            case ast.Assign([ast.Name("ARMS")], value) | ast.AnnAssign(ast.Name("ARMS"), _, value):
                listed = isinstance(value, ast.Tuple | ast.List)
                found = [_arm(element) for element in value.elts] if listed else []
                if not listed or None in found:
                    raise UserError(
                        f"{FOLDER / figure}.py, line {statement.lineno}: ARMS is read without "
                        "running the module, so it must be a list of names from rlvr.config.arms, "
                        'or of arms as Arm("recipe", "teacher", 0.04).'
                    )
                return tuple(found)
    return ()


def _arm(element: ast.expr) -> Arm | None:
    """An arm that is named, or spelt out; None if it is neither."""
    match element:
        case ast.Name(name) if isinstance(getattr(arms, name, None), Arm):
            return getattr(arms, name)
        case ast.Call(
            ast.Name("Arm"),
            [
                ast.Constant(str(recipe)),
                ast.Constant(str(teacher)),
                ast.Constant(int() | float() as beta),
            ],
            [],
        ):
            return Arm(recipe, teacher, float(beta))
    return None


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
