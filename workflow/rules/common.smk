# What all rules share: the checked settings, the names that wildcards may take, the environment.
import re
import shlex
import sys

from rlvr.command_line import flags
from rlvr.runs import decimal
from rlvr.settings import load_config
from rlvr.source_digest import source_digest

settings = load_config(config)
SFT_FLAGS = {teacher: flags(settings.sft_job(teacher)) for teacher in settings.teachers}
GRPO_FLAGS = {recipe: flags(settings.grpo_job(recipe)) for recipe in settings.recipes}

# Jobs use the Python that runs Snakemake, also where its environment is not activated.
shell.prefix(f"set -euo pipefail; PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")

# `gpu` is a resource that profiles can limit; `auto` takes what it finds and reserves nothing.
GPU = int(settings.device == "cuda")


wildcard_constraints:
    teacher="|".join(settings.teachers),
    recipe="|".join(settings.recipes),
    beta="|".join(
        re.escape(decimal(beta)) for study in settings.studies.values() for beta in study.betas
    ),
    seed="0|[1-9][0-9]{0,8}",  # any, written one way; a list of thousands would slow every rule
    study="|".join(settings.studies),
    figure="[^/]+",
