"""Figure 1: a verifiable reward overturns what SFT preferred.

Greedy accuracy over GRPO iterations from the weak start, on all prompts and on carry prompts.
"""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rlvr import theory
from rlvr.figures import stage, style
from rlvr.studies import WEAK, Studies


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to an iteration."""
    rows = studies.rows(WEAK).query("iteration <= @iterations")
    base = rows[rows.iteration == 0]
    figure, axes = plt.subplots(figsize=style.SINGLE)
    for column, name, color, expected in (
        ("accuracy", "all prompts", style.BLUE, theory.base_accuracy()),
        ("accuracy_carry", "carry prompts", style.RED, 0.0),
    ):
        style.draw_seeds(axes, rows, column, color, name, band=True)
        baseline = base[column].mean()
        label = f"SFT baseline, {name} ({baseline:.3f})"
        axes.axhline(baseline, color=color, linestyle=":", linewidth=1.2, label=label)
        style.margin_note(axes, expected, f"theory {expected:.3f}", color)
    axes.set(
        xlabel="GRPO iteration",
        ylabel="greedy accuracy, exact over 10,000 prompts",
        xlim=(0, iterations),
        ylim=(-0.02, 1.02),
    )
    axes.legend(loc="center right", title=f"{style.seeds_note(rows)}; band: ±1 std")
    return figure


if __name__ == "__main__":
    stage.run(draw)
