"""Figure 4: from a partly trained model, reward and accuracy climb together (document B).

Held-out accuracy, mean group reward and the distribution of group rewards over GRPO iterations, and
what the KL penalty and the group size change.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlvr.arms import GROUPS_OF_16, GROUPS_OF_16_DOUBLE, PARTIAL, PARTIAL_FREE
from rlvr.figures import intervals, stage, style
from rlvr.studies import Studies

DOCUMENT_B = (0.300, 0.517)  # greedy accuracy on held-out additions, before and after GRPO
WINDOW = 25  # iterations in running means of what single batches estimate with noise


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to an iteration."""
    arms = (PARTIAL, PARTIAL_FREE, GROUPS_OF_16, GROUPS_OF_16_DOUBLE)
    every = {arm: studies.rows(arm) for arm in arms}
    rows = {arm: frame[frame.iteration <= iterations] for arm, frame in every.items()}
    figure, panels = plt.subplots(2, 2, figsize=style.SQUARE)
    (climb, rewards), (anchor, groups) = panels
    methods = draw_climb(climb, rows[PARTIAL])
    draw_distribution(rewards, rows[PARTIAL], studies.group_size(PARTIAL))
    for axes, arms in (
        (anchor, {"beta 0.04": (PARTIAL, style.BLUE), "beta 0": (PARTIAL_FREE, style.RED)}),
        (
            groups,
            {
                "32 groups of 8": (PARTIAL, style.BLUE),
                "16 groups of 16": (GROUPS_OF_16, style.RED),
                "32 groups of 16": (GROUPS_OF_16_DOUBLE, style.GREY),
            },
        ),
    ):
        for label, (arm, color) in arms.items():
            intervals.draw_band(axes, rows[arm], "accuracy", color, label)
        axes.set(ylabel="greedy accuracy, held-out prompts")
        style.legend(axes, rows[PARTIAL], loc="upper left")
    anchor.set_title("with and without the KL penalty")
    groups.set_title("group size, at beta 0.04")
    for axes in panels.flat:
        axes.set(xlabel="GRPO iteration", xlim=(0, iterations))
    for axes in (climb, anchor, groups):
        axes.set(ylim=(0, 0.8))
    figure.supxlabel(f"bands: {intervals.in_words(methods)}", fontsize=9, color=style.GREY)
    return figure


def draw_climb(axes: Axes, rows: pd.DataFrame) -> set[str]:
    """Accuracy and reward of document B's arm, with its two numbers as marks."""
    methods = intervals.draw_band(
        axes, rows, "accuracy", style.BLUE, "greedy accuracy, held-out prompts"
    )
    methods |= intervals.draw_band(
        axes,
        intervals.smoothed(rows.query("iteration > 0"), "reward_mean", WINDOW),
        "reward_mean",
        style.RED,
        f"mean group reward (running, {WINDOW} iterations)",
    )
    for value, words in zip(DOCUMENT_B, ("SFT", "after GRPO"), strict=True):
        axes.axhline(value, color="black", linestyle=":", linewidth=1.2)
        style.theory_note(axes, value, f"document B,\n{words}", "black")
    axes.set(ylabel="fraction", title="reward and accuracy")
    style.legend(axes, rows, loc="upper left")
    return methods


def draw_distribution(axes: Axes, rows: pd.DataFrame, group_size: int) -> None:
    """Shares of groups with k = 0..G right completions, mean over seeds, running."""
    trained = rows.query("iteration > 0").sort_values(["seed", "iteration"])
    counts = np.array(trained.reward_counts.to_list(), dtype=float)
    shares = counts / counts.sum(axis=1, keepdims=True)
    seeds = trained.seed.nunique()
    mean = pd.DataFrame(shares.reshape(seeds, -1, group_size + 1).mean(axis=0))
    mean = mean.rolling(WINDOW, min_periods=1).mean()
    colors = plt.get_cmap("cividis")(np.linspace(0, 1, group_size + 1))
    iterations = sorted(trained.iteration.unique())
    axes.stackplot(iterations, mean.T.to_numpy(), colors=colors)
    axes.set(ylim=(0, 1), ylabel="share of groups", title="groups by right completions")
    axes.grid(visible=False)
    # Each share is named where it stands at the end.
    tops = mean.iloc[-1].cumsum()
    for k, (top, share) in enumerate(zip(tops, mean.iloc[-1], strict=True)):
        if share > 0.02:
            axes.annotate(
                f"{k} of {group_size}", xy=(1, top - share / 2), xycoords=("axes fraction", "data"),
                xytext=(6, 0), textcoords="offset points", va="center", fontsize=9,
            )  # fmt: skip


if __name__ == "__main__":
    stage.run(draw)
