# What all rules share: the checked settings, the names that wildcards may take, the environment.
import os
import shlex

from rlvr.config.settings.whole import load_config
from rlvr.errors import UserError
from rlvr.figures.shown import check_figures
from rlvr.jobs.command_line import flags
from rlvr.jobs.digest import package_versions, source_digest

settings = load_config(config)
check_figures(settings)
SFT_FLAGS = {teacher: flags(settings.sft_job(teacher)) for teacher in settings.teachers}
REWARD_MODEL_JOBS = settings.reward_model_jobs()
RUN_FLAGS = {recipe: flags(settings.job(recipe)) for recipe in settings.recipes}
SFT_POLICY = "results/sft/teacher={teacher}/seed={seed}/policy.safetensors"
RUN = "recipe={recipe}/teacher={teacher}/beta={beta}/seed={seed}"

# Jobs use the Python that runs Snakemake, also where its environment is not activated, and find
# packages where it does, but none in the working folder. Nothing else of Python's variables reaches
# them; of all other variables, see isolation.py.
PACKAGES = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
if not all(map(os.path.isabs, PACKAGES)):
    raise UserError(
        f"PYTHONPATH is {os.pathsep.join(PACKAGES)}: jobs run in another folder, where it would "
        "mean another. Write absolute paths."
    )
PYTHON = {
    "PYTHONSAFEPATH": "1",
    "PYTHONNOUSERSITE": "1" if sys.flags.no_user_site else "",
    "PYTHONPATH": os.pathsep.join(PACKAGES),
}
PREFIX = "set -euo pipefail; PATH={}:$PATH; unset ${{!PYTHON@}}; export {}; ".format(
    shlex.quote(str(Path(sys.executable).parent)),
    " ".join(f"{name}={shlex.quote(value)}" for name, value in PYTHON.items() if value),
)
shell.prefix(PREFIX.replace("{", "{{").replace("}", "}}"))  # Snakemake formats it


# `gpu` is a resource that profiles can limit; `auto` takes what it finds and reserves nothing.
GPU = int(settings.device == "cuda")
if settings.device == "cpu" and "gpu" in workflow.global_resources:
    logger.warning(
        "A GPU is offered, but device is 'cpu': training runs on the CPU. (--config replaces the "
        "--config of a profile; then add engine=torch device=cuda to it.)"
    )


wildcard_constraints:
    teacher="[^/]+",
    recipe="[^/]+",
    beta="[^/]+",
    seed="[^/]+",
    labels="[^/]+",
    pairs="[^/]+",
    reward="[^/]+",
    study="[^/]+",
    figure="[^/]+",


def known(path):
    """No file. Refuses a job of this path that no run of a study needs, before any job starts."""

    def check(wildcards):
        settings.run_at(path.format(**wildcards))
        return []

    return check


def pairs_of(path):
    """The pairs that the run of this path learns from, and those that it is judged on."""

    def files(wildcards):
        pairs = settings.preferences_of(settings.run_at(path.format(**wildcards)))
        return {Path(file).stem: f"results/{pairs.path}/{file}" for file in pairs.files}

    return files


def reward_model_of(path):
    """The reward model that the run of this path learns from, if its reward is learned."""

    def file(wildcards):
        model = settings.reward_model_of(settings.run_at(path.format(**wildcards)))
        return f"results/{model.path}/model.safetensors" if model else []

    return file
