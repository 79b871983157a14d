"""It runs wherever it is put, and does nothing but what it was asked for."""

import ast
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from helpers import CPU, ROOT, SMALL, TINY, grpo_job, sft_settings
from reruns import CHANGES, FIGURES, Project, jobs
from tiny_workflow import Workflow, copy_of_project, importing_workflow

from rlvr.config.methods.sft import SftJob
from rlvr.config.settings.teachers import TeacherSettings
from rlvr.jobs.command_line import flags

RUN = "grpo/recipe=base/teacher=weak/beta=0/seed=1/metrics.parquet"
TARGET = "results/tables/weak_start.parquet"
ONE_SEED = {"seeds": [1]}

SFT_JOB = SftJob(
    **CPU,
    policy=SMALL,
    teacher=TeacherSettings(truth_probability=0.3),
    sft=sft_settings(steps=2, batch_size=4),
)
GRPO_JOB = grpo_job(iterations=2, evaluate_every=1)
SFT = (
    f"rlvr.methods.sft {flags(SFT_JOB)} --run.teacher weak --run.seed 1"
    " --policy-out out/s.safetensors --metrics-out out/s.parquet"
)
GRPO = (
    f"rlvr.methods.grpo {flags(GRPO_JOB)} --run.method grpo --run.recipe base --run.teacher weak"
    " --run.beta 0 --run.seed 1"
    " --sft-policy out/s.safetensors --policy-out out/g.safetensors --metrics-out out/g.parquet"
)


