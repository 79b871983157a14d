"""Figure 1: a verifiable reward overturns what SFT preferred.

Greedy accuracy over GRPO iterations from the weak start, on all prompts and on carry prompts.
"""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rlvr.config.arms import WEAK
from rlvr.figures import stage, style
from rlvr.results import theory
from rlvr.results.studies import Studies

ARMS = (WEAK,)
ZOOM = 40  # iterations in the inset: the whole change is over by then


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to an iteration."""
    rows = studies.rows(WEAK).query("iteration <= @iterations")
    base = rows[rows.iteration == 0]
    figure, axes = plt.subplots(figsize=style.SINGLE)
    inset = axes.inset_axes((0.10, 0.40, 0.40, 0.46))
    for column, name, color, expected in (
        ("accuracy", "all prompts", style.BLUE, theory.base_accuracy()),
        ("accuracy_carry", "carry prompts", style.RED, 0.0),
    ):
        baseline = base[column].mean()
        for where in (axes, inset):
            style.draw_seeds(where, rows, column, color, name, band=True)
            label = f"SFT baseline, {name} ({baseline:.3f})"
            where.axhline(baseline, color=color, linestyle=":", linewidth=1.2, label=label)
        style.theory_note(axes, expected, "SFT, theory", color)
    axes.set(
        xlabel="GRPO iteration",
        ylabel="greedy accuracy, exact over 10,000 prompts",
        xlim=(0, iterations),
        ylim=(-0.02, 1.02),
    )
    zoom = min(ZOOM, iterations)
    inset.set(xlim=(0, zoom), ylim=(-0.02, 1.02))
    inset.set_title(f"the first {zoom} iterations", fontsize=9)
    style.legend(axes, rows, "; band: ±1 std", loc="center right", bbox_to_anchor=(1, 0.62))
    return figure


if __name__ == "__main__":
    stage.run(draw)
