"""Exact evaluation against decoding token by token, on all 10,000 prompts."""

import pytest
import torch
from helpers import FULL_SIZE

from rlvr.addition import all_prompts, encode_prompt, is_carry, verify
from rlvr.evaluation import evaluate, right_answers
from rlvr.policy import initial_policy


def greedy(policy, prompts):
    sequences = prompts
    for _ in range(3):
        tokens = policy(sequences)[:, -1].argmax(dim=-1, keepdim=True)
        sequences = torch.cat([sequences, tokens], dim=1)
    return sequences[:, -3:]


def test_equals_greedy_decoding_token_by_token(half_trained):
    a, b = all_prompts()
    right = right_answers(half_trained, a, b)[0]
    decoded = verify(a, b, greedy(half_trained, encode_prompt(a, b)))
    assert torch.equal(right, decoded.bool())
    assert 0.1 < decoded.mean() < 0.9


def test_means_are_over_all_and_over_carry_prompts(half_trained):
    a, b = all_prompts()
    metrics = evaluate(half_trained)
    right, probability = right_answers(half_trained, a, b)
    carry = is_carry(a, b)
    assert metrics["accuracy"] == right.sum().item() / 10_000
    assert metrics["accuracy_carry"] == right[carry].sum().item() / 6_975
    assert metrics["success_probability"] == pytest.approx(probability.mean().item(), rel=1e-6)
    assert metrics["success_probability_carry"] == pytest.approx(
        probability[carry].mean().item(), rel=1e-6
    )


def test_of_tied_logits_the_lowest_token_wins():
    policy = initial_policy(FULL_SIZE, seed=0).requires_grad_(False)
    policy.head.weight.zero_()
    policy.head.bias.zero_()
    right, probability = right_answers(policy, *all_prompts())
    assert right.nonzero().flatten().tolist() == [0]  # 00+00=000: all tokens are 0
    assert probability[0].item() == pytest.approx(13**-3)
