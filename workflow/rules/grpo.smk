rule grpo:
    """Train a policy by GRPO against the verifier, from an SFT policy."""
    input:
        known_run,
        sft_policy=rules.sft.output.policy,
    output:
        policy="results/grpo/recipe={recipe}/teacher={teacher}/beta={beta}/seed={seed}/policy.safetensors",
        metrics="results/grpo/recipe={recipe}/teacher={teacher}/beta={beta}/seed={seed}/metrics.parquet",
    log:
        "results/logs/grpo/recipe={recipe}/teacher={teacher}/beta={beta}/seed={seed}.log",
    benchmark:
        "results/benchmarks/grpo/recipe={recipe}/teacher={teacher}/beta={beta}/seed={seed}.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
        gpu=GPU,
    params:
        settings=lambda wildcards: GRPO_FLAGS[wildcards.recipe],
        code=source_digest("rlvr.grpo"),
        packages=package_versions("rlvr.grpo"),
    shell:
        "python -m rlvr.grpo {params.settings}"
        " --run.recipe {wildcards.recipe} --run.teacher {wildcards.teacher}"
        " --run.beta {wildcards.beta} --run.seed {wildcards.seed}"
        " --sft-policy {input.sft_policy}"
        " --policy-out {output.policy} --metrics-out {output.metrics} > {log} 2>&1"
