import yaml

# Its text, not its path: braces in the path of an input would be taken for wildcards.
LOCK = Path(workflow.source_path("../../requirements.lock")).read_text(encoding="utf-8")


rule record:
    """Write down the settings and package versions that the results were made with."""
    output:
        config="results/config.yaml",
        lock="results/requirements.lock",
    log:
        "results/logs/record.log",
    benchmark:
        "results/benchmarks/record.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        config=yaml.safe_dump(settings.model_dump(exclude_unset=True), sort_keys=False),
        lock=LOCK,
    shell:
        "(printf %s {params.lock:q} > {output.lock} && printf %s {params.config:q} > {output.config})"
        " > {log} 2>&1"


rule archive:
    """Pack all results, with Snakemake's records of them, for somebody who has this workflow."""
    input:
        rules.all.input,
        **rules.record.output,
    output:
        "rlvr-results.tar.gz",
    log:
        "results/logs/archive.log",
    benchmark:
        "results/benchmarks/archive.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        results=subpath(input.config, parent=True),
    shell:
        "tar -czf {output} {params.results} .snakemake/metadata > {log} 2>&1"