def succeeded(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 0, done.stdout + done.stderr


def test_another_directory(finished, tmp_path):
    elsewhere = tmp_path / "some where"
    workflow = Workflow(elsewhere / "work")
    workflow.folder.mkdir(parents=True)
    done = subprocess.run(
        workflow.command(overlay=ONE_SEED, targets=[TARGET]),
        cwd=elsewhere,
        capture_output=True,
        text=True,
    )
    succeeded(done)
    assert workflow.contents()[f"results/{RUN}"] == finished.contents()[f"results/{RUN}"]
    assert [path.name for path in elsewhere.iterdir()] == ["work"]


def test_a_module_of_another_workflow(finished, tmp_path):
    """With a prefix, beside rules of its own, and with its own config."""
    config = yaml.safe_load((copy_of_project(tmp_path / "clone") / "config.yaml").read_text())
    figure = "results/fig1_rlvr_overturns.pdf"
    workflow = importing_workflow(tmp_path, config | ONE_SEED, figure)
    done = subprocess.run(workflow.command(), capture_output=True, text=True)
    succeeded(done)
    made = tmp_path / "teaching/results" / RUN
    assert made.read_bytes() == finished.contents()[f"results/{RUN}"]
    assert not (tmp_path / "results").exists()


def test_a_module_from_a_git_repository(finished, tmp_path):
    """As snakedeploy sets it up, with a copy of config/; `github(...)` works as `git+file` does."""
    repository = copy_of_project(tmp_path / "repository")
    for command in ("init --quiet", "add .", "commit --quiet --message x", "tag v1"):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *identity, *command.split()], cwd=repository, check=True)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow/Snakefile").write_text(
        f"""
configfile: "config/config.yaml"

module rlvr:
    snakefile: "git+file://{repository}/workflow/Snakefile@v1"
    config: config

use rule * from rlvr
"""
    )
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--configfile", TINY, "--"]
    cache = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    succeeded(
        subprocess.run(
            [*command, f"results/{RUN}"], cwd=tmp_path, env=cache, capture_output=True, text=True
        )
    )
    assert (tmp_path / "results" / RUN).read_bytes() == finished.contents()[f"results/{RUN}"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The built package."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    succeeded(subprocess.run([*pip, "wheel", *options, ROOT], capture_output=True, text=True))
    (built,) = folder.glob("*.whl")
    return built


def test_an_installed_wheel(finished, wheel, tmp_path):
    """The package alone in a folder of its own, and the workflow's files elsewhere."""
    installed = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-index", "--target", installed]
    succeeded(subprocess.run([*pip, "install", *options, wheel], capture_output=True, text=True))
    folder = copy_of_project(tmp_path / "clone")
    shutil.rmtree(folder / "src")
    workflow = Workflow(folder, project=folder, configs=[])
    done = subprocess.run(
        workflow.command(overlay=ONE_SEED, targets=[TARGET]),
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    succeeded(done)
    assert workflow.contents()[f"results/{RUN}"] == finished.contents()[f"results/{RUN}"]


def test_an_unpacked_sdist_is_a_clone(finished, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory"]
    succeeded(subprocess.run([*build, tmp_path], cwd=ROOT, capture_output=True, text=True))
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as tar:
        tar.extractall(tmp_path, filter="data")
    project = tmp_path / built.name.removesuffix(".tar.gz")
    workflow = Workflow(project, project=project)
    shutil.copytree(finished.folder / "results", project / "results", dirs_exist_ok=True)
    shutil.copytree(finished.folder / ".snakemake", project / ".snakemake")
    assert workflow.would_run() == set()
    assert (project / "config/config.yaml").read_bytes() == (ROOT / "config.yaml").read_bytes()
    for tool in ("Makefile", ".ci/run", "profiles/slurm/profile.yaml", "docs/how-to.md"):
        assert (project / tool).exists(), tool


def test_stages_write_only_where_they_are_told(scratch, tmp_path, monkeypatch):
    """Run by hand, all of them: nothing else in the folder, at home or among temporary files."""
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    for folder in (home, temporary):
        folder.mkdir()
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("TMPDIR", str(temporary))
    tables = "results/tables/weak_start.parquet results/tables/cold_start.parquet"
    stages = [
        f"rlvr.figures.{FIGURES[2]} {tables} --iterations 4"
        " --pdf-out out/a.pdf --png-out out/a.png",
        f"rlvr.claims.ledger {tables} --confidence 0.95 --benchmarks-in results/benchmarks"
        " --parquet-out out/c.parquet --markdown-out out/c.md --html-out out/c.html",
        "rlvr.results.table --methods grpo --recipes base --teachers weak --betas 0 --seeds 1"
        " --runs-in results --table-out out/t.parquet",
        SFT,
        GRPO,
    ]
    before = set(scratch.folder.rglob("*"))
    for stage in stages:
        succeeded(scratch.stage(*shlex.split(stage)))
    made = {str(p.relative_to(scratch.folder)) for p in set(scratch.folder.rglob("*")) - before}
    files = ["a.pdf", "a.png", "c.parquet", "c.md", "c.html", "t.parquet", "s.parquet", "g.parquet"]
    files += ["s.safetensors", "g.safetensors"]
    assert made == {"out", *(f"out/{name}" for name in files)}
    # Matplotlib alone keeps a list of fonts in the user's cache, as wherever it is used.
    assert {path.relative_to(home).parts[0] for path in home.rglob("*")} <= {"matplotlib", ".cache"}
    assert list(temporary.iterdir()) == []


def test_nothing_is_loaded_by_pickle():
    """Nor run from text: no module of ours so much as mentions the ways to do it."""
    forbidden = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}
    forbidden |= {"eval", "exec", "read_pickle", "allow_pickle", "unpickle"}
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [
                getattr(node, field, None) for field in ("id", "attr", "arg", "module", "name")
            ]
            assert not forbidden & set(filter(None, names)), f"{path}: {names}"
            loads = isinstance(node, ast.Attribute) and node.attr == "load"
            assert not (loads and ast.unparse(node.value) in ("torch", "np")), path


@pytest.fixture(scope="module")
def archive(finished, tmp_path_factory) -> Path:
    """What `make archive` makes of the finished tiny workflow."""
    folder = tmp_path_factory.mktemp("sender") / "work"
    shutil.copytree(finished.folder, folder)
    succeeded(Workflow(folder).snakemake(targets=["rlvr-results.tar.gz"]))
    return folder / "rlvr-results.tar.gz"


@pytest.fixture
def recipient(archive, tmp_path) -> Workflow:
    """A fresh clone into which somebody unpacked the archive."""
    folder = copy_of_project(tmp_path / "recipient")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return Workflow(folder, project=folder, configs=[])


def test_an_archive_holds_all_that_was_made_and_how(recipient, finished):
    assert recipient.products().items() >= finished.products().items()
    recorded = yaml.safe_load((recipient.folder / "results/config.yaml").read_text())
    assert recorded == yaml.safe_load((recipient.folder / "config.yaml").read_text())
    lock = (recipient.folder / "results/requirements.lock").read_bytes()
    assert lock == (ROOT / "requirements.lock").read_bytes()


def test_whoever_unpacks_an_archive_draws_without_training(recipient):
    assert recipient.would_run() == set()
    for name in FIGURES:
        (recipient.folder / f"results/{name}.pdf").unlink()
    assert recipient.would_run() == jobs("figure *")
    succeeded(recipient.snakemake())
    assert (recipient.folder / f"results/{FIGURES[0]}.pdf").exists()


@pytest.mark.parametrize(
    "name", ["recipes.short", "code-methods/grpo", "code-results/table", "package-numpy"]
)
def test_edits_after_unpacking_are_noticed(recipient, name):
    (change,) = [change for change in CHANGES if change.name == name]
    change.make(Project(recipient.folder))
    assert recipient.would_run() == change.runs


def test_another_config_than_the_sender_s_is_noticed(recipient):
    """The full-size config of this project: everything is to be made again, by its own settings."""
    shutil.copy(ROOT / "config.yaml", recipient.folder / "config.yaml")
    would_run = recipient.would_run()
    assert "sft weak/42" in would_run
    assert not would_run & {"sft weak/1", "grpo base/weak/0/1"}
    assert {f"figure {name}" for name in FIGURES} <= would_run


# --- Where nothing can be written -----------------------------------------------------------------


def in_a_small_world(
    workflow: Workflow, prepare: str, command: list
) -> subprocess.CompletedProcess:
    """Run a command where `results/` lies on a file system of its own; skip where we may not."""
    script = f"""
        mkdir results.small && mount -t tmpfs -o size=8m none results.small || exit 99
        cp -a results/. results.small && mount --bind results.small results || exit 98
        {prepare}
        {shlex.join(map(str, command))}
        code=$?
        rm -f results/filler; mkdir after && cp -a results/. after
        exit $code
    """
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(
        unshare, cwd=workflow.folder, capture_output=True, text=True, env=workflow.environment
    )
    if done.returncode == 99 or done.stderr.startswith("unshare: "):
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode != 98, done.stderr  # results do not fit
    return done


WORLDS = [
    ("dd if=/dev/zero of=results/filler bs=1k 2>/dev/null", "No space left on device"),
    ("mount -o remount,bind,ro results", "Read-only file system"),
]
SNAKEMAKE_SAYS = {
    "No space left on device": "No space left in results/. Make room, then run again.",
    "Read-only file system": "Write-protected output files for rule table",
}


@pytest.mark.parametrize(("prepare", "reason"), WORLDS, ids=["full", "read-only"])
@pytest.mark.parametrize("stage", ["sft", "table", "claims", "figure"])
def test_a_stage_says_where_it_could_not_write(scratch, prepare, reason, stage):
    table = "results/tables/weak_start.parquet"
    command, target = {
        "sft": (SFT.replace("out/", "results/"), "results/s.safetensors"),
        "table": (
            "rlvr.results.table --methods grpo --recipes base --teachers weak --betas 0 --seeds 1"
            f" --runs-in results --table-out {table}",
            table,
        ),
        "claims": (
            f"rlvr.claims.ledger {table} --confidence 0.95 --benchmarks-in results/benchmarks"
            " --parquet-out results/claims.parquet --markdown-out results/claims.md"
            " --html-out results/claims.html",
            "results/claims.parquet",
        ),
        "figure": (
            f"rlvr.figures.{FIGURES[0]} {table} --iterations 4"
            f" --pdf-out results/{FIGURES[0]}.pdf --png-out results/{FIGURES[0]}.png",
            f"results/{FIGURES[0]}.pdf",
        ),
    }[stage]
    before = scratch.contents()
    command = [sys.executable, "-m", *shlex.split(command)]
    done = in_a_small_world(scratch, prepare, command)
    assert done.returncode == 1, done.stderr
    (error,) = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    assert error.startswith(f"error: {target}: could not be written: {reason}")
    after = Workflow(scratch.folder / "after")
    after = {f"results/{p.relative_to(after.folder)}": p.read_bytes()
             for p in after.folder.rglob("*") if p.is_file()}  # fmt: skip
    assert after == before


@pytest.mark.parametrize(("prepare", "reason"), WORLDS, ids=["full", "read-only"])
def test_the_workflow_recovers_once_it_can_write(scratch, prepare, reason):
    before = scratch.products()
    overlay = {"seeds": [1, 2, 3]}
    command = scratch.command(overlay=overlay, targets=["results/tables/weak_start.parquet"])
    done = in_a_small_world(scratch, prepare, command)
    assert done.returncode != 0
    assert SNAKEMAKE_SAYS[reason] in done.stdout + done.stderr
    succeeded(scratch.snakemake())  # the world as it was before: nothing was damaged
    assert scratch.products() == before
