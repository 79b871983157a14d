"""The house style of all figures: fonts, colours, and how a quantity over seeds is drawn."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib import font_manager
from matplotlib.axes import Axes

from rlvr.results import theory
from rlvr.results.schemas import range_of, unit_of

BLUE, RED, GREY = "#2166AC", "#D6604D", "#808080"  # told apart with any colour vision
ORANGE = "#E69F00"  # where more are needed; and black
SINGLE, PAIR, SQUARE = (7.2, 4.8), (10.0, 4.2), (10.0, 8.4)  # inches

RC = {
    "font.family": "STIXGeneral",  # ships with Matplotlib: every machine draws the same glyphs
    "mathtext.fontset": "stix",
    "axes.labelsize": 11,
    "axes.titlesize": 11,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linestyle": "--",
    "grid.linewidth": 0.6,
    "figure.constrained_layout.use": True,
    "pdf.compression": 0,  # Pythons come with different zlibs, and those write different bytes
    "pdf.fonttype": 42,  # embedded as TrueType, so that text stays text
    "savefig.dpi": 200,
}


def use() -> None:
    """Draw with this style from here on, without a display, and with nothing of the user's own.

    That is: neither a matplotlibrc nor fonts of the same name that are installed on this machine.
    """
    mpl.use("Agg")
    mpl.rcdefaults()
    mpl.rcParams.update(RC)
    font_manager.fontManager.ttflist.clear()
    for font in sorted(Path(mpl.get_data_path(), "fonts", "ttf").glob("*.ttf")):
        font_manager.fontManager.addfont(font)


def by_seed(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """A column with a row per iteration that has it, and a column per seed."""
    return rows.pivot(index="iteration", columns="seed", values=column).dropna()


def running_mean(values: pd.DataFrame, window: int) -> pd.DataFrame:
    """Each value's mean with its neighbours, `window` of them in all.

    At the start the window stays symmetric, so that it does not show a rise before it comes.
    """
    reach = [min(i, window // 2) for i in range(len(values))]
    means = [values.iloc[i - r : i + r + 1].mean() for i, r in enumerate(reach)]
    return pd.DataFrame(means, index=values.index)


def draw_seeds(
    axes: Axes, rows: pd.DataFrame, column: str, color: str, label: str, *,
    band: bool = False, window: int = 1,
) -> None:  # fmt: skip
    """A column over iterations: each seed as a thin line and their mean as a thick one.

    `band` adds ±1 std over seeds, as far as the column can go; `window` makes the mean a running
    one over so many iterations.
    """
    values = by_seed(rows, column)
    axes.plot(values.index, values, color=color, linewidth=0.6, alpha=0.45)
    mean = values.mean(axis=1)
    smooth = running_mean(mean.to_frame(), window)
    axes.plot(mean.index, smooth, color=color, linewidth=2, label=label)
    if band and values.shape[1] > 1:
        std, within = values.std(axis=1), range_of(unit_of(column))
        low, high = ((mean + sign * std).clip(*within) for sign in (-1, 1))
        axes.fill_between(mean.index, low, high, color=color, alpha=0.15, linewidth=0)


def theory_note(axes: Axes, value: float, text: str, color: str) -> None:
    """An arrow and a note outside the right edge: where theory puts a quantity."""
    axes.annotate(
        f"{text}\n{value:.4g}",
        xy=(1, value),
        xytext=(10, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=color,
        annotation_clip=False,
        arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 0.8, "shrinkB": 0},
    )


def draw_sft_accuracy(axes: Axes) -> None:
    """Where theory puts the greedy accuracy of an SFT policy that prefers the no-carry answer."""
    base = theory.base_accuracy()
    axes.axhline(base, color=GREY, linestyle=":", linewidth=1.2)
    theory_note(axes, base, "SFT,\ntheory", GREY)


def scientific(value: float) -> str:
    """0.0003 as 3e-4."""
    mantissa, exponent = f"{value:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def legend(axes: Axes, rows: pd.DataFrame, title: str = "", **placed: Any) -> None:
    """The legend, headed by what thick and thin lines are."""
    seeds = rows.seed.nunique()
    heading = f"mean of {seeds} seeds; thin: each seed{title}" if seeds > 1 else "one seed"
    axes.legend(title=heading, title_fontsize=9, alignment="left", **placed)
