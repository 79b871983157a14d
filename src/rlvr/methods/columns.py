"""The columns of a run's metrics, whatever its method: name, type, unit, meaning, written once.

Of what a method has no such quantity for, they are null. Units and meanings travel in the files'
own metadata, so that a reader needs nothing of ours.
"""

import pyarrow as pa

from rlvr.jobs.records import column

METRICS = pa.schema(
    [
        column(
            "iteration",
            pa.int64(),
            "iterations",
            "0 is the SFT policy itself; of DPO they are optimiser steps",
        ),
        column(
            "reward_mean",
            pa.float64(),
            "reward",
            "mean reward of the batch, as training saw it: the proxy, where it is not the truth",
        ),
        column(
            "success_fraction",
            pa.float64(),
            "fraction",
            "completions of the batch that are right, whatever the reward: the truth",
        ),
        column(
            "reward_counts",
            pa.list_(pa.int64()),
            "groups",
            "groups of the batch with k = 0..G right completions",
        ),
        column("zero_signal_fraction", pa.float64(), "fraction", "groups whose rewards are equal"),
        column(
            "all_wrong_fraction", pa.float64(), "fraction", "groups of which no completion is right"
        ),
        column("all_right_fraction", pa.float64(), "fraction", "groups of which all are right"),
        column(
            "kl",
            pa.float64(),
            "nats per sequence",
            "KL to the SFT policy, estimator k1: batch mean of log_probs_old - log_probs_ref",
        ),
        column(
            "entropy",
            pa.float64(),
            "nats per sequence",
            "of the next-token distributions along the sampled completions, batch mean",
        ),
        column("loss", pa.float64(), "nats per pair", "of DPO, mean of the step's pairs"),
        column(
            "log_ratio_chosen",
            pa.float64(),
            "nats",
            "log_probs - log_probs_ref of the chosen completions, mean over the fresh pairs",
        ),
        column("log_ratio_rejected", pa.float64(), "nats", "the same of the rejected ones"),
        column(
            "preference_accuracy",
            pa.float64(),
            "fraction",
            "fresh pairs whose chosen completion has the higher log-ratio: DPO's implicit reward",
        ),
        column(
            "clip_fraction",
            pa.float64(),
            "fraction",
            "ratios whose gradient the clipping removes, mean over the updates",
        ),
        column("gradient_norm", pa.float64(), "1", "before clipping, mean over the updates"),
        column(
            "accuracy",
            pa.float64(),
            "fraction",
            "greedy, exact over all prompts (over the held-out ones, if the teacher has a split)",
        ),
        column("accuracy_carry", pa.float64(), "fraction", "the same over the carry prompts"),
        column(
            "success_probability",
            pa.float64(),
            "probability",
            "of sampling the solution at the sampling temperature, mean over the same prompts",
        ),
        column(
            "success_probability_carry",
            pa.float64(),
            "probability",
            "the same over the carry prompts",
        ),
        column(
            "kl_floor",
            pa.float64(),
            "nats per sequence",
            "least KL to the SFT policy of any policy with these success probabilities, each "
            "prompt from its own, mean over the same prompts",
        ),
    ]
)
