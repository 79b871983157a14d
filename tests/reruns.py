"""What runs again when: every kind of change, and exactly the jobs that it starts.

`test_reruns.py` makes each change on a finished run; `make docs` shows the list in the README:
    python tests/reruns.py
"""

import functools
import itertools
import os
import shutil
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import yaml

STAGES = {
    "sft": "SFT",
    "preferences": "pairs",
    "reward_model": "reward models",
    "grpo": "GRPO",
    "dpo": "DPO",
    "table": "tables",
    "figure": "figures",
    "claims": "claims",
}
FIGURES = [  # of the tiny config
    "fig1_rlvr_overturns",
    "fig2_unhackable_reward",
    "fig3_cold_start",
    "fig4_partial_sft",
    "fig5_kl_anchor",
    "fig6_learned_reward",
    "fig7_dpo",
    "fig8_trilogy",
]

# The jobs of tests/tiny.yaml, by rule and wildcards.
JOBS = [
    *("sft weak/1", "sft weak/2", "sft cold/1", "sft cold/2", "sft partial/1"),
    *("grpo base/weak/0/1", "grpo base/weak/0/2", "grpo short/cold/0/1", "grpo short/cold/0/2"),
    *("grpo document_b/partial/0/1", "grpo document_b/partial/0.04/1"),
    *(f"grpo document_b_{size}/partial/0.04/1" for size in ("g16", "g16_double")),
    *("grpo advantage_t10_lr1/weak/0/1", "grpo advantage_t10_lr1/weak/0.04/1"),
    *("grpo advantage_t07_lr1/partial/0/1", "grpo advantage_t07_lr1/partial/0.04/1"),
    *("grpo loss_t10_lr1/weak/0.04/1", "grpo loss_t10_lr1/cold/0.04/1"),
    *("grpo loss_t07_lr1/partial/0.04/1", "grpo loss_t07_lr3/partial/0.04/1"),
    *(f"preferences weak/truthful/{pairs}/1" for pairs in (20, 30, 40)),
    "preferences weak/habitual/40/1",
    *(f"reward_model learned_{pairs}/weak/1" for pairs in (200, 800, 4000)),
    "reward_model biased_4000/weak/1",
    *(f"grpo learned_{pairs}/weak/{beta}/1" for pairs in (200, 800, 4000) for beta in (0, 0.3)),
    *("grpo learned_800_loss/weak/0.3/1", "grpo biased_4000/weak/0/1", "grpo biased_4000/weak/1/1"),
    *(f"dpo dpo_{rate}/weak/{beta}/1" for rate in ("lr1", "lr03") for beta in (0.1, 0.5)),
    *(f"table {study}_start" for study in ("weak", "cold", "partial")),
    "table group_size",
    *(f"table kl_{t}_{place}" for t in ("weak", "partial") for place in ("advantage", "loss")),
    *("table learned_reward", "table learned_reward_loss", "table biased_reward", "table dpo"),
    *(f"figure {figure}" for figure in FIGURES),
    "claims",
]


def jobs(*patterns: str) -> frozenset[str]:
    """The jobs that match, and those named in full that the tiny config does not have."""
    found = {p: {job for job in JOBS if fnmatch(job, p)} or {p} for p in patterns}
    assert all(not set("*[") & set(job) for matches in found.values() for job in matches), patterns
    return frozenset(itertools.chain(*found.values()))


READERS = ("figure *", "claims")
FROM_TABLES = ("table *", *READERS)
FROM_RUNS = ("grpo *", "dpo *", *FROM_TABLES)
LEARNED_RUNS = ("grpo learned_*", "grpo biased_*")
FROM_PAIRS = ("preferences *", "reward_model *", *LEARNED_RUNS, "dpo *")
ALL = ("sft *", "preferences *", "reward_model *", *FROM_RUNS)
# What follows from the runs of a study.
LEARNED = ("table learned_*", "table biased_reward", "figure fig[68]*", "claims")
DPO = ("table dpo", "figure fig[78]*", "claims")
FROM_GRPO = ("grpo *", *(f"table {study}" for study in ("*_start", "group_size", "kl_*")), *LEARNED)
FROM_GRPO += ("figure fig[!7]*",)
WEAK = ("table weak_start", "figure fig[1238]*", "claims")
COLD = ("table cold_start", "figure fig3*", "claims")
PARTIAL = ("table partial_start", "table group_size", "figure fig4*", "claims")
KL_WEAK_LOSS = ("table kl_weak_loss", "figure fig5*", "claims")


