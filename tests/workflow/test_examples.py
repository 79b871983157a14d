"""Every example of docs/reading-results.md and every step of docs/tutorial.md works as it stands.

The tiny workflow stands in for the real one; what the pages say of real results is checked against
the config and against docs/claims.md.
"""

import ast
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import yaml
from helpers import FULL_SIZE, ROOT, merge, tiny_yaml
from pypdf import PdfReader

from rlvr.claims.ledger import ALL_CLAIMS
from rlvr.claims.pages import number
from rlvr.config.runs import SftRun
from rlvr.config.settings.names import FIGURES
from rlvr.config.settings.whole import Config, load_config
from rlvr.policy.parameters import parameter_count

DOCS = ROOT / "docs"
READING = (DOCS / "reading-results.md").read_text("utf-8")
TUTORIAL = (DOCS / "tutorial.md").read_text("utf-8")
CLAIMS = (DOCS / "claims.md").read_text("utf-8")
LONGEST = 120  # seconds that a command of the tutorial may take


class Block(NamedTuple):
    """A code block of a page, and the text between the one before and it."""

    before: str
    language: str
    code: str


def blocks(page: str) -> list[Block]:
    """The page's code blocks, in order."""
    found = re.findall(r"(.*?)^```(\w+)\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    assert page.count("```") == 2 * len(found)
    return [Block(*one) for one in found]


@pytest.fixture
def tiny_config() -> dict:
    """The config that the tiny workflow runs."""
    return tiny_yaml()


# --- How to read the results ----------------------------------------------------------------------


def examples() -> dict[str, tuple[str, str]]:
    """Code and output of each example, by what it is about."""
    every = blocks(READING)
    pairs = list(zip(every[::2], every[1::2], strict=True))
    assert all((a.language, b.language) == ("python", "text") for a, b in pairs)
    names = ["duckdb", "polars", "pandas", "table anywhere", "runs anywhere"]
    names += ["claims", "provenance", "columns", "size", "answers"]
    return {name: (a.code, b.code) for name, (a, b) in zip(names, pairs, strict=True)}


EXAMPLES = examples()
LIBRARIES = ["duckdb", "polars", "pandas"]


@pytest.fixture
def run(finished, monkeypatch, capsys, config, tiny_config):
    """Runs an example on the tiny results, with more code behind it; gives what it prints."""
    last = (c.job("document_b").grpo.iterations for c in (config, load_config(tiny_config)))
    at_the_end, at_the_tiny_end = last

    def run_example(code: str, more: str = "", folder: Path = finished.folder) -> str:
        code = re.sub(rf"\b{at_the_end}\b", str(at_the_tiny_end), code)
        code = code.replace("seed=42", "seed=1")
        monkeypatch.chdir(folder)
        capsys.readouterr()
        exec(compile(code + more, "reading-results.md", "exec"), {"__name__": "example"})
        return capsys.readouterr().out

    return run_example


def accuracies(output: str) -> dict[int, float]:
    """Seeds and accuracies, however a library prints them."""
    rows = re.findall(r"^\W*(\d+)\W+(\d\.\d+)\W*$", output, re.MULTILINE)
    return {int(seed): float(accuracy) for seed, accuracy in rows}


@pytest.mark.parametrize("library", LIBRARIES)
def test_three_lines_answer_the_question(library, finished, run):
    code, shown = EXAMPLES[library]
    assert len(code.splitlines()) == 3
    assert f"import {library}" in code
    table = pd.read_parquet(finished.folder / "results/tables/partial_start.parquet")
    rows = table[(table.beta == 0.04) & (table.iteration == table.iteration.max())]
    assert accuracies(run(code)) == pytest.approx(dict(zip(rows.seed, rows.accuracy, strict=True)))
    (ours,) = re.findall(r"^\| figure 4: GRPO lifts .*?\| .*? \| (.*?) \|", CLAIMS, re.MULTILINE)
    of_the_page = accuracies(shown)
    assert list(of_the_page) == [42, 43, 44, 45, 46]
    assert " / ".join(number(value, "fraction") for value in of_the_page.values()) == ours


KEYS = '"recipe", "teacher", "beta", "seed"'


@pytest.mark.parametrize(
    ("library", "keys"),
    [
        ("duckdb", f"duckdb.sql('SELECT DISTINCT {KEYS} FROM runs').fetchall()"),
        ("polars", f"runs.select({KEYS}).unique().collect().rows()"),
        ("pandas", f"runs[[{KEYS}]].drop_duplicates().itertuples(index=False, name=None)"),
    ],
    ids=LIBRARIES,
)
def test_each_library_finds_every_run_with_its_keys_as_text_and_numbers(
    library, keys, finished, run
):
    code = "".join(EXAMPLES[library][0].splitlines(keepends=True)[:2])
    found = ast.literal_eval(run(code, f"print(list({keys}))"))
    paths = (finished.folder / "results/grpo").glob("*/*/*/*/metrics.parquet")
    named = [[part.partition("=")[2] for part in path.parts[-5:-1]] for path in paths]
    assert sorted(found) == sorted((r, t, float(beta), int(s)) for r, t, beta, s in named)
    assert {type(beta) for _, _, beta, _ in found} == {float}


def test_the_traps_are_where_the_page_says(finished, monkeypatch):
    monkeypatch.chdir(finished.folder)
    files = "results/grpo/**/metrics.parquet"
    free = f"SELECT count(*) FROM '{files}' WHERE beta = 0"
    everything = f"SELECT count(*) FROM '{files}' WHERE beta IN ('0', '0.04', '0.3')"
    assert duckdb.sql(free).fetchall() == duckdb.sql(everything).fetchall()
    assert "beta" not in pl.scan_parquet(files).collect_schema().names()
    with pytest.raises(pa.ArrowInvalid, match="safetensors"):
        pd.read_parquet("results/grpo")
    without_types = pd.read_parquet("results/grpo", ignore_prefixes=[".", "policy"])
    assert set(without_types.beta.cat.categories) == {"0", "0.04", "0.3", "1"}
    of_beta_0 = pl.scan_parquet("results/grpo/recipe=base/**/*.parquet", hive_partitioning=True)
    assert of_beta_0.collect_schema()["beta"] == pl.Int64
    assert of_beta_0.filter(pl.col("beta") < 0.04).collect().height > 0


@pytest.fixture
def run_below_keys(run, finished, tmp_path):
    """As `run`, where the project lies in a folder whose name looks like keys."""
    folder = tmp_path / "seed=7" / "beta=5"
    shutil.copytree(finished.folder / "results", folder / "results")
    return functools.partial(run, folder=folder)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("table anywhere", [("0.0", "1"), ("0.04", "1")]),
        ("runs anywhere", [("0.0", "1"), ("0.04", "1")]),
    ],
)
def test_the_way_that_is_right_everywhere(run_below_keys, name, keys):
    code, shown = EXAMPLES[name]
    for output, expected in (
        (run_below_keys(code), keys),
        (shown, [("0.0", str(s)) for s in (42, 43, 44)]),
    ):
        assert re.findall(r"(\d+\.\d+) │ +(\d+) │", output) == expected


def test_the_other_libraries_are_right_everywhere_too(run_below_keys):
    code, _ = EXAMPLES["runs anywhere"]
    more = """
import polars as pl
print(pl.scan_pyarrow_dataset(runs).select("beta", "seed").unique().collect().sort("beta").rows())
print(sorted(set(runs.to_table().to_pandas()[["beta", "seed"]].itertuples(index=False, name=None))))
import pandas as pd
table = Path("results/tables/weak_start.parquet").resolve()
print(sorted(set(pd.read_parquet(table, partitioning=None).seed)))
print(sorted(set(pl.read_parquet(table, hive_partitioning=False)["seed"])))
"""
    lines = run_below_keys(code, more).splitlines()[-4:]
    both = "[(0.0, 1), (0.0, 2), (0.04, 1), (0.3, 1), (1.0, 1)]"
    assert [sorted(ast.literal_eval(lines[0])), lines[1:]] == [
        ast.literal_eval(both),
        [both, "[1, 2]", "[1, 2]"],
    ]


def test_an_absolute_path_below_such_a_folder_is_a_trap(run_below_keys):
    """As the page says; should a library mend it, the page can be shorter."""
    code = """
import duckdb, pathlib
table = pathlib.Path("results/tables/weak_start.parquet").resolve()
print(duckdb.sql(f"SELECT DISTINCT seed FROM '{table}'").fetchall())
"""
    assert run_below_keys(code) == "[(7,)]\n"


def test_the_claims_that_fail(run):
    code, shown = EXAMPLES["claims"]
    assert run(code).splitlines()[0].split() == ["unit", "mean", "low", "high"]
    failing = [line for line in CLAIMS.splitlines() if "| **fails**" in line]
    names = [c.key for c in ALL_CLAIMS if any(f"| {c.statement}; " in line for line in failing)]
    assert len(names) == len(failing)
    assert re.findall(r"^(\S+) +\w+ +[\d.]+ +", shown, re.MULTILINE) == names


def test_provenance(run, config):
    code, shown = EXAMPLES["provenance"]
    for output, seed in ((run(code), 1), (shown, 42)):
        keys = {
            "method": "grpo",
            "recipe": "document_b",
            "teacher": "partial",
            "beta": 0.04,
            "seed": seed,
        }
        assert output.startswith(f"rlvr.methods.grpo {keys}\n")
    _, sizes, teacher = shown.splitlines()
    assert sizes.startswith(f"{config.job('document_b').grpo.group_size} completions")
    assert ast.literal_eval(teacher) == config.teachers["partial"].model_dump()


def test_units_and_meanings(run):
    code, shown = EXAMPLES["columns"]
    assert run(code) == shown


def test_weights(run):
    code, shown = EXAMPLES["size"]
    assert re.fullmatch(r"\d+ tensors, 2829 parameters\n", run(code))
    assert shown.endswith(f", {parameter_count(FULL_SIZE)} parameters\n")


def test_what_a_policy_answers(run):
    code, shown = EXAMPLES["answers"]
    for output in (run(code), shown):
        said = re.findall(r"^(rlvr\S+: 27\+35=\d+) with probability [01]\.\d{3}$", output, re.M)
        stages = ("rlvr.methods.sft", "rlvr.methods.grpo")
        assert said == [f"{stage}: 27+35={said}" for stage in stages for said in ("062", "052")]


# --- From a question to a new figure --------------------------------------------------------------


def run_in_bash(commands: str, folder: Path, environment: dict[str, str]) -> str:
    """What a block of commands prints; they stop at the first that fails, or when time is up."""
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder, env=environment, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # whatever it started holds the pipe open
            raise
    assert process.returncode == 0, output
    return output


def counts(output: str) -> dict[str, int]:
    """Jobs by rule, from Snakemake's table of them."""
    return {rule: int(n) for rule, n in re.findall(r"^(\w+) +(\d+)$", output, re.MULTILINE)}


def new_jobs(config: Config, before: Config) -> dict[str, int]:
    """The jobs behind the tutorial's figure, where all runs of another config are finished."""
    runs = set(config.runs("weak_groups"))
    starts = {SftRun(teacher=run.teacher, seed=run.seed) for run in runs}
    if "weak_groups" in before.studies:
        done = before.runs("weak_groups")
        runs -= set(done)
        starts -= {SftRun(teacher=run.teacher, seed=run.seed) for run in done}
    jobs = {"sft": len(starts - set(before.all_used())), "grpo": len(runs)}
    jobs |= {"table": 1, "figure": 1}
    return {rule: n for rule, n in jobs.items() if n} | {"total": sum(jobs.values())}


def as_after_make(folder: Path) -> None:
    """What `make` leaves beside the workflow: an environment, which here is the tests' own."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy2(ROOT / name, folder / name)
    activate = folder / ".venv/bin/activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    (folder / ".venv/installed").touch()


FEWER_SEEDS = {"betas: [0]\n": "betas: [0]\n    seeds: [1]\n", "seeds: 10\n": "seeds: [1, 3]\n"}
"""One in place of three, and then one more in place of seven: 3 is not among tiny.yaml's."""


def with_fewer_seeds(code: str) -> str:
    """A file of the tutorial, as the test writes it."""
    for seeds, fewer in FEWER_SEEDS.items():
        code = code.replace(seeds, fewer)
    return code


@pytest.mark.timeout(600)  # a dozen jobs, beside other tests
def test_the_tutorial_from_top_to_bottom(clone, raw_config, tiny_config, monkeypatch):
    monkeypatch.setattr("rlvr.config.settings.whole.FIGURES", [*FIGURES, "fig_group_size"])
    as_after_make(clone.folder)
    finished = clone.products()
    real, tiny = raw_config, tiny_config
    expected, output = [], ""
    for before, language, code in blocks(TUTORIAL):
        if language == "sh":
            activated = f"if [ -e .activated ]; then . .venv/bin/activate; fi\n{code}"
            output = run_in_bash(activated, clone.folder, clone.environment)
            if ". .venv/bin/activate" in code:
                (clone.folder / ".activated").touch()
                assert "Nothing to be done" in output
            continue
        if language == "text":
            if code.startswith("job "):
                for_real, for_tiny = expected.pop(0)
                assert counts(code) == for_real
                assert counts(output) == for_tiny
            else:  # the answer: the same lines, of other seeds
                kinds = [re.findall(r"groups_of_\d+", line) for line in code.splitlines()]
                said = output[output.rindex("seed ") :]
                assert [re.findall(r"groups_of_\d+", line) for line in said.splitlines()] == kinds
            continue
        (name,) = re.findall(r"Save\sthis\sas\s`([^`]+)`[^`]*\Z", before)
        (clone.folder / name).write_text(with_fewer_seeds(code), encoding="utf-8")
        if language == "yaml":
            was = load_config(real), load_config(tiny)
            real = merge(real, yaml.safe_load(code))
            tiny = merge(tiny, yaml.safe_load(with_fewer_seeds(code)))
            now = load_config(real), load_config(tiny)
            expected.append([new_jobs(a, b) for a, b in zip(now, was, strict=True)])
    assert not expected
    (page,) = PdfReader(clone.folder / "results/fig_group_size.pdf").pages
    text = page.extract_text()
    assert "mean of 2 seeds" in text
    assert all(f"{256 // size} groups of {size}" in text for size in (2, 8, 32))
    assert (clone.folder / "results/fig_group_size.png").exists()
    assert finished.items() <= clone.products().items()
    assert "Nothing to be done" in run_in_bash("make figures", clone.folder, clone.environment)


def test_the_tutorial_s_conclusions_stand_in_its_outputs():
    outputs = "".join(block.code for block in blocks(TUTORIAL) if block.language == "text")
    prose = re.sub(r"^```.*?^```$", "", TUTORIAL, flags=re.DOTALL | re.MULTILINE)
    quoted = re.findall(r"(?:[−\d.]+ iterations )?\[[^\]]*\d\.\d[^\]]*\](?!\()", prose)
    assert len(quoted) == 3
    for words in quoted:
        assert words.replace("−", "-") in outputs
