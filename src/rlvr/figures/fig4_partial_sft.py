"""Figure 4: from a partly trained model, reward and accuracy climb together (document B).

Held-out accuracy, mean group reward and the distribution of group rewards over GRPO iterations, and
what the KL penalty and the group size change.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlvr.config.arms import GROUPS_OF_16, GROUPS_OF_16_DOUBLE, PARTIAL, PARTIAL_FREE, Arm
from rlvr.figures import intervals, stage, style
from rlvr.results.studies import Studies

ARMS = (PARTIAL, PARTIAL_FREE, GROUPS_OF_16, GROUPS_OF_16_DOUBLE)
DOCUMENT_B = (0.300, 0.517)  # greedy accuracy on held-out additions, before and after GRPO
COLORS = (style.BLUE, style.RED, style.GREY)  # of arms that are compared
WINDOW = 25  # iterations in running means of what single batches estimate with noise


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to an iteration."""
    every = {arm: studies.rows(arm) for arm in ARMS}
    rows = {arm: frame[frame.iteration <= iterations] for arm, frame in every.items()}
    figure, panels = plt.subplots(2, 2, figsize=style.SQUARE)
    (climb, rewards), (anchor, groups) = panels
    methods = draw_climb(climb, rows[PARTIAL])
    draw_distribution(rewards, rows[PARTIAL], studies.group_size(PARTIAL))
    for axes, title, compared in (
        (
            anchor,
            "with and without the KL penalty",
            {arm: f"beta {arm.beta:g}" for arm in (PARTIAL, PARTIAL_FREE)},
        ),
        (
            groups,
            f"groups per iteration, at beta {PARTIAL.beta:g}",
            {arm: groups_in_words(studies, arm) for arm in ARMS if arm != PARTIAL_FREE},
        ),
    ):
        for (arm, label), color in zip(compared.items(), COLORS, strict=False):
            accuracy = style.by_seed(rows[arm], "accuracy")
            methods |= intervals.draw_band(axes, "accuracy", accuracy, color, label)
        axes.set(ylabel="greedy accuracy, held-out prompts", title=title)
        style.legend(axes, rows[PARTIAL], loc="upper left")
    for axes in panels.flat:
        axes.set(xlabel="GRPO iteration", xlim=(0, iterations), ylim=(0, 1))
    figure.supxlabel(f"bands: {intervals.in_words(methods)}", fontsize=9, color=style.GREY)
    return figure


def groups_in_words(studies: Studies, arm: Arm) -> str:
    """How many groups of which size an iteration has."""
    grpo = studies.settings(arm)
    return f"{grpo['prompts_per_iteration']} groups of {grpo['group_size']}"


def draw_climb(axes: Axes, rows: pd.DataFrame) -> set[str]:
    """Accuracy and reward of document B's arm, with its two numbers as marks."""
    accuracy = style.by_seed(rows, "accuracy")
    reward = style.running_mean(style.by_seed(rows, "success_fraction"), WINDOW)
    reward = reward[reward.index.isin(accuracy.index)]
    label = "greedy accuracy, held-out prompts"
    methods = intervals.draw_band(axes, "accuracy", accuracy, style.BLUE, label)
    label = f"mean group reward (running, {WINDOW} iterations)"
    methods |= intervals.draw_band(axes, "success_fraction", reward, style.RED, label)
    for value, words in zip(DOCUMENT_B, ("SFT", "after GRPO"), strict=True):
        axes.axhline(value, color="black", linestyle=":", linewidth=1.2)
        style.theory_note(axes, value, f"document B,\n{words}", "black")
    axes.set(ylabel="fraction", title="reward and accuracy")
    style.legend(axes, rows, loc="upper left")
    return methods


def draw_distribution(axes: Axes, rows: pd.DataFrame, group_size: int) -> None:
    """Shares of groups with k = 0..G right completions, mean over seeds, running."""
    trained = rows[rows.iteration > 0].set_index("iteration").sort_index()
    counts = pd.DataFrame(trained.reward_counts.to_list(), index=trained.index)
    shares = counts.groupby(level="iteration").sum()
    shares = style.running_mean(shares.div(shares.sum(axis=1), axis=0), WINDOW)
    colors = plt.get_cmap("cividis")(np.linspace(0, 1, group_size + 1))
    axes.stackplot(shares.index, shares.T.to_numpy(), colors=colors)
    axes.set(ylabel="share of groups", title="groups by right completions")
    axes.grid(visible=False)
    # Each share is named where it stands at the end.
    last = shares.iloc[-1]
    for k, (top, share) in enumerate(zip(last.cumsum(), last, strict=True)):
        if share > 0.02:
            axes.annotate(
                f"{k} of {group_size}", xy=(1, top - share / 2), xycoords=("axes fraction", "data"),
                xytext=(6, 0), textcoords="offset points", va="center", fontsize=9,
            )  # fmt: skip


if __name__ == "__main__":
    stage.run(draw)