class Project(NamedTuple):
    """A copy of the whole project with finished results, to change."""

    folder: Path

    def edit_config(self, change: Callable[[dict], object]) -> None:
        """Change config.yaml, read as data."""
        path = self.folder / "config.yaml"
        config = yaml.safe_load(path.read_text())
        change(config)
        path.write_text(yaml.safe_dump(config))

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that stands once in a file."""
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, (name, old)
        path.write_text(text.replace(old, new), encoding="utf-8")

    def append(self, name: str, text: str) -> None:
        """Add to the end of a file."""
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(text)

    def result(self, name: str) -> Path:
        """A file below results."""
        return self.folder / "results" / name


class Change(NamedTuple):
    """One change. Those of one row of the README's table start jobs of the same rules."""

    row: str
    name: str
    make: Callable[[Project], object]
    runs: frozenset[str]


# --- Settings -------------------------------------------------------------------------------------


def setting(path: str, value: object) -> Callable[[Project], None]:
    """Give one key of config.yaml another value; `None` takes it away."""

    def change(config: dict) -> None:
        *groups, key = path.split(".")
        for group in groups:
            config = config[group]
        if value is None:
            del config[key]
        else:
            assert config.get(key) != value
            config[key] = value

    return lambda project: project.edit_config(change)


def several(*changes: Callable[[Project], None]) -> Callable[[Project], None]:
    """All of these."""
    return lambda project: [change(project) for change in changes]


SETTINGS = [
    ("a setting of `policy` or `sft`", "policy.width", setting("policy.width", 32), jobs(*ALL)),
    ("a setting of `policy` or `sft`", "sft.steps", setting("sft.steps", 31), jobs(*ALL)),
    ("`engine`, `device`", "engine", setting("engine", "torch"), jobs(*ALL)),
    (
        "`engine`, `device`",
        "device",
        several(setting("engine", "torch"), setting("device", "auto")),
        jobs(*ALL),
    ),
    (
        "a setting of one teacher",
        "teachers.cold",
        setting("teachers.cold.truth_probability", 0.1),
        jobs("sft cold/*", "grpo */cold/*", *COLD, *KL_WEAK_LOSS),
    ),
    (
        "a setting of one teacher",
        "teachers.partial",
        setting("teachers.partial.split.held_out", 1000),
        jobs("sft partial/*", "grpo */partial/*", *PARTIAL, "table kl_partial_*", "figure fig5*"),
    ),
    (
        "a setting of `grpo`",
        "grpo.epochs",
        setting("grpo.epochs", 3),
        jobs(*FROM_GRPO),
    ),
    (
        "a setting of `grpo` that some recipes override",
        "grpo.iterations",
        setting("grpo.iterations", 7),
        jobs("grpo base/*", *WEAK),
    ),
    (
        "a setting of `grpo` that some recipes override",
        "grpo.evaluate_every",
        setting("grpo.evaluate_every", 3),
        jobs(
            "grpo base/*",
            "grpo short/*",
            "grpo document_b*",
            *LEARNED_RUNS,
            *WEAK,
            *COLD,
            *PARTIAL,
            *LEARNED,
        ),
    ),
    (
        "a setting of `grpo`",
        "grpo.evaluate_first",
        setting("grpo.evaluate_first", 1),
        jobs(*FROM_GRPO),
    ),
    (
        "a setting of `preferences`",
        "preferences.habitual_truth",
        setting("preferences.habitual_truth", 0.5),
        jobs(*FROM_PAIRS, *LEARNED, *DPO),
    ),
    (
        "a setting of `reward_model`",
        "reward_model.weight_decay",
        setting("reward_model.weight_decay", 0.1),
        jobs("reward_model *", *LEARNED_RUNS, *LEARNED),
    ),
    (
        "a setting of one reward",
        "rewards.learned_200.steps",
        setting("rewards.learned_200.steps", 7),
        jobs(
            "reward_model learned_200/*",
            "grpo learned_200/*",
            "table learned_reward",
            "figure fig[68]*",
            "claims",
        ),
    ),
    (
        "the pairs of one reward",
        "rewards.learned_200.pairs",
        setting("rewards.learned_200.pairs", 25),
        jobs(
            "preferences weak/truthful/25/1",
            "reward_model learned_200/*",
            "grpo learned_200/*",
            "table learned_reward",
            "figure fig[68]*",
            "claims",
        ),
    ),
    (
        "a setting of `dpo`",
        "dpo.batch_size",
        setting("dpo.batch_size", 8),
        jobs("dpo *", *DPO),
    ),
    (
        "a setting of one recipe",
        "recipes.short",
        setting("recipes.short.iterations", 5),
        jobs("grpo short/*", *COLD),
    ),
    (
        "a setting of one recipe",
        "recipes.loss_t10_lr1",
        setting("recipes.loss_t10_lr1.kl_estimator", "k2"),
        jobs("grpo loss_t10_lr1/*", *KL_WEAK_LOSS),
    ),
    *(
        (
            "a figure's settings",
            f"figures.{figure}",
            setting(f"figures.{figure}.iterations", 3),
            jobs(f"figure {figure}"),
        )
        for figure in FIGURES
        if figure != "fig5_kl_anchor"  # which shows an iteration at which all runs are evaluated
    ),
    (
        "a figure's settings",
        "figures.fig5_kl_anchor",
        setting("figures.fig5_kl_anchor.studies", ["kl_weak_advantage", "kl_weak_loss"]),
        jobs("figure fig5_kl_anchor"),
    ),
    (
        "the claims' settings",
        "claims.confidence",
        setting("claims.confidence", 0.9),
        jobs("claims"),
    ),
    (
        "the claims' settings",
        "claims.studies",
        setting("claims.studies", ["weak_start", "cold_start"]),
        jobs("claims"),
    ),
]


