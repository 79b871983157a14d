"""Figure 7: the anchor of DPO loosens with training.

Accuracy, with the share of fresh pairs that the implicit reward orders rightly; KL to the SFT
policy; log-ratios of chosen and of rejected completions, all over the steps of DPO.
"""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rlvr.config.arms import Arm
from rlvr.figures import intervals, stage, style
from rlvr.results.studies import Studies

ARMS = (
    Arm("dpo_lr1", "weak", 0.1),
    Arm("dpo_lr1", "weak", 0.5),
    Arm("dpo_lr03", "weak", 0.1),
    Arm("dpo_lr03", "weak", 0.5),
)
COLORS = (style.RED, style.BLUE, style.ORANGE, "black")  # of betas
LINES = ("-", "--", ":", "-.")  # of recipes


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, up to a step."""
    arms = sorted(arm for arm in studies.held() if studies.made_by(arm)["method"] == "dpo")
    betas = sorted({arm.beta for arm in arms})
    recipes = list(dict.fromkeys(arm.recipe for arm in (*ARMS, *arms)))
    figure, ((accuracy, kl), (chosen, rejected)) = plt.subplots(
        2, 2, figsize=style.SQUARE, sharex=True
    )
    methods: set[str] = set()
    for arm in arms:
        rows = studies.rows(arm).query("iteration <= @iterations")
        color, line = COLORS[betas.index(arm.beta)], LINES[recipes.index(arm.recipe)]
        for axes, column in (
            (accuracy, "accuracy"),
            (kl, "kl"),
            (chosen, "log_ratio_chosen"),
            (rejected, "log_ratio_rejected"),
        ):
            values = style.by_seed(rows[rows.iteration > 0], column)
            methods |= intervals.draw_band(axes, column, values, color, "", linestyle=line)
        ordered = style.by_seed(rows[rows.iteration > 0], "preference_accuracy").mean(axis=1)
        accuracy.plot(ordered.index, ordered, color=color, linewidth=1, linestyle=line)
    style.draw_sft_accuracy(accuracy)
    label_panels(accuracy, kl, chosen, rejected, studies.frame["kl"].max())
    for axes in (chosen, rejected):
        axes.set(xlabel="optimiser step", xlim=(1, iterations), xscale="log")
    seeds = studies.rows(arms[0]).seed.nunique()
    handles = [
        *(
            Line2D([], [], color=color, linewidth=2, label=f"beta {beta:g}")
            for beta, color in zip(betas, COLORS, strict=False)
        ),
        *(
            Line2D([], [], color="black", linestyle=line, label=in_words(studies, recipe, arms))
            for recipe, line in zip(recipes, LINES, strict=False)
        ),
        Line2D([], [], color=style.GREY, linewidth=0.6, label=f"thin: each of {seeds} seeds"),
        Line2D([], [], color=style.GREY, alpha=0.3, linewidth=6,
               label=f"bands: {intervals.in_words(methods)}"),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def in_words(studies: Studies, recipe: str, arms: list[Arm]) -> str:
    """What a recipe changes."""
    dpo = studies.settings(next(arm for arm in arms if arm.recipe == recipe))
    return f"learning rate {style.scientific(dpo['learning_rate'])}, {dpo['pairs']:,} pairs"


def label_panels(accuracy: Axes, kl: Axes, chosen: Axes, rejected: Axes, largest_kl: float) -> None:
    """What each panel shows."""
    accuracy.set(title="what is true", ylim=(-0.02, 1.08))
    accuracy.set_ylabel("greedy accuracy, exact over 10,000 prompts")
    words = "fresh pairs that the implicit reward orders rightly (means)"
    place = {"xy": (0.02, 1.03), "xycoords": ("axes fraction", "data")}
    accuracy.annotate(words, fontsize=9, **place)
    # Next to 0 the interval of a sampled KL reaches anywhere on a logarithm's scale.
    kl.set(title="how far it went", yscale="log", ylim=(0.01, 2 * largest_kl))
    kl.set_ylabel("KL(policy || SFT policy), nats per sequence")
    for axes, name in ((chosen, "chosen"), (rejected, "rejected")):
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(title=f"fresh pairs: what was {name}", ylabel="log-ratio to the SFT policy, nats")


if __name__ == "__main__":
    stage.run(draw)
