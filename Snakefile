# The workflow is in workflow/Snakefile; this one is for `snakemake` without further ado.
include: "workflow/Snakefile"


workflow.default_target = "all"  # an include does not pass its own on
