"""Exact evaluation on a set of prompts, all of them: no sampling, so no evaluation noise.

Greedy decoding gives the solution if and only if its token has the highest logit at each of the
three positions after what comes before it. So one teacher-forced pass replaces decoding.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rlvr.policy.prefix_tree import PrefixTree, prefix_tree
from rlvr.policy.transformer import Policy, log_softmax, pick
from rlvr.task.addition import PROMPT_LENGTH, additions

PROMPTS_PER_PASS = 500  # few enough to stay in cache


class Question(NamedTuple):
    """Some of the prompts with their solutions."""

    tree: PrefixTree
    """Of prompts and solutions."""
    solutions: Tensor
    """Tokens (n, 3)."""


class Exam(NamedTuple):
    """Prompts to evaluate on."""

    questions: list[Question]
    """The prompts, a few hundred at a time."""
    carry: Tensor
    """Which of them are carry prompts (n,)."""


def prepare_exam(indices: Tensor, like: Tensor) -> Exam:
    """An exam on the prompts of these indices (n,), with the device and dtype of `like`."""
    asked = additions(indices)
    solutions = asked.solutions()
    sequences = torch.cat([asked.prompts(), solutions[:, :-1]], dim=1)
    parts = zip(sequences.split(PROMPTS_PER_PASS), solutions.split(PROMPTS_PER_PASS), strict=True)
    questions = [
        Question(prefix_tree(part, PROMPT_LENGTH, like), solved.to(like.device))
        for part, solved in parts
    ]
    return Exam(questions, asked.carry())


class Grades(NamedTuple):
    """How a policy does on each prompt of an exam, on the CPU."""

    correct: Tensor
    """Whether greedy decoding gives the solution (n,). Of tied logits the lowest token wins."""
    success_probability: Tensor
    """Probability of sampling the solution (n,), float64."""


@torch.inference_mode()
def grade(policy: Policy, exam: Exam, temperature: float = 1.0) -> Grades:
    """The policy's grades in an exam, sampling at `temperature`."""
    correct, log_probability = [], []
    for tree, solutions in exam.questions:
        logits = policy.logits_on(tree)
        correct.append((logits.argmax(dim=-1)[tree.result_of] == solutions).all(dim=1))
        log_probs = log_softmax(logits, temperature)
        log_probability.append(pick(log_probs, tree, solutions).sum(dim=1))
    return Grades(torch.cat(correct).cpu(), torch.cat(log_probability).cpu().double().exp())


def averages(grades: Grades, exam: Exam) -> dict[str, float]:
    """Greedy accuracy and mean success probability, over all prompts and over the carry prompts."""
    correct, probability = grades.correct.double(), grades.success_probability
    return {
        "accuracy": correct.mean().item(),
        "accuracy_carry": correct[exam.carry].mean().item(),
        "success_probability": probability.mean().item(),
        "success_probability_carry": probability[exam.carry].mean().item(),
    }


def kl_floor(grades: Grades, start: Grades) -> float:
    """Least KL to the start, nats per sequence, of any policy that succeeds as often as this one.

    On each prompt the KL divergence is at least that between the two events of success, p against
    p0 (data processing inequality): p ln(p / p0) + (1 - p) ln((1 - p) / (1 - p0)).
    """
    # Where p0 rounds to 0 or 1 it is taken for the nearest that does not: the bound stays a bound.
    near_0, near_1 = torch.finfo(torch.float64).tiny, torch.finfo(torch.float32).eps / 2
    p, p0 = grades.success_probability, start.success_probability.clamp(min=near_0)
    fail, fail0 = 1 - p, (1 - p0).clamp(min=near_1)
    terms = torch.special.xlogy(p, p / p0) + torch.special.xlogy(fail, fail / fail0)
    return terms.mean().item()
