"""Exact evaluation against decoding token by token, on all 10,000 prompts."""

import copy

import plain
import pytest
import torch
from helpers import FULL_SIZE

from rlvr.addition import all_prompts, encode_answer, encode_prompt, is_carry, verify
from rlvr.evaluation import evaluate, right_answers
from rlvr.policy import initial_policy


def test_equals_greedy_decoding_token_by_token(half_trained):
    policy = copy.deepcopy(half_trained).double()
    a, b = all_prompts()
    right, probability = right_answers(policy)
    decoded = verify(a, b, plain.greedy(policy, encode_prompt(a, b)))
    assert torch.equal(right, decoded.bool())
    assert 0.1 < decoded.mean() < 0.9
    log_probs = plain.log_probs(policy, encode_prompt(a, b), encode_answer(a + b)).sum(dim=1)
    torch.testing.assert_close(probability, log_probs.exp(), rtol=1e-11, atol=1e-15)


def test_means_are_over_all_and_over_carry_prompts(half_trained):
    metrics = evaluate(half_trained)
    right, probability = right_answers(half_trained)
    carry = is_carry(*all_prompts())
    assert metrics["accuracy"] == right.sum().item() / 10_000
    assert metrics["accuracy_carry"] == right[carry].sum().item() / 6_975
    assert metrics["success_probability"] == pytest.approx(probability.mean().item(), rel=1e-6)
    assert metrics["success_probability_carry"] == pytest.approx(
        probability[carry].mean().item(), rel=1e-6
    )


def test_of_tied_logits_the_lowest_token_wins():
    """In decoding too: with all logits equal both say 000, which is right for 00+00 alone."""
    policy = initial_policy(FULL_SIZE, seed=0).requires_grad_(False)
    policy.head.weight.zero_()
    policy.head.bias.zero_()
    a, b = all_prompts()
    right, probability = right_answers(policy)
    assert right.nonzero().flatten().tolist() == [0]
    assert torch.equal(right, verify(a, b, plain.greedy(policy, encode_prompt(a, b))).bool())
    assert probability[0].item() == pytest.approx(13**-3)
    policy.head.bias[0] = policy.head.bias[7] = 1.0  # a tie of two
    assert torch.equal(
        right_answers(policy)[0], verify(a, b, plain.greedy(policy, encode_prompt(a, b))).bool()
    )
