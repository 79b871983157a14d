"""Exact evaluation over all 10,000 prompts: no sampling, so no evaluation noise.

Greedy decoding gives the right answer if and only if the right token has the highest logit at each
of the three positions after the right prefix. So one teacher-forced pass replaces decoding.
"""

import torch
from torch import Tensor

from rlvr.addition import all_prompts, encode_answer, encode_prompt, is_carry
from rlvr.policy import Policy

CHUNK = 2_500  # prompts per pass: few enough to stay in cache


@torch.no_grad()
def right_answers(policy: Policy, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """For operands (n,): whether greedy decoding is right, and the right answer's probability.

    Both have shape (n,), and the probability is float64. Of tied logits the lowest token wins.
    """
    prompts, answers = encode_prompt(a, b), encode_answer(a + b)
    logits = policy.answer_logits(prompts, answers)
    right = (logits.argmax(dim=-1) == answers).all(dim=1)
    log_probs = logits.double().log_softmax(dim=-1).gather(-1, answers.unsqueeze(-1))
    return right, log_probs.sum(dim=(1, 2)).exp()


def evaluate(policy: Policy) -> dict[str, float]:
    """Greedy accuracy and mean success probability, over all prompts and over the carry prompts."""
    a, b = (operand.to(policy.head.weight.device) for operand in all_prompts())
    chunks = zip(a.split(CHUNK), b.split(CHUNK), strict=True)
    right, probability = (
        torch.cat(parts) for parts in zip(*(right_answers(policy, *c) for c in chunks), strict=True)
    )
    carry = is_carry(a, b)
    return {
        "accuracy": right.double().mean().item(),
        "accuracy_carry": right[carry].double().mean().item(),
        "success_probability": probability.mean().item(),
        "success_probability_carry": probability[carry].mean().item(),
    }
