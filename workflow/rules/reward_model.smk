rule reward_model:
    """Train a reward model on labelled pairs, from an SFT policy."""
    input:
        known("reward_model/reward={reward}/teacher={teacher}/seed={seed}"),
        unpack(pairs_of("reward_model/reward={reward}/teacher={teacher}/seed={seed}")),
        sft_policy=SFT_POLICY,
    output:
        model="results/reward_model/reward={reward}/teacher={teacher}/seed={seed}/model.safetensors",
        metrics="results/reward_model/reward={reward}/teacher={teacher}/seed={seed}/metrics.parquet",
    log:
        "results/logs/reward_model/reward={reward}/teacher={teacher}/seed={seed}.log",
    benchmark:
        "results/benchmarks/reward_model/reward={reward}/teacher={teacher}/seed={seed}.jsonl"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        gpu=GPU,
    params:
        settings=lambda wildcards: flags(REWARD_MODEL_JOBS[wildcards.reward]),
        code=lambda wildcards: source_digest(
            "rlvr.methods.reward_model", *REWARD_MODEL_JOBS[wildcards.reward].modules()
        ),
        packages=lambda wildcards: package_versions(
            "rlvr.methods.reward_model", *REWARD_MODEL_JOBS[wildcards.reward].modules()
        ),
    shell:
        "python -m rlvr.methods.reward_model {params.settings}"
        " --run.reward {wildcards.reward} --run.teacher {wildcards.teacher}"
        " --run.seed {wildcards.seed}"
        " --sft-policy {input.sft_policy} --pairs {input.pairs} --fresh-pairs {input.fresh}"
        " --model-out {output.model} --metrics-out {output.metrics} > {log} 2>&1"