# --- Runs that come and go ------------------------------------------------------------------------

TEACHER = {"truth_probability": 0.7}
RECIPE = {"iterations": 4, "learning_rate": 1e-5}
STUDY = {"recipes": ["base"], "teachers": ["weak"], "betas": [0], "seeds": [1]}
LOSS = "studies.kl_weak_loss"

RUNS = [
    (
        "a seed added",
        "seeds",
        setting("seeds", [1, 2, 3]),
        jobs("sft weak/3", "sft cold/3", "grpo base/weak/0/3", "grpo short/cold/0/3", *WEAK, *COLD),
    ),
    (
        "a teacher added to a study",
        "teachers",
        several(
            setting("teachers.bold", TEACHER), setting(f"{LOSS}.teachers", ["weak", "cold", "bold"])
        ),
        jobs("sft bold/1", "grpo loss_t10_lr1/bold/0.04/1", *KL_WEAK_LOSS),
    ),
    (
        "a recipe or a beta added to a study",
        "recipes",
        several(
            setting("recipes.narrow", RECIPE),
            setting(f"{LOSS}.recipes", ["loss_t10_lr1", "narrow"]),
        ),
        jobs("grpo narrow/weak/0.04/1", "grpo narrow/cold/0.04/1", *KL_WEAK_LOSS),
    ),
    (
        "a recipe or a beta added to a study",
        "betas",
        setting(f"{LOSS}.betas", [0.04, 0.1]),
        jobs("grpo loss_t10_lr1/weak/0.1/1", "grpo loss_t10_lr1/cold/0.1/1", *KL_WEAK_LOSS),
    ),
    (
        "a study added to those that the claims read, of runs that are there",
        "studies",
        several(
            setting("studies.new", STUDY),
            setting("claims.studies", ["weak_start", "cold_start", "new"]),
        ),
        jobs("table new", "claims"),
    ),
    (
        "a teacher, a recipe, a study added that nothing asks for",
        "teachers-unused",
        setting("teachers.bold", TEACHER),
        jobs(),
    ),
    (
        "a teacher, a recipe, a study added that nothing asks for",
        "recipes-unused",
        setting("recipes.narrow", RECIPE),
        jobs(),
    ),
    (
        "a teacher, a recipe, a study added that nothing asks for",
        "studies-unused",
        setting("studies.new", STUDY),
        jobs(),
    ),
    ("a seed removed", "seeds-removed", setting("seeds", [1]), jobs(*WEAK, *COLD)),
    (
        "a teacher, a recipe or a beta removed from a study",
        "teachers-removed",
        setting(f"{LOSS}.teachers", ["weak"]),
        jobs(*KL_WEAK_LOSS),
    ),
    (
        "a teacher, a recipe or a beta removed from a study",
        "recipes-removed",
        several(
            setting("studies.kl_partial_loss.recipes", ["loss_t07_lr1"]),
            setting("recipes.loss_t07_lr3", None),
        ),
        jobs("table kl_partial_loss", "figure fig5*", "claims"),
    ),
    (
        "a teacher, a recipe or a beta removed from a study",
        "betas-removed",
        setting("studies.kl_weak_advantage.betas", [0]),
        jobs("table kl_weak_advantage", "figure fig5*", "claims"),
    ),
    (
        "a study removed",
        "studies-removed",
        several(
            setting("figures.fig5_kl_anchor.studies", ["kl_weak_advantage"]),
            setting("claims.studies", ["weak_start", "cold_start"]),
            *(
                setting(f"studies.{study}", None)
                for study in ("kl_weak_loss", "kl_partial_loss", "kl_partial_advantage")
            ),
        ),
        jobs("figure fig5*", "claims"),
    ),
]


