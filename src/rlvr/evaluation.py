"""Exact evaluation on a set of prompts, all of them: no sampling, so no evaluation noise.

Greedy decoding gives the right answer if and only if the right token has the highest logit at each
of the three positions after the right prefix. So one teacher-forced pass replaces decoding.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rlvr.addition import PROMPT_LENGTH, encode_answer, encode_prompt, is_carry, operands
from rlvr.policy import Policy, log_softmax, pick
from rlvr.prefix_tree import PrefixTree, prefix_tree

PROMPTS_PER_PASS = 500  # few enough to stay in cache


class Question(NamedTuple):
    """Some of the prompts with their right answers."""

    tree: PrefixTree
    """Of prompts and right answers."""
    answers: Tensor
    """The right tokens (n, 3)."""


class Exam(NamedTuple):
    """Prompts to evaluate on."""

    questions: list[Question]
    """The prompts, a few hundred at a time."""
    carry: Tensor
    """Which of them are carry prompts (n,)."""


def prepare_exam(prompts: Tensor, like: Tensor) -> Exam:
    """An exam on the prompts of these indices (n,), with the device and dtype of `like`."""
    a, b = operands(prompts)
    answers = encode_answer(a + b)
    sequences = torch.cat([encode_prompt(a, b), answers[:, :-1]], dim=1)
    parts = zip(sequences.split(PROMPTS_PER_PASS), answers.split(PROMPTS_PER_PASS), strict=True)
    questions = [
        Question(prefix_tree(part, PROMPT_LENGTH, like), right.to(like.device))
        for part, right in parts
    ]
    return Exam(questions, is_carry(a, b))


class Answers(NamedTuple):
    """How a policy does on each prompt of an exam, on the CPU."""

    right: Tensor
    """Whether greedy decoding is right (n,). Of tied logits the lowest token wins."""
    success_probability: Tensor
    """Probability of sampling the right answer (n,), float64."""


@torch.inference_mode()
def answer(policy: Policy, exam: Exam, temperature: float = 1.0) -> Answers:
    """The policy's answers to an exam, sampling at `temperature`."""
    right, log_probability = [], []
    for tree, answers in exam.questions:
        logits = policy.logits_on(tree)
        right.append((logits.argmax(dim=-1)[tree.result_of] == answers).all(dim=1))
        log_probability.append(pick(log_softmax(logits, temperature), tree, answers).sum(dim=1))
    return Answers(torch.cat(right).cpu(), torch.cat(log_probability).cpu().double().exp())


def grade(answers: Answers, exam: Exam) -> dict[str, float]:
    """Greedy accuracy and mean success probability, over all prompts and over the carry prompts."""
    right, probability = answers.right.double(), answers.success_probability
    return {
        "accuracy": right.mean().item(),
        "accuracy_carry": right[exam.carry].mean().item(),
        "success_probability": probability.mean().item(),
        "success_probability_carry": probability[exam.carry].mean().item(),
    }


def kl_floor(answers: Answers, start: Answers) -> float:
    """Least KL to the start, nats per sequence, of any policy that succeeds as often as this one.

    On each prompt the KL divergence is at least that between the two events of success, p against
    p0 (data processing inequality): p ln(p / p0) + (1 - p) ln((1 - p) / (1 - p0)).
    """
    # Where p0 rounds to 0 or 1 it is taken for the nearest that does not: the bound stays a bound.
    near_0, near_1 = torch.finfo(torch.float64).tiny, torch.finfo(torch.float32).eps / 2
    p, p0 = answers.success_probability, start.success_probability.clamp(min=near_0)
    fail, fail0 = 1 - p, (1 - p0).clamp(min=near_1)
    terms = torch.special.xlogy(p, p / p0) + torch.special.xlogy(fail, fail / fail0)
    return terms.mean().item()
