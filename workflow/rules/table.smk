rule table:
    """Join the metrics of a study's runs into one table."""
    input:
        lambda wildcards: collect(
            "results/{run.path}/metrics.parquet", run=settings.runs(wildcards.study)
        ),
    output:
        table="results/tables/{study}.parquet",
    log:
        "results/logs/tables/{study}.log",
    benchmark:
        "results/benchmarks/tables/{study}.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        # The study, not the list of its files: a shell command has room for some 1,600 paths.
        study=lambda wildcards: flags(settings.study_job(wildcards.study)),
        runs=subpath(input[0], ancestor=6),
        code=source_digest("rlvr.results.table"),
        packages=package_versions("rlvr.results.table"),
    shell:
        "python -m rlvr.results.table {params.study} --runs-in {params.runs}"
        " --table-out {output.table} > {log} 2>&1"