# --- Code and packages ----------------------------------------------------------------------------

MODULES = [
    (
        "code of {}",
        "__init__ elementary errors config/__init__ config/runs config/values jobs/__init__ "
        "jobs/command_line jobs/digest jobs/isolation jobs/records methods/sft "
        "policy/__init__ policy/checkpoints policy/exam policy/parameters policy/policy "
        "policy/engines/__init__ policy/engines/compiled/__init__ policy/engines/compiled/build "
        "task/__init__ task/addition task/splits task/streams task/teachers",
        jobs(*ALL),
    ),
    (
        "code of {}",
        "methods/__init__ methods/run_stage policy/sampling",
        jobs("preferences *", "reward_model *", *FROM_RUNS),
    ),
    ("code of {}", "config/schedule methods/columns", jobs(*FROM_RUNS)),
    ("code of {}", "methods/grpo methods/rewards task/rewards/__init__", jobs(*FROM_GRPO)),
    ("code of the rule that says what is right", "task/rewards/exact", jobs(*FROM_GRPO)),
    (
        "code of {}",
        "methods/preferences methods/pairs task/annotators",
        jobs(*FROM_PAIRS, *LEARNED, *DPO),
    ),
    (
        "code of {}",
        "methods/preference_losses",
        jobs("reward_model *", *LEARNED_RUNS, "dpo *", *LEARNED, *DPO),
    ),
    (
        "code of {}",
        "methods/reward_model policy/scores",
        jobs("reward_model *", *LEARNED_RUNS, *LEARNED),
    ),
    (
        "code of what a run finds by a name in its recipe",
        "methods/learned_reward",
        jobs(*LEARNED_RUNS, *LEARNED),
    ),
    ("code of {}", "methods/dpo", jobs("dpo *", *DPO)),
    ("code of {}", "results/__init__ results/schemas results/table", jobs(*FROM_TABLES)),
    ("code of {}", "config/arms results/studies results/theory", jobs(*READERS)),
    ("code of {}", "figures/__init__ figures/stage figures/style", jobs("figure *")),
    *(("code of one figure", f"figures/{name}", jobs(f"figure {name}")) for name in FIGURES),
    ("code of {}", "results/fixed_points figures/kl_sweep", jobs("figure fig5*")),
    ("code of {}", "figures/intervals", jobs("figure fig[4567]*")),
    ("code of {}", "results/statistics", jobs("figure fig[4567]*", "claims")),
    (
        "code of {}",
        "claims/__init__ claims/claim claims/contrasts claims/document_a claims/document_b "
        "claims/ledger claims/measurements claims/pages",
        jobs("claims"),
    ),
    (
        "code of {}, of which no result is made",
        "config/files config/methods/__init__ config/methods/dpo config/methods/grpo "
        "config/methods/preferences config/methods/reward_model config/methods/sft "
        "config/rewards/__init__ config/rewards/learned config/rewards/reward "
        "config/settings/__init__ config/settings/jobs config/settings/mistakes "
        "config/settings/names config/settings/policy config/settings/recipes "
        "config/settings/studies config/settings/teachers config/settings/whole figures/shown "
        "jobs/messages jobs/progress policy/engines/torch/__init__ policy/engines/torch/device "
        "policy/engines/torch/transformer",
        jobs(),
    ),
]
"""Modules that jobs of the tiny config rest on. One that none does need not be here."""
PACKAGES = [
    ("another release of {} installed", "numpy pyarrow safetensors", jobs(*ALL)),
    ("another release of {} installed", "pandas", jobs(*READERS)),
    ("another release of {} installed", "matplotlib", jobs("figure *")),
    ("another release of {} installed", "mpmath", jobs("figure fig[4567]*", "claims")),
    ("another release of {} installed", "pydantic snakemake torch ziglang", jobs()),
]


