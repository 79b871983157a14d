"""Figure 5: when the KL anchor matters, which documents A and B disagree about.

Final success probability and KL against beta, for both placements of the KL, several learning
rates, and each teacher that the studies hold.
"""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rlvr.config.arms import Arm
from rlvr.errors import UserError
from rlvr.figures import intervals, stage, style
from rlvr.figures.kl_sweep import kl_curves
from rlvr.results import theory
from rlvr.results.fixed_points import rest_advantage, rest_loss_k3
from rlvr.results.studies import Studies

COLORS = (style.BLUE, style.GREY, style.RED, "black", style.ORANGE)  # of learning rates, MOST_RATES
MARKS = {
    "advantage": {"linestyle": "-", "marker": "o", "markersize": 5},
    "loss": {"linestyle": "--", "marker": "s", "markersize": 5, "markerfacecolor": "white"},
}
SHIFT = {"advantage": -0.06, "loss": 0.06}  # so that the two do not hide each other
WINDOW = 50  # iterations at the end over which the sampled KL is averaged


def draw(studies: Studies, iterations: int) -> Figure:
    """The figure, at an iteration."""
    curves = kl_curves({arm: studies.settings(arm) for arm in studies.held()})
    teachers = sorted({curve.teacher for curve in curves}, reverse=True)
    rates = sorted({curve.learning_rate for curve in curves})
    betas = sorted({beta for arms in curves.values() for beta in arms})
    figure, panels = plt.subplots(
        2, len(teachers), figsize=style.SQUARE, sharex=True, sharey="row", squeeze=False
    )
    methods: set[str] = set()
    for (teacher, placement, rate), arms in curves.items():
        success, kl = panels[:, teachers.index(teacher)]
        color = COLORS[rates.index(rate)]
        ends = {beta: at_the_end(studies.rows(arm), iterations) for beta, arm in arms.items()}

        def place(beta: float, shift: float = SHIFT[placement]) -> float:
            return betas.index(beta) + shift

        for axes, column in ((success, "success_probability"), (kl, "kl")):
            values = {beta: end[column] for beta, end in ends.items()}
            methods |= intervals.draw_bars(axes, column, values, place, color, **MARKS[placement])
        floors = [end["kl_floor"].mean() for end in ends.values()]
        kl.plot([place(beta) for beta in ends], floors, "_", color=color, markersize=9)
    for teacher, (success, kl) in zip(teachers, panels.T, strict=True):
        arms = [
            a for c, by_beta in curves.items() if c.teacher == teacher for a in by_beta.values()
        ]
        draw_start(success, studies, arms)
        draw_theory(success, studies, arms[0], betas)
        success.set_title(f"{teacher} teacher")
        kl.set(xlabel="beta, strength of the KL penalty per nat", xticks=range(len(betas)))
        kl.set_xticklabels([f"{beta:g}" for beta in betas])
    panels[0, 0].set(ylabel=f"success probability at iteration {iterations}", ylim=(0, 1.02))
    panels[1, 0].set(ylabel="KL(policy || SFT policy), nats per sequence", yscale="log")
    panels[1, 0].set(ylim=(0.02, None))  # a policy held at its start has next to none
    draw_legend(figure, rates, estimators_of(studies), methods)
    return figure


def at_the_end(rows: pd.DataFrame, iterations: int) -> pd.DataFrame:
    """Of each seed: success probability and KL floor at the iteration, mean KL up to it.

    Raises a `UserError` where a run is shorter, or was not evaluated then.
    """
    by_seed = rows.query("@iterations - @WINDOW < iteration <= @iterations").groupby("seed")
    last = rows[rows.iteration == iterations].set_index("seed")
    if len(last) < rows.seed.nunique() or last.success_probability.isna().any():
        raise UserError(
            f"figure 5 shows iteration {iterations}, at which a run of its studies was not "
            "evaluated. Name one that every run has (figures.fig5_kl_anchor.iterations)."
        )
    return last[["success_probability", "kl_floor"]].assign(kl=by_seed["kl"].mean())


def draw_start(axes: Axes, studies: Studies, arms: list[Arm]) -> None:
    """Below the success probability of the SFT policy training has done harm."""
    starts = [studies.rows(arm).query("iteration == 0").success_probability for arm in arms]
    start = pd.concat(starts).mean()
    axes.axhspan(0, start, color="black", alpha=0.07, linewidth=0)
    axes.text(0.98, 0.02, "shaded: worse than the SFT start", ha="right", fontsize=9,
              transform=axes.transAxes)  # fmt: skip


def draw_theory(axes: Axes, studies: Studies, arm: Arm, betas: list[float]) -> None:
    """Where the two-mode picture puts the resting points, for a teacher that it speaks of."""
    q = studies.truth_probability(arm)
    if not 0 < q < 1:
        return
    grpo = studies.settings(arm)
    for rest, style_of in ((rest_advantage, "-"), (rest_loss_k3, "--")):
        points = [rest(q, beta, grpo["group_size"], grpo["advantage_epsilon"]) for beta in betas]
        success = [theory.sampled_accuracy(point) for point in points]
        axes.plot(range(len(betas)), success, color="black", linewidth=1, linestyle=style_of)


def estimators_of(studies: Studies) -> str:
    """The estimators of the KL where it is in the loss."""
    every = [studies.settings(arm) for arm in studies.held()]
    return ", ".join(
        sorted({grpo["kl_estimator"] for grpo in every if grpo["kl_placement"] == "loss"})
    )


def draw_legend(figure: Figure, rates: list[float], estimators: str, methods: set[str]) -> None:
    """Colours are learning rates, line styles placements."""

    def line(label: str, **look: object) -> Line2D:
        return Line2D([], [], label=label, **look)

    rate_lines = [
        line(f"learning rate {style.scientific(rate)}", color=color, linewidth=2)
        for rate, color in zip(rates, COLORS, strict=False)
    ]
    others = [
        line("KL off the advantage (document A)", color=style.GREY, **MARKS["advantage"]),
        line(f"KL in the loss, {estimators} (document B)", color=style.GREY, **MARKS["loss"]),
        line("theory: resting points of either", color="black", linewidth=1),
        line("least KL for that success", color=style.GREY, linewidth=0, marker="_", markersize=9),
        line(f"bars: {intervals.in_words(methods)}", color=style.GREY, linewidth=1),
        line("each seed", color=style.GREY, linewidth=0, marker=".", markersize=3),
    ]
    figure.legend(handles=[*rate_lines, *others], loc="outside lower center", ncols=3)


if __name__ == "__main__":
    stage.run(draw)
