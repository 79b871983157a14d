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

STAGES = {"sft": "SFT", "grpo": "GRPO", "table": "tables", "figure": "figures", "claims": "claims"}
FIGURES = ["fig1_rlvr_overturns", "fig2_unhackable_reward", "fig3_cold_start"]

# The jobs of tests/tiny.yaml, by rule and wildcards.
JOBS = [
    *(f"sft {teacher}/{seed}" for teacher in ("weak", "cold") for seed in (1, 2)),
    "sft half/1",
    *(f"grpo {arm}/0/{seed}" for arm in ("base/weak", "short/cold") for seed in (1, 2)),
    "grpo short/cold/0.04/1",
    *(f"grpo short/half/{beta}/1" for beta in ("0", "0.04")),
    *(f"grpo large/{t}/{b}/1" for t in ("cold", "half") for b in ("0", "0.04")),
    *(f"table {study}" for study in ("weak_start", "cold_start", "extra")),
    *(f"figure {figure}" for figure in FIGURES),
    "claims",
]


def jobs(*patterns: str) -> frozenset[str]:
    """The jobs that match, and those named in full that the tiny config does not have."""
    found = {p: {job for job in JOBS if fnmatch(job, p)} or {p} for p in patterns}
    assert all("*" not in job for matches in found.values() for job in matches), patterns
    return frozenset(itertools.chain(*found.values()))


READERS = ("figure *", "claims")
FROM_TABLES = ("table *", *READERS)
FROM_GRPO = ("grpo *", *FROM_TABLES)
ALL = ("sft *", *FROM_GRPO)
WEAK = ("table weak_start", *READERS)  # what follows from a run of the weak start
COLD = ("table cold_start", "figure fig3_cold_start", "claims")
EXTRA = ("table extra", "claims")


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


NEW_STUDY = {"recipes": ["base"], "teachers": ["weak"], "betas": [0], "seeds": [1]}

SETTINGS = [
    ("a setting of `policy` or `sft`", "policy.width", setting("policy.width", 32), jobs(*ALL)),
    ("a setting of `policy` or `sft`", "sft.steps", setting("sft.steps", 31), jobs(*ALL)),
    ("`device`", "device", setting("device", "auto"), jobs(*ALL)),
    (
        "a setting of one teacher, whose runs no figure shows",
        "teachers.half",
        setting("teachers.half.truth_probability", 0.6),
        jobs("sft half/1", "grpo */half/*", *EXTRA),
    ),
    (
        "a setting of one teacher",
        "teachers.cold",
        setting("teachers.cold.truth_probability", 0.1),
        jobs("sft cold/*", "grpo */cold/*", *COLD, *EXTRA),
    ),
    (
        "a setting of `grpo` or `evaluation`",
        "grpo.learning_rate",
        setting("grpo.learning_rate", 0.01),
        jobs(*FROM_GRPO),
    ),
    (
        "a setting of `grpo` or `evaluation`",
        "evaluation.every",
        setting("evaluation.every", 3),
        jobs(*FROM_GRPO),
    ),
    (
        "a setting of `grpo` that some recipes override",
        "grpo.iterations",
        setting("grpo.iterations", 7),
        jobs("grpo base/*", "grpo large/*", *WEAK, *EXTRA),
    ),
    (
        "a setting of one recipe",
        "recipes.short",
        setting("recipes.short.iterations", 5),
        jobs("grpo short/*", *COLD, *EXTRA),
    ),
    (
        "a setting of one recipe, whose runs no figure shows",
        "recipes.large",
        setting("recipes.large.group_size", 16),
        jobs("grpo large/*", *EXTRA),
    ),
    *(
        (
            "a figure's settings",
            f"figures.{figure}",
            setting(f"figures.{figure}.iterations", 3),
            jobs(f"figure {figure}"),
        )
        for figure in FIGURES
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
RECIPE = {"clip_epsilon": 0.1}

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
            setting("teachers.bold", TEACHER),
            setting("studies.extra.teachers", ["cold", "half", "bold"]),
        ),
        jobs(
            "sft bold/1",
            *(f"grpo {r}/bold/{b}/1" for r in ("short", "large") for b in ("0", "0.04")),
            *EXTRA,
        ),
    ),
    (
        "a recipe or a beta added to a study",
        "recipes",
        several(
            setting("recipes.narrow", RECIPE),
            setting("studies.extra.recipes", ["short", "large", "narrow"]),
        ),
        jobs(*(f"grpo narrow/{t}/{b}/1" for t in ("cold", "half") for b in ("0", "0.04")), *EXTRA),
    ),
    (
        "a recipe or a beta added to a study",
        "betas",
        setting("studies.extra.betas", [0, 0.04, 0.1]),
        jobs(
            *(f"grpo {r}/{t}/0.1/1" for r in ("short", "large") for t in ("cold", "half")), *EXTRA
        ),
    ),
    (
        "a study added to those that the claims read, of runs that are there",
        "studies",
        several(
            setting("studies.new", NEW_STUDY),
            setting("claims.studies", ["weak_start", "cold_start", "extra", "new"]),
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
        setting("studies.new", NEW_STUDY),
        jobs(),
    ),
    ("a seed removed", "seeds-removed", setting("seeds", [1]), jobs(*WEAK, *COLD)),
    (
        "a teacher, a recipe or a beta removed from a study",
        "teachers-removed",
        several(setting("studies.extra.teachers", ["cold"]), setting("teachers.half", None)),
        jobs(*EXTRA),
    ),
    (
        "a teacher, a recipe or a beta removed from a study",
        "recipes-removed",
        several(setting("studies.extra.recipes", ["short"]), setting("recipes.large", None)),
        jobs(*EXTRA),
    ),
    (
        "a teacher, a recipe or a beta removed from a study",
        "betas-removed",
        setting("studies.extra.betas", [0]),
        jobs(*EXTRA),
    ),
    (
        "a study removed",
        "studies-removed",
        several(
            setting("claims.studies", ["weak_start", "cold_start"]), setting("studies.extra", None)
        ),
        jobs("claims"),
    ),
]