def in_words(names: str) -> str:
    """Names of modules or packages; of several in one folder, the folder once."""
    folders: dict[str, list[str]] = {}
    for name in names.split():
        folder, slash, module = name.rpartition("/")
        folders.setdefault(folder + slash, []).append(module)
    return ", ".join(
        f"`{folder}{modules[0]}`"
        if len(modules) == 1
        else f"`{folder}{{{', '.join(modules)}}}`"
        if folder
        else ", ".join(f"`{module}`" for module in modules)
        for folder, modules in folders.items()
    )


def one_by_one(
    listed: list[tuple[str, str, frozenset[str]]],
    kind: str,
    change: Callable[[Project, str], object],
) -> list[tuple]:
    """A change for each name of a list, in the row that names them all."""
    return [
        (
            row.format(in_words(names)),
            f"{kind}-{name}",
            functools.partial(change, name=name),
            runs,
        )
        for row, names, runs in listed
        for name in names.split()
    ]


def change_module(project: Project, name: str) -> None:
    """Add a statement, which changes what the module means."""
    project.append(f"src/rlvr/{name}.py", "\n_CHANGED = True\n")


def install(project: Project, name: str) -> None:
    """As if another release of a package were installed."""
    info = project.folder / "src" / f"{name}-99.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 99.0\n")


COSMETIC = "a comment, a docstring, layout"
GRPO = "src/rlvr/methods/grpo.py"
ENGINE = "src/rlvr/policy/engines/compiled/engine.c"
CODE = [
    *one_by_one(MODULES, "code", change_module),
    *one_by_one(PACKAGES, "package", install),
    (COSMETIC, "comment", lambda p: p.append(GRPO, "\n# A remark.\n"), jobs()),
    (COSMETIC, "blank-lines", lambda p: p.edit(GRPO, "class Batch", "\n\nclass Batch"), jobs()),
    (
        COSMETIC,
        "docstring",
        lambda p: p.edit(GRPO, '"""GRPO on', '"""Once more: GRPO on'),
        jobs(),
    ),
    (
        "a helper that only other helpers import",
        "two-imports-away",
        lambda p: p.edit("src/rlvr/task/streams.py", 'f"{seed}', 'f"again{seed}'),
        jobs(*ALL),
    ),
    (
        "`engine.c`",
        "engine-c",
        lambda p: p.edit(ENGINE, "(real)1e-5", "(real)2e-5"),
        jobs(*ALL),
    ),
    (COSMETIC, "comment-in-c", lambda p: p.append(ENGINE, "\n/* A remark. */\n"), jobs()),
    (
        "`requirements.lock`, before `make` installs it",
        "lock",
        lambda p: p.edit("requirements.lock", "torch==", "torch==99."),
        jobs(),
    ),
    (
        "memory, run time or threads of a rule",
        "resources",
        lambda p: p.edit("workflow/rules/grpo.smk", "mem_mb=1000", "mem_mb=2000"),
        jobs(),
    ),
    (
        "the command of a rule",
        "command",
        lambda p: p.edit("workflow/rules/table.smk", "--table-out", " --table-out"),
        jobs(*FROM_TABLES),
    ),
]


# --- Files ----------------------------------------------------------------------------------------

PAIRS = "preferences/teacher=weak/labels=truthful/pairs=30/seed=1"
RUN = "grpo/recipe=base/teacher=weak/beta=0/seed=1"


def rewrite(path: Path, keep_time: bool = False) -> None:
    """Other bytes of the same kind: the file twice over."""
    times = (path.stat().st_atime, path.stat().st_mtime)
    path.write_bytes(path.read_bytes() * 2)
    if keep_time:
        os.utime(path, times)


def forget_snakemake(project: Project) -> None:
    """A fresh clone into which somebody copied the results with their times."""
    shutil.rmtree(project.folder / ".snakemake")


