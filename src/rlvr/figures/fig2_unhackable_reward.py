"""Figure 2: a reward that cannot be hacked needs no KL anchor.

Greedy accuracy and KL to the SFT policy over GRPO iterations from the weak start, at beta 0.
"""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rlvr.config.arms import WEAK
from rlvr.figures import stage, style
from rlvr.results import theory
from rlvr.results.studies import Studies

ARMS = (WEAK,)
WINDOW = 25  # iterations in the running mean of the KL, which single batches estimate with noise


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to an iteration."""
    rows = studies.rows(WEAK).query("iteration <= @iterations")
    floor = theory.kl_floor(studies.truth_probability(WEAK))
    figure, left = plt.subplots(figsize=style.SINGLE)
    right = left.twinx()
    style.draw_seeds(left, rows, "accuracy", style.BLUE, "greedy accuracy, all prompts", band=True)
    kl_label = f"KL to the SFT policy (mean: running, {WINDOW} iterations)"
    style.draw_seeds(right, rows, "kl", style.RED, kl_label, window=WINDOW)
    right.axhline(floor, color="black", linestyle="--", linewidth=1.4)
    floor_label = f"theory: least KL for 1.00 on carry prompts ({floor:.3f})"
    right.plot([], [], color="black", linestyle="--", linewidth=1.4, label=floor_label)

    left.set(xlabel="GRPO iteration", xlim=(0, iterations), ylim=(0, 1.05))
    left.set_ylabel("greedy accuracy, exact over 10,000 prompts", color=style.BLUE)
    left.tick_params(axis="y", colors=style.BLUE)
    right.set(ylim=(0, None))
    right.set_ylabel("KL(policy || SFT policy), nats per sequence", color=style.RED)
    right.tick_params(axis="y", colors=style.RED)
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    handles = [h for axes in (left, right) for h in axes.get_legend_handles_labels()[0]]
    style.legend(right, rows, "; band: ±1 std", handles=handles, loc="lower right")
    return figure


if __name__ == "__main__":
    stage.run(draw)