# --- Code and packages ----------------------------------------------------------------------------

MODULES = [
    (
        "code of {}",
        "__init__ adam addition command_line errors evaluation linear policy prefix_tree records "
        "runs sft source_digest streams values",
        jobs(*ALL),
    ),
    ("code of {}", "grpo rollout schemas", jobs(*FROM_GRPO)),
    ("code of {}", "table", jobs(*FROM_TABLES)),
    ("code of {}", "arms studies theory", jobs(*READERS)),
    ("code of {}", "figures/__init__ figures/stage figures/style", jobs("figure *")),
    *(("code of one figure", f"figures/{name}", jobs(f"figure {name}")) for name in FIGURES),
    ("code of {}", "claims document_a ledger statistics", jobs("claims")),
    ("code of {}, which only hands settings on", "settings", jobs()),
]
PACKAGES = [
    ("another release of {} installed", "numpy pyarrow safetensors torch", jobs(*ALL)),
    ("another release of {} installed", "pandas", jobs(*READERS)),
    ("another release of {} installed", "matplotlib", jobs("figure *")),
    ("another release of {} installed", "scipy", jobs("claims")),
    ("another release of {} installed", "pydantic snakemake", jobs()),
]


def one_by_one(
    listed: list[tuple[str, str, frozenset[str]]],
    kind: str,
    change: Callable[[Project, str], object],
) -> list[tuple]:
    """A change for each name of a list, in the row that names them all."""
    return [
        (
            row.format(", ".join(f"`{one}`" for one in names.split())),
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
GRPO = "src/rlvr/grpo.py"
CODE = [
    *one_by_one(MODULES, "code", change_module),
    *one_by_one(PACKAGES, "package", install),
    (COSMETIC, "comment", lambda p: p.append(GRPO, "\n# A remark.\n"), jobs()),
    (COSMETIC, "blank-lines", lambda p: p.edit(GRPO, "class Batch", "\n\nclass Batch"), jobs()),
    (
        COSMETIC,
        "docstring",
        lambda p: p.edit(GRPO, '"""GRPO against', '"""Once more: GRPO against'),
        jobs(),
    ),
    (
        "a helper that only other helpers import",
        "two-imports-away",
        lambda p: p.edit("src/rlvr/streams.py", 'f"{seed}', 'f"again{seed}'),
        jobs(*ALL),
    ),
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
        lambda p: p.result("sft/teacher=weak/seed=1/policy.safetensors").unlink(),
        jobs("sft weak/1", "grpo base/weak/0/1", *WEAK),
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
        several(forget_snakemake, setting("grpo.learning_rate", 0.01)),
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
