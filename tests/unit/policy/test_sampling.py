"""Sampling: the right distribution, and log-probabilities that belong to it."""

import numpy as np
import plain
import pytest
import torch
from helpers import weights_of
from scipy import stats

from rlvr.policy.sampling import rollout
from rlvr.task.addition import Additions
from rlvr.task.streams import stream

ANSWERS = torch.cartesian_prod(*[torch.arange(13)] * 3)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampled_frequencies_are_the_exact_probabilities(small_policy, temperature):
    prompt = Additions(np.array([47]), np.array([85])).prompts()
    draws = 60_000
    weights_of(small_policy)["head.weight"][:] *= 3  # less uniform than at the start
    with torch.no_grad():
        module, prompts = plain.module_of(small_policy), torch.from_numpy(prompt)
        logits = plain.completion_logits(module, prompts.expand(len(ANSWERS), -1), ANSWERS)
    probs = (logits / temperature).softmax(dim=-1)
    exact = probs.gather(-1, ANSWERS.unsqueeze(-1)).squeeze(-1).prod(dim=1)
    noise = stream(0, "grpo_completions", 1)
    sampled = rollout(small_policy, prompt.repeat(draws, axis=0), noise, temperature)
    index = (sampled.completions * np.array([169, 13, 1])).sum(axis=1)
    observed, expected = np.bincount(index, minlength=len(ANSWERS)), exact.numpy() * draws
    common = expected >= 5
    pooled = [np.append(counts[common], counts[~common].sum()) for counts in (observed, expected)]
    assert common.sum() > 20
    assert stats.chisquare(*pooled).pvalue > 0.001


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_and_entropy_are_those_of_the_sampling_policy(small_policy, temperature):
    a, b = np.arange(40), np.arange(40) + 50
    prompts = Additions(a, b).prompts()
    sampled = rollout(small_policy, prompts, stream(0, "grpo_completions", 1), temperature)
    module = plain.module_of(small_policy)
    tokens = [torch.from_numpy(array) for array in (prompts, sampled.completions)]
    with torch.no_grad():
        log_probs = plain.log_probs(module, *tokens, temperature)
        logits = plain.completion_logits(module, *tokens)
    np.testing.assert_allclose(sampled.log_probs, log_probs, rtol=1e-12, atol=1e-12)
    entropy = torch.distributions.Categorical(logits=logits / temperature).entropy()
    np.testing.assert_allclose(sampled.entropy, entropy, rtol=1e-12, atol=1e-12)


def test_draws_follow_the_stream(small_policy):
    prompts = Additions(np.arange(30), np.arange(30)).prompts()
    first, same, other = (
        rollout(small_policy, prompts, stream(0, "grpo_completions", i)).completions
        for i in (1, 1, 2)
    )
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
