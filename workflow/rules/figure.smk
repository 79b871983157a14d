include: "captions.smk"


rule figure:
    """Draw one figure from the tables of its studies, as PDF and as PNG."""
    input:
        tables=lambda wildcards: collect(
            "results/tables/{study}.parquet", study=settings.figure(wildcards.figure).studies
        ),
    output:
        pdf="results/{figure}.pdf",
        png=report(
            "results/{figure}.png",
            caption="../report/figure.rst",
            category="Figures",
            labels=lambda wildcards: {"figure": about(wildcards.figure)[0]},
        ),
    log:
        "results/logs/figures/{figure}.log",
    benchmark:
        "results/benchmarks/figures/{figure}.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        iterations=lambda wildcards: settings.figure(wildcards.figure).iterations,
        code=lambda wildcards: source_digest(f"rlvr.figures.{wildcards.figure}"),
        packages=lambda wildcards: package_versions(f"rlvr.figures.{wildcards.figure}"),
        # For the report alone. Params that take `input` draw nothing again when they change.
        shows=lambda wildcards, input: about(wildcards.figure)[1],
        runs=lambda wildcards, input: runs_behind(wildcards.figure),
    shell:
        "python -m rlvr.figures.{wildcards.figure} {input.tables}"
        " --iterations {params.iterations}"
        " --pdf-out {output.pdf} --png-out {output.png} > {log} 2>&1"
