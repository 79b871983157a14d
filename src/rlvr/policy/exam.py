"""Exact evaluation on a set of prompts, all of them: no sampling, so no evaluation noise."""

from typing import NamedTuple

import numpy as np

from rlvr.elementary import xlogy
from rlvr.policy.policy import Grades, Policy
from rlvr.task.addition import additions


class Exam(NamedTuple):
    """Prompts to evaluate on."""

    prompts: np.ndarray
    """Tokens (n, 7)."""
    solutions: np.ndarray
    """Tokens (n, 3)."""
    carry: np.ndarray
    """Which of them are carry prompts (n,)."""


def prepare_exam(indices: np.ndarray) -> Exam:
    """An exam on the prompts of these indices (n,)."""
    asked = additions(indices)
    return Exam(asked.prompts(), asked.solutions(), asked.carry())


def grade(policy: Policy, exam: Exam, temperature: float = 1.0) -> Grades:
    """The policy's grades in an exam, sampling at `temperature`."""
    return policy.grade(exam.prompts, exam.solutions, temperature)


def averages(grades: Grades, exam: Exam) -> dict[str, float]:
    """Greedy accuracy and mean success probability, over all prompts and over the carry prompts."""
    correct, probability = grades
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
    near_0, near_1 = np.finfo(np.float64).tiny, np.finfo(np.float32).eps / 2
    p, p0 = grades.success_probability, np.maximum(start.success_probability, near_0)
    fail, fail0 = 1 - p, np.maximum(1 - p0, near_1)
    return (xlogy(p, p / p0) + xlogy(fail, fail / fail0)).mean().item()
