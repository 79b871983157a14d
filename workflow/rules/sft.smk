rule sft:
    """Train a policy to imitate a teacher's answers, from random weights."""
    input:
        known("sft/teacher={teacher}/seed={seed}"),
    output:
        policy="results/sft/teacher={teacher}/seed={seed}/policy.safetensors",
        metrics="results/sft/teacher={teacher}/seed={seed}/metrics.parquet",
    log:
        "results/logs/sft/teacher={teacher}/seed={seed}.log",
    benchmark:
        "results/benchmarks/sft/teacher={teacher}/seed={seed}.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        gpu=GPU,
    params:
        settings=lambda wildcards: SFT_FLAGS[wildcards.teacher],
        code=lambda wildcards: source_digest(*settings.sft_modules(wildcards.teacher)),
        packages=lambda wildcards: package_versions(*settings.sft_modules(wildcards.teacher)),
    shell:
        "python -m rlvr.methods.sft {params.settings}"
        " --run.teacher {wildcards.teacher} --run.seed {wildcards.seed}"
        " --policy-out {output.policy} --metrics-out {output.metrics} > {log} 2>&1"
