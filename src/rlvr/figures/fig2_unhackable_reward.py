"""Figure 2: a reward that cannot be hacked needs no KL anchor.

Greedy accuracy and KL to the SFT policy over GRPO iterations from the weak start, at beta 0.
"""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rlvr import theory
from rlvr.figures import stage, style
from rlvr.studies import WEAK, Studies


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to an iteration."""
    rows = studies.rows(WEAK).query("iteration <= @iterations")
    floor = theory.kl_floor(studies.truth_probability(WEAK))
    figure, left = plt.subplots(figsize=style.SINGLE)
    style.draw_seeds(left, rows, "accuracy", style.BLUE, "greedy accuracy, all prompts", band=True)
    left.set(xlabel="GRPO iteration", xlim=(0, iterations), ylim=(0, 1.05))
    left.set_ylabel("greedy accuracy, exact over 10,000 prompts", color=style.BLUE)
    left.tick_params(axis="y", colors=style.BLUE)

    right = left.twinx()
    style.draw_seeds(right, rows, "kl", style.RED, "KL to the SFT policy")
    right.axhline(floor, color=style.GREY, linestyle="--", linewidth=1.4)
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    right.set(ylim=(0, None))
    right.set_ylabel("KL(policy || SFT policy), nats per sequence", color=style.RED)
    right.tick_params(axis="y", colors=style.RED)
    right.plot([], [], color=style.GREY, linestyle="--", label=f"KL floor, theory ({floor:.3f})")
    handles = [h for axes in (left, right) for h in axes.get_legend_handles_labels()[0]]
    right.legend(handles=handles, loc="lower right", title=style.seeds_note(rows))
    return figure


if __name__ == "__main__":
    stage.run(draw)
