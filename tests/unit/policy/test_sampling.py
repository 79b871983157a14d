"""Sampling: the right distribution, and log-probabilities that belong to it."""

import plain
import pytest
import torch
from scipy import stats

from rlvr.policy.sampling import rollout
from rlvr.task.addition import Additions
from rlvr.task.streams import stream

ANSWERS = torch.cartesian_prod(*[torch.arange(13)] * 3)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampled_frequencies_are_the_exact_probabilities(small_policy, temperature):
    prompt = Additions(torch.tensor([47]), torch.tensor([85])).prompts()
    draws = 60_000
    with torch.no_grad():
        small_policy.head.weight *= 3  # less uniform than at the start
        logits = plain.completion_logits(small_policy, prompt.expand(len(ANSWERS), -1), ANSWERS)
    probs = (logits / temperature).softmax(dim=-1)
    exact = probs.gather(-1, ANSWERS.unsqueeze(-1)).squeeze(-1).prod(dim=1)
    noise = stream(0, "grpo_completions", 1)
    sampled = rollout(small_policy, prompt.expand(draws, -1), noise, temperature)
    index = (sampled.completions * torch.tensor([169, 13, 1])).sum(dim=1)
    observed, expected = index.bincount(minlength=len(ANSWERS)).double(), exact * draws
    common = expected >= 5
    pooled = [
        torch.cat([counts[common], counts[~common].sum().view(1)]).numpy()
        for counts in (observed, expected)
    ]
    assert common.sum() > 20
    assert stats.chisquare(*pooled).pvalue > 0.001


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_and_entropy_are_those_of_the_sampling_policy(small_policy, temperature):
    a, b = torch.arange(40), torch.arange(40) + 50
    prompts = Additions(a, b).prompts()
    sampled = rollout(small_policy, prompts, stream(0, "grpo_completions", 1), temperature)
    with torch.no_grad():
        log_probs = small_policy.log_probs(prompts, sampled.completions, temperature)
        logits = plain.completion_logits(small_policy, prompts, sampled.completions)
    torch.testing.assert_close(sampled.log_probs, log_probs, rtol=1e-12, atol=1e-12)
    entropy = torch.distributions.Categorical(logits=logits / temperature).entropy()
    torch.testing.assert_close(sampled.entropy, entropy, rtol=1e-12, atol=1e-12)


def test_draws_follow_the_stream(small_policy):
    prompts = Additions(torch.arange(30), torch.arange(30)).prompts()
    first, same, other = (
        rollout(small_policy, prompts, stream(0, "grpo_completions", i)).completions
        for i in (1, 1, 2)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
