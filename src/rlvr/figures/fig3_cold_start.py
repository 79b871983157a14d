"""Figure 3: where SFT never shows the right answer, GRPO has no signal to learn from.

Greedy accuracy and the fraction of zero-signal groups, weak start against cold start.
"""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rlvr.config.arms import COLD, WEAK
from rlvr.figures import stage, style
from rlvr.results import theory
from rlvr.results.studies import Studies

ARMS = (WEAK, COLD)


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to an iteration."""
    figure, (left, right) = plt.subplots(1, 2, figsize=style.PAIR)
    for arm, color in ((WEAK, style.BLUE), (COLD, style.RED)):
        rows = studies.rows(arm).query("iteration <= @iterations")
        q = studies.truth_probability(arm)
        name = f"{arm.teacher} start (q = {q:g})"
        style.draw_seeds(left, rows, "accuracy", color, name, band=True)
        style.draw_seeds(right, rows, "zero_signal_fraction", color, name)
        first = theory.zero_signal_fraction(q, studies.group_size(arm))
        right.axhline(first, color=color, linestyle=":", linewidth=1.2)
        style.theory_note(right, first, "first batch,\ntheory", color)
    style.draw_sft_accuracy(left)
    left.set(ylabel="greedy accuracy, exact over 10,000 prompts")
    right.set(ylabel="zero-signal groups, fraction of the batch's groups")
    for axes, title in ((left, "; band: ±1 std"), (right, "")):
        axes.set(xlabel="GRPO iteration", xlim=(0, iterations), ylim=(-0.02, 1.05))
        style.legend(axes, rows, title, loc="center right", bbox_to_anchor=(1, 0.6))
    return figure


if __name__ == "__main__":
    stage.run(draw)
