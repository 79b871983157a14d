"""Figure 8: a verifier, a learned reward and DPO in one plane.

Success probability against KL to the SFT policy, one trajectory per method and seed from the same
SFT policies, with the least KL that theory allows for a success.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rlvr.config.arms import WEAK, Arm
from rlvr.figures import stage, style
from rlvr.results import theory
from rlvr.results.studies import Studies

ARMS = (
    WEAK,
    Arm("learned_800", "weak", 0.3),
    Arm("learned_800", "weak", 0),
    Arm("dpo_lr1", "weak", 0.5),
    Arm("dpo_lr1", "weak", 0.1),
)
COLORS = (style.BLUE, style.ORANGE, style.RED, "black", style.GREY)
NAMES = {
    "base": "exact verifier",
    "learned_800": "reward of 800 pairs",
    "dpo_lr1": "DPO, 800 pairs",
}
WINDOW = 3  # evaluations in the running mean of the KL, which single batches estimate with noise
END = 5  # evaluations whose mean KL stands for the end
NEAR = 0.1  # nats; up to here the axis is linear, so that it has a 0


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to an iteration."""
    figure, axes = plt.subplots(figsize=style.SINGLE)
    draw_frontier(axes, studies.truth_probability(WEAK))
    handles = []
    for arm, color in zip(ARMS, COLORS, strict=True):
        label = f"{NAMES[arm.recipe]}, beta {arm.beta:g}"
        draw_trajectories(axes, studies, arm, iterations, color)
        handles.append(Line2D([], [], color=color, linewidth=2, marker="o", ms=5, label=label))
    lines = {"--": "theory: least KL for that success", ":": "the same, prompt by prompt (means)"}
    handles += [
        Line2D([], [], color="black", linestyle=line, label=label) for line, label in lines.items()
    ]
    start = theory.sampled_accuracy(studies.truth_probability(WEAK))
    axes.plot(0, start, "k*", markersize=10, zorder=4)
    handles.append(
        Line2D(
            [], [], color="black", linewidth=0, marker="*", markersize=9, label="SFT policy, theory"
        )
    )
    axes.set_xscale("symlog", linthresh=NEAR, linscale=0.4)
    axes.set(xlim=(0, 150), ylim=(-0.02, 1.02), xticks=[0, 0.1, 0.3, 1, 3, 10, 30, 100])
    axes.set_xticklabels(["0", "0.1", "0.3", "1", "3", "10", "30", "100"])
    axes.set(
        xlabel="KL(policy || SFT policy), nats per sequence",
        ylabel="success probability, exact over 10,000 prompts",
    )
    title = "; dots: the end"
    style.legend(axes, studies.rows(WEAK), title, handles=handles, loc="lower left")
    return figure


def draw_frontier(axes: Axes, q: float) -> None:
    """The least KL for a success, in the two-mode picture."""
    p = np.linspace(q, 1, 400)
    kl = [theory.kl_floor(q, float(one)) for one in p]
    success = [theory.sampled_accuracy(float(one)) for one in p]
    axes.plot(kl, success, color="black", linestyle="--", linewidth=1.4, zorder=3)
    axes.fill_betweenx(success, 0, kl, color="black", alpha=0.06, linewidth=0)


def draw_trajectories(axes: Axes, studies: Studies, arm: Arm, iterations: int, color: str) -> None:
    """Each seed's way as a thin line, the mean's as a thick one, with a dot at the end."""
    rows = studies.rows(arm).query("iteration <= @iterations")
    success = style.by_seed(rows, "success_probability")
    kl = style.by_seed(rows, "kl")
    if studies.made_by(arm)["method"] == "grpo":
        # The batch of an iteration was sampled before its updates.
        kl.index -= 1
    kl = style.running_mean(kl.reindex(success.index).ffill(), WINDOW)
    floor = style.by_seed(rows, "kl_floor").mean(axis=1)
    axes.plot(floor, success.mean(axis=1), color=color, linewidth=1.2, linestyle=":")
    axes.plot(kl, success, color=color, linewidth=0.6, alpha=0.45)
    axes.plot(kl.mean(axis=1), success.mean(axis=1), color=color, linewidth=2)
    end, reached = kl.tail(END).mean(), success.iloc[-1]
    axes.plot(end, reached, "o", color=color, markersize=3, alpha=0.6)
    axes.plot(end.mean(), reached.mean(), "o", color=color, markersize=6)


if __name__ == "__main__":
    stage.run(draw)
