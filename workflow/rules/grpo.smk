rule grpo:
    """Train a policy by GRPO on its recipe's reward, from an SFT policy."""
    input:
        known(f"grpo/{RUN}"),
        sft_policy=SFT_POLICY,
        reward_model=reward_model_of(f"grpo/{RUN}"),
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
        settings=lambda wildcards: RUN_FLAGS[wildcards.recipe],
        code=lambda wildcards: source_digest(*settings.modules(wildcards.recipe)),
        packages=lambda wildcards: package_versions(*settings.modules(wildcards.recipe)),
        reward_model=lambda wildcards, input: (
            f"--reward-model {input.reward_model}" if input.reward_model else ""
        ),
    shell:
        "python -m rlvr.methods.grpo {params.settings}"
        " --run.method grpo --run.recipe {wildcards.recipe} --run.teacher {wildcards.teacher}"
        " --run.beta {wildcards.beta} --run.seed {wildcards.seed}"
        " --sft-policy {input.sft_policy} {params.reward_model}"
        " --policy-out {output.policy} --metrics-out {output.metrics} > {log} 2>&1"
