"""How the CPU time of a GRPO run grows with its settings, from real runs, to plan a bigger study.

python benchmarks/scaling.py    six minutes; writes scaling.parquet and scaling.png
"""

import time
from pathlib import Path

import matplotlib.pyplot as plt
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from matplotlib.figure import Figure

from rlvr.config.settings.whole import Config, load_config
from rlvr.figures import style
from rlvr.jobs.records import column
from rlvr.methods.grpo import train as grpo_train
from rlvr.methods.sft import train as sft_train
from rlvr.task.rewards import rule
from rlvr.task.splits import split_prompts

HERE = Path(__file__).parent
SEED = 42
ITERATIONS = 100  # of each run, but where iterations are what varies
SECONDS = [1, 2, 5, 10, 20, 40]  # ticks
VARIED = {
    "group_size": [4, 8, 16, 32],
    "prompts_per_iteration": [16, 32, 64, 128],
    "iterations": [50, 100, 200, 400],
    "layers": [1, 2, 4, 8],
    "width": [32, 64, 128, 256],
}
SCHEMA = pa.schema(
    [
        column("setting", pa.string(), "name", "the setting that differs from config.yaml"),
        column("value", pa.int64(), "the setting's", "its value"),
        column("cpu_seconds", pa.float64(), "s", "of the GRPO run, evaluations included"),
    ]
)


def cpu_seconds(config: Config, setting: str, value: int) -> float:
    """CPU time of one GRPO run from the weak start with one setting changed."""
    changes = {"iterations": ITERATIONS, setting: value}
    policy = {key: changes.pop(key) for key in ("layers", "width") if key in changes}
    if "width" in policy:
        policy["feed_forward"] = 2 * policy["width"]  # as in config.yaml
    sft_job, grpo_job = config.sft_job("weak"), config.job("base")
    shape = config.policy.model_copy(update=policy)
    start, _ = sft_train(sft_job.model_copy(update={"policy": shape}), SEED)
    grpo = grpo_job.grpo.model_copy(update=changes)
    job = grpo_job.model_copy(update={"grpo": grpo})
    before = time.process_time()
    grpo_train(job, start, split_prompts(None), rule("exact"), 0.0, SEED)
    return time.process_time() - before


def draw(rows: list[dict]) -> Figure:
    """A panel per setting, with what growth in proportion would be."""
    figure, panels = plt.subplots(1, len(VARIED), figsize=(13, 3), sharey=True)
    for axes, (setting, values) in zip(panels, VARIED.items(), strict=True):
        seconds = [row["cpu_seconds"] for row in rows if row["setting"] == setting]
        axes.loglog(values, seconds, "o-", color=style.BLUE, label="measured")
        linear = [seconds[0] * value / values[0] for value in values]
        axes.loglog(values, linear, ":", color=style.GREY, label="in proportion")
        axes.set_xticks(values, [str(value) for value in values])
        axes.set_yticks(SECONDS, [str(second) for second in SECONDS])
        axes.minorticks_off()
        axes.set(xlabel=setting.replace("_", " "))
    panels[0].set(ylabel="CPU seconds of a GRPO run")
    panels[0].legend(title=f"{ITERATIONS} iterations", title_fontsize=9, alignment="left")
    return figure


def main() -> None:
    """Measure and draw."""
    config = load_config(yaml.safe_load((HERE.parent / "config.yaml").read_text()))
    rows = [
        {"setting": setting, "value": value, "cpu_seconds": cpu_seconds(config, setting, value)}
        for setting, values in VARIED.items()
        for value in values
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), HERE / "scaling.parquet")
    style.use()
    draw(rows).savefig(HERE / "scaling.png")


if __name__ == "__main__":
    main()
