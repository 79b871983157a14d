# The workflow: sft -> grpo -> table -> figure, claims. See README.md.
import shutil
import sys
from pathlib import Path

from snakemake.utils import min_version

from rlvr.settings import check_yaml

min_version("9.27")

# Beside this file, wherever the workflow is run from.
CONFIG_FILE = Path(workflow.current_basedir.get_path_or_uri(secret_free=False)) / "config.yaml"
check_yaml(CONFIG_FILE)  # Snakemake alone would not say where a mistake is


configfile: CONFIG_FILE


for overlay in workflow.configfiles:
    check_yaml(overlay)


onerror:
    # A job's own message cannot reach its log then.
    if shutil.disk_usage("results" if Path("results").exists() else ".").free < 2**20:
        print("error: no space left in results/. Make room, then run again.", file=sys.stderr)


OUTPUTS = ["policy.safetensors", "metrics.parquet"]  # of a training job


include: "workflow/rules/common.smk"
include: "workflow/rules/sft.smk"
include: "workflow/rules/grpo.smk"
include: "workflow/rules/table.smk"
include: "workflow/rules/figure.smk"
include: "workflow/rules/claims.smk"


rule all:
    """Every figure of the config and the ledger of claims, with all runs behind them."""
    default_target: True
    input:
        collect("results/{figure}.{kind}", figure=settings.figures, kind=["pdf", "png"]),
        rules.claims.output,
        # Named too, since Snakemake does not miss a lost file that only finished files were made of.
        collect("results/tables/{study}.parquet", study=settings.used_studies()),
        collect("results/grpo/{run.path}/{file}", run=settings.used_runs(), file=OUTPUTS),
        collect("results/sft/{run.path}/{file}", run=settings.used_starts(), file=OUTPUTS),


include: "workflow/rules/archive.smk"
