"""Exact evaluation over all 10,000 prompts: no sampling, so no evaluation noise.

Greedy decoding gives the right answer if and only if the right token has the highest logit at each
of the three positions after the right prefix. So one teacher-forced pass replaces decoding.
"""

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from rlvr.addition import (
    PROMPT_LENGTH,
    all_prompts,
    encode_answer,
    encode_prompt,
    is_carry,
)
from rlvr.policy import Policy, log_softmax, pick
from rlvr.prefix_tree import PrefixTree, prefix_tree

PROMPTS_PER_PASS = 500  # few enough to stay in cache


class Question(NamedTuple):
    """Some of the prompts with their right answers."""

    tree: PrefixTree
    """Of prompts and right answers."""
    answers: Tensor
    """The right tokens (n, 3)."""


@functools.cache
def _exam(device: torch.device, dtype: torch.dtype) -> list[Question]:
    """All 10,000 prompts, in lexical order, a few hundred at a time."""
    like = torch.empty(0, device=device, dtype=dtype)
    a, b = all_prompts()
    answers = encode_answer(a + b)
    sequences = torch.cat([encode_prompt(a, b), answers[:, :-1]], dim=1)
    return [
        Question(prefix_tree(part, PROMPT_LENGTH, like), right.to(device))
        for part, right in zip(
            sequences.split(PROMPTS_PER_PASS), answers.split(PROMPTS_PER_PASS), strict=True
        )
    ]


@torch.inference_mode()
def right_answers(policy: Policy) -> tuple[Tensor, Tensor]:
    """Of each prompt: whether greedy decoding is right, and the right answer's probability.

    Both have shape (10000,), on the CPU. Of tied logits the lowest token wins.
    """
    right, log_probability = [], []
    for tree, answers in _exam(policy.head.weight.device, policy.head.weight.dtype):
        logits = policy.logits_on(tree)
        right.append((logits.argmax(dim=-1)[tree.result_of] == answers).all(dim=1))
        log_probability.append(pick(log_softmax(logits), tree, answers).sum(dim=1))
    return torch.cat(right).cpu(), torch.cat(log_probability).cpu().double().exp()


def evaluate(policy: Policy) -> dict[str, float]:
    """Greedy accuracy and mean success probability, over all prompts and over the carry prompts."""
    right, probability = right_answers(policy)
    carry = is_carry(*all_prompts())
    return {
        "accuracy": right.double().mean().item(),
        "accuracy_carry": right[carry].double().mean().item(),
        "success_probability": probability.mean().item(),
        "success_probability_carry": probability[carry].mean().item(),
    }
