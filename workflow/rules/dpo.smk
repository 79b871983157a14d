rule dpo:
    """Train a policy by DPO on labelled pairs, from an SFT policy."""
    input:
        known(f"dpo/{RUN}"),
        unpack(pairs_of(f"dpo/{RUN}")),
        sft_policy=SFT_POLICY,
    output:
        policy="results/dpo/recipe={recipe}/teacher={teacher}/beta={beta}/seed={seed}/policy.safetensors",
        metrics="results/dpo/recipe={recipe}/teacher={teacher}/beta={beta}/seed={seed}/metrics.parquet",
    log:
        "results/logs/dpo/recipe={recipe}/teacher={teacher}/beta={beta}/seed={seed}.log",
    benchmark:
        "results/benchmarks/dpo/recipe={recipe}/teacher={teacher}/beta={beta}/seed={seed}.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
        gpu=GPU,
    params:
        settings=lambda wildcards: RUN_FLAGS[wildcards.recipe],
        code=lambda wildcards: source_digest(*settings.modules(wildcards.recipe)),
        packages=lambda wildcards: package_versions(*settings.modules(wildcards.recipe)),
    shell:
        "python -m rlvr.methods.dpo {params.settings}"
        " --run.method dpo --run.recipe {wildcards.recipe} --run.teacher {wildcards.teacher}"
        " --run.beta {wildcards.beta} --run.seed {wildcards.seed}"
        " --sft-policy {input.sft_policy} --pairs {input.pairs} --fresh-pairs {input.fresh}"
        " --policy-out {output.policy} --metrics-out {output.metrics} > {log} 2>&1"
