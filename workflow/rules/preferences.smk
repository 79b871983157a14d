rule preferences:
    """Sample pairs of completions of an SFT policy, and have them labelled."""
    input:
        known("preferences/teacher={teacher}/labels={labels}/pairs={pairs}/seed={seed}"),
        sft_policy=SFT_POLICY,
    output:
        pairs="results/preferences/teacher={teacher}/labels={labels}/pairs={pairs}/seed={seed}/pairs.parquet",
        fresh="results/preferences/teacher={teacher}/labels={labels}/pairs={pairs}/seed={seed}/fresh.parquet",
    log:
        "results/logs/preferences/teacher={teacher}/labels={labels}/pairs={pairs}/seed={seed}.log",
    benchmark:
        "results/benchmarks/preferences/teacher={teacher}/labels={labels}/pairs={pairs}/seed={seed}.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        gpu=GPU,
    params:
        settings=flags(settings.preferences_job()),
        code=source_digest("rlvr.methods.preferences", *settings.preferences_job().modules()),
        packages=package_versions("rlvr.methods.preferences", *settings.preferences_job().modules()),
    shell:
        "python -m rlvr.methods.preferences {params.settings}"
        " --run.teacher {wildcards.teacher} --run.labels {wildcards.labels}"
        " --run.pairs {wildcards.pairs} --run.seed {wildcards.seed}"
        " --sft-policy {input.sft_policy}"
        " --pairs-out {output.pairs} --fresh-out {output.fresh} > {log} 2>&1"