FILES = [
    ("nothing", "nothing", lambda p: None, jobs()),
    (
        "a file touched",
        "touched-result",
        lambda p: p.result(f"{RUN}/metrics.parquet").touch(),
        jobs(),
    ),
    ("a file touched", "touched-code", lambda p: (p.folder / GRPO).touch(), jobs()),
    ("the results copied into a fresh clone (`cp -a`)", "fresh-clone", forget_snakemake, jobs()),
    (
        "a log or a benchmark file deleted",
        "log-deleted",
        lambda p: shutil.rmtree(p.result("logs")),
        jobs(),
    ),
    (
        "an SFT policy deleted",
        "policy-deleted",
        lambda p: p.result("sft/teacher=weak/seed=2/policy.safetensors").unlink(),
        jobs("sft weak/2", "grpo base/weak/0/2", *WEAK),
    ),
    (
        "a GRPO run's metrics or policy deleted",
        "metrics-deleted",
        lambda p: p.result(f"{RUN}/metrics.parquet").unlink(),
        jobs("grpo base/weak/0/1", *WEAK),
    ),
    (
        "a GRPO run's metrics or policy deleted",
        "last-policy-deleted",
        lambda p: p.result(f"{RUN}/policy.safetensors").unlink(),
        jobs("grpo base/weak/0/1", *WEAK),
    ),
    (
        "pairs deleted, those to learn from or the fresh ones",
        "pairs-deleted",
        lambda p: p.result(f"{PAIRS}/fresh.parquet").unlink(),
        jobs(
            "preferences weak/truthful/30/1",
            "reward_model learned_800/*",
            "grpo learned_800/*",
            "grpo learned_800_loss/*",
            "dpo *",
            "table learned_*",
            "figure fig6*",
            *DPO,
        ),
    ),
    (
        "a reward model deleted",
        "reward-model-deleted",
        lambda p: p.result(
            "reward_model/reward=biased_4000/teacher=weak/seed=1/model.safetensors"
        ).unlink(),
        jobs(
            "reward_model biased_4000/*",
            "grpo biased_4000/*",
            "table biased_reward",
            "figure fig6*",
            "claims",
        ),
    ),
    (
        "a table deleted",
        "table-deleted",
        lambda p: p.result("tables/weak_start.parquet").unlink(),
        jobs(*WEAK),
    ),
    (
        "a figure deleted, as PDF or PNG",
        "figure-deleted",
        lambda p: p.result(f"{FIGURES[0]}.png").unlink(),
        jobs(f"figure {FIGURES[0]}"),
    ),
    (
        "a GRPO run's metrics written over by hand",
        "metrics-rewritten",
        lambda p: rewrite(p.result(f"{RUN}/metrics.parquet")),
        jobs(*WEAK),
    ),
]


# --- What Snakemake cannot see --------------------------------------------------------------------

UNSEEN = [
    (
        "a result written over by hand with its old time kept (`cp -p`, `rsync -a`)",
        "rewritten-with-old-time",
        lambda p: rewrite(p.result(f"{RUN}/metrics.parquet"), keep_time=True),
        jobs(),
    ),
    (
        "a setting or code, after results were copied without `.snakemake/`",
        "setting-in-a-fresh-clone",
        several(forget_snakemake, setting("grpo.epochs", 3)),
        jobs(),
    ),
]

CHANGES = [Change(*change) for change in [*FILES, *SETTINGS, *RUNS, *CODE]]
UNSEEN_CHANGES = [Change(*change) for change in UNSEEN]


def marks(runs: frozenset[str]) -> tuple[str, ...]:
    """For each rule: ● all its jobs run again, ◐ those concerned, or nothing."""
    of_rule = [{job for job in JOBS if job.split()[0] == rule} for rule in STAGES]
    mine = [{job for job in runs if job.split()[0] == rule} for rule in STAGES]
    return tuple(
        "●" if jobs_ and has == jobs_ else "◐" if has else ""
        for jobs_, has in zip(of_rule, mine, strict=True)
    )


def as_markdown() -> str:
    """The README's table."""
    rows: dict[str, set[tuple]] = {}
    for change in CHANGES:
        rows.setdefault(change.row, set()).add(marks(change.runs))
    lines = [
        f"| you change | {' | '.join(STAGES.values())} |",
        f"|---|{':-:|' * len(STAGES)}",
    ]
    for row, distinct in rows.items():
        (cells,) = distinct  # else the row says two things
        lines.append(f"| {row} | {' | '.join(cells)} |")
    unseen = [f"- {change.row}" for change in UNSEEN_CHANGES]
    return "\n".join(
        [
            *lines,
            "",
            "● every job of that rule; ◐ the jobs concerned; empty: none.",
            "",
            "What Snakemake cannot see, so that nothing runs again:",
            "",
            *dict.fromkeys(unseen),
        ]
    )


if __name__ == "__main__":
    print(as_markdown())
