rule claims:
    """Measure every claim of the document against the tables, with spread and verdict."""
    input:
        tables=collect("results/tables/{study}.parquet", study=settings.claims.studies),
    output:
        parquet="results/claims.parquet",
        markdown="results/claims.md",
        html=report(
            "results/claims.html",
            caption="../report/claims.rst",
            category="Claims",
            labels={"table": "All claims and verdicts"},
        ),
    log:
        "results/logs/claims.log",
    benchmark:
        "results/benchmarks/claims.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        confidence=settings.claims.confidence,
        results=subpath(output.parquet, parent=True),
        code=source_digest("rlvr.claims.ledger"),
        packages=package_versions("rlvr.claims.ledger"),
    shell:
        "python -m rlvr.claims.ledger {input.tables}"
        " --confidence {params.confidence} --benchmarks-in {params.results}/benchmarks"
        " --parquet-out {output.parquet} --markdown-out {output.markdown}"
        " --html-out {output.html} > {log} 2>&1"
