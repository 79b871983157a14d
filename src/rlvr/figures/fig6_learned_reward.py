"""Figure 6: a learned reward is hacked, unless an anchor of the right strength holds the policy.

Accuracy and mean score over GRPO iterations at beta 0, for reward models of three numbers of pairs;
accuracy at the end against beta, for both placements of the KL; and a reward that was learned from
an annotator who shares the teacher's habit.
"""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rlvr.config.arms import BIASED, BIASED_ANCHORED, LEARNED, LEARNED_LOSS, Arm
from rlvr.figures import intervals, stage, style
from rlvr.results.studies import Studies

ARMS = (
    Arm("learned_200", "weak", 0),
    Arm("learned_800", "weak", 0),
    Arm("learned_4000", "weak", 0),
    BIASED,
    BIASED_ANCHORED,
)
COLORS = (style.GREY, style.RED, style.BLUE)  # of the numbers of pairs
BEGINNING = 120  # iterations of the upper panels: all is over by then
PIERCED = 60  # iterations within which document A says that it happens
PLACEMENTS = {
    "off the advantage": (LEARNED, -0.06, {"linestyle": "-", "marker": "o"}),
    "in the loss, k3": (LEARNED_LOSS, 0.06, {"linestyle": "--", "marker": "s", "mfc": "white"}),
}


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to an iteration."""
    figure, ((truth, proxy), (ends, biased)) = plt.subplots(2, 2, figsize=style.SQUARE)
    methods = draw_over_iterations(studies, truth, proxy, min(BEGINNING, iterations))
    methods |= draw_ends(studies, ends, iterations)
    methods |= draw_biased(studies, biased, iterations)
    seeds = studies.rows(LEARNED[800]).seed.nunique()
    handles = [
        *(
            Line2D([], [], color=color, linewidth=2, label=f"{pairs:,} pairs")
            for pairs, color in zip(LEARNED, COLORS, strict=True)
        ),
        *(
            Line2D([], [], color="black", markersize=5, label=f"KL {name}", **look)
            for name, (_, _, look) in PLACEMENTS.items()
        ),
        Line2D([], [], color=style.GREY, linewidth=0.6, label=f"thin, dots: each of {seeds} seeds"),
        Line2D([], [], color=style.GREY, alpha=0.3, linewidth=6,
               label=f"bands, bars: {intervals.in_words(methods)}"),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def draw_over_iterations(studies: Studies, truth: Axes, proxy: Axes, iterations: int) -> set[str]:
    """What is true and what the reward model says, at beta 0."""
    methods: set[str] = set()
    for (pairs, arm), color in zip(LEARNED.items(), COLORS, strict=True):
        rows = studies.rows(arm).query("iteration <= @iterations")
        accuracy = style.by_seed(rows, "accuracy")
        methods |= intervals.draw_band(truth, "accuracy", accuracy, color, f"{pairs:,} pairs")
        # A score has neither zero nor unit: each model has its own.
        score = style.by_seed(rows, "reward_mean")
        rise = score - score.iloc[0]
        proxy.plot(rise.index, rise, color=color, linewidth=0.6, alpha=0.45)
        proxy.plot(rise.index, rise.mean(axis=1), color=color, linewidth=2)
    style.draw_sft_accuracy(truth)
    truth.axvline(PIERCED, color="black", linestyle=":", linewidth=1.2)
    truth.annotate("pierced by here\n(document A)", xy=(PIERCED, 0.97), xytext=(5, 0), va="top",
                   textcoords="offset points", fontsize=9)  # fmt: skip
    truth.set(title="beta 0: what is true", ylabel="greedy accuracy, exact over 10,000 prompts")
    proxy.set(title="beta 0: what training sees", ylabel="mean score, less that of the first batch")
    truth.set_ylim(-0.02, 1.02)
    for axes in (truth, proxy):
        axes.set(xlabel="GRPO iteration", xlim=(0, iterations))
    return methods


def draw_ends(studies: Studies, axes: Axes, iterations: int) -> set[str]:
    """Accuracy at the end against beta."""
    last = studies.frame[studies.frame.iteration == iterations].dropna(subset="accuracy")
    recipes = [arm.recipe for arms, _, _ in PLACEMENTS.values() for arm in arms.values()]
    betas = sorted(last[last.recipe.isin(recipes)].beta.unique())
    methods: set[str] = set()
    for arms, shift, look in PLACEMENTS.values():

        def place(beta: float, shift: float = shift) -> float:
            return betas.index(beta) + shift

        for arm, color in zip(arms.values(), COLORS, strict=True):
            ends = last[last.recipe == arm.recipe].groupby("beta")
            by_beta = {beta: rows.accuracy for beta, rows in ends}
            methods |= intervals.draw_bars(
                axes, "accuracy", by_beta, place, color, markersize=5, **look
            )
    style.draw_sft_accuracy(axes)
    axes.set(xlabel="beta, strength of the KL penalty per nat", xticks=range(len(betas)))
    axes.set_xticklabels([f"{beta:g}" for beta in betas])
    axes.set(title=f"what is true at iteration {iterations}", ylim=(-0.02, 1.02))
    axes.set_ylabel("greedy accuracy, exact over 10,000 prompts")
    return methods


def draw_biased(studies: Studies, axes: Axes, iterations: int) -> set[str]:
    """The annotator who shares the teacher's habit: accuracy on all and on carry prompts."""
    methods: set[str] = set()
    for arm, line in ((BIASED, "-"), (BIASED_ANCHORED, "--")):
        rows = studies.rows(arm).query("iteration <= @iterations")
        for column, name, color in (
            ("accuracy", "all prompts", style.ORANGE),
            ("accuracy_carry", "carry prompts", "black"),
        ):
            values = style.by_seed(rows, column)
            label = f"{name}, beta {arm.beta:g}"
            methods |= intervals.draw_band(axes, column, values, color, label, linestyle=line)
    axes.set(xlabel="GRPO iteration", xlim=(0, iterations), ylim=(-0.02, 1.02))
    axes.set(title="a biased annotator: what is true", ylabel="greedy accuracy")
    axes.legend(loc="upper right")
    return methods


if __name__ == "__main__":
    stage.run(draw)
