"""Exact evaluation against decoding token by token, on all 10,000 prompts, and the KL floor."""

import copy
import math

import plain
import pytest
import torch
from helpers import FULL_SIZE, SMALL
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.config.values import PROMPTS
from rlvr.policy.exam import Grades, averages, grade, kl_floor, prepare_exam
from rlvr.policy.transformer import initial_policy
from rlvr.task.addition import additions, all_additions
from rlvr.task.rewards.exact import reward

ALL = torch.arange(PROMPTS)
COMPLETIONS = torch.cartesian_prod(*[torch.arange(13)] * 3)


def grade_all(policy, temperature=1.0):
    return grade(policy, prepare_exam(ALL, policy.head.weight), temperature)


def test_equals_greedy_decoding_token_by_token(half_trained):
    policy = copy.deepcopy(half_trained).double()
    asked = all_additions()
    decoded = reward(asked, plain.greedy(policy, asked.prompts()))
    assert 0.1 < decoded.mean() < 0.9
    for temperature in (1.0, 0.7):  # which changes nothing here
        assert torch.equal(grade_all(policy, temperature).correct, decoded.bool())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_success_probability_is_that_of_the_right_answer(half_trained, temperature):
    policy = copy.deepcopy(half_trained).double()
    asked = all_additions()
    grades = grade_all(policy, temperature)
    prompts, truth = asked.prompts(), asked.solutions()
    log_probs = plain.log_probs(policy, prompts, truth, temperature).sum(dim=1)
    torch.testing.assert_close(grades.success_probability, log_probs.exp(), rtol=1e-11, atol=1e-15)


def test_any_prompts_in_any_order(half_trained):
    """The grades on some prompts are those on all prompts, picked."""
    policy = copy.deepcopy(half_trained).double()
    chosen = torch.randperm(PROMPTS, generator=torch.Generator().manual_seed(0))[:777]
    grades = grade(policy, prepare_exam(chosen, policy.head.weight))
    everything = grade_all(policy)
    assert torch.equal(grades.correct, everything.correct[chosen])
    torch.testing.assert_close(
        grades.success_probability, everything.success_probability[chosen], rtol=1e-11, atol=1e-15
    )


def test_means_are_over_all_and_over_carry_prompts(half_trained):
    exam = prepare_exam(ALL, half_trained.head.weight)
    grades = grade(half_trained, exam)
    metrics, (correct, probability) = averages(grades, exam), grades
    carry = all_additions().carry()
    assert metrics["accuracy"] == correct.sum().item() / 10_000
    assert metrics["accuracy_carry"] == correct[carry].sum().item() / 6_975
    assert metrics["success_probability"] == pytest.approx(probability.mean().item(), rel=1e-6)
    assert metrics["success_probability_carry"] == pytest.approx(
        probability[carry].mean().item(), rel=1e-6
    )


def test_of_tied_logits_the_lowest_token_wins():
    """In decoding too: with all logits equal both say 000, which is right for 00+00 alone."""
    policy = initial_policy(FULL_SIZE, seed=0).requires_grad_(False)
    policy.head.weight.zero_()
    policy.head.bias.zero_()
    asked = all_additions()
    right, probability = grade_all(policy)
    assert right.nonzero().flatten().tolist() == [0]
    assert torch.equal(right, reward(asked, plain.greedy(policy, asked.prompts())).bool())
    assert probability[0].item() == pytest.approx(13**-3)
    policy.head.bias[0] = policy.head.bias[7] = 1.0  # a tie of two
    assert torch.equal(
        grade_all(policy).correct,
        reward(asked, plain.greedy(policy, asked.prompts())).bool(),
    )


# --- The least KL ---------------------------------------------------------------------------------


def succeeding(*probabilities):
    probabilities = torch.tensor(probabilities, dtype=torch.float64)
    return Grades(probabilities > 0.5, probabilities)


def test_kl_floor_by_hand():
    # From 1/4 to 1/2: (ln 2 + ln 2/3) / 2; from 1/2 to certainty: ln 2; from 1/2 to never: ln 2.
    quarter_to_half = (math.log(2) + math.log(2 / 3)) / 2
    assert kl_floor(succeeding(0.5), succeeding(0.25)) == pytest.approx(quarter_to_half)
    assert kl_floor(succeeding(1.0), succeeding(0.5)) == pytest.approx(math.log(2))
    assert kl_floor(succeeding(0.0), succeeding(0.5)) == pytest.approx(math.log(2))
    mean = (quarter_to_half + math.log(2) + 0) / 3
    several = kl_floor(succeeding(0.5, 1.0, 0.3), succeeding(0.25, 0.5, 0.3))
    assert several == pytest.approx(mean)


def test_kl_floor_is_0_at_the_start(half_trained):
    start = grade_all(half_trained)
    assert kl_floor(start, start) == 0


def test_kl_floor_is_finite_where_the_start_is_certain():
    """In float32 a probability near 1 rounds to it; that must not make the floor infinite."""
    floor = kl_floor(succeeding(0.5, 0.999, 1.0), succeeding(1.0, 1.0, 1.0))
    assert 0 < floor < 10
    assert kl_floor(succeeding(1.0), succeeding(1.0)) == 0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.1, 20), st.floats(0.3, 2))
@settings(max_examples=15)
def test_kl_floor_is_never_above_the_exact_kl(seed, other_seed, sharpness, temperature):
    """Of two policies, by enumeration of all 2,197 grades to a few prompts."""
    policy, start = (initial_policy(SMALL, seed=s).double() for s in (seed, other_seed))
    with torch.no_grad():
        policy.head.weight *= sharpness
    chosen = torch.tensor([0, 1234, 9999])
    exam = prepare_exam(chosen, policy.head.weight)
    floor = kl_floor(*(grade(one, exam, temperature) for one in (policy, start)))
    prompts = additions(chosen).prompts().repeat_interleave(len(COMPLETIONS), dim=0)
    with torch.no_grad():
        log_p, log_p0 = (
            plain.log_probs(one, prompts, COMPLETIONS.repeat(3, 1), temperature).sum(dim=1)
            for one in (policy, start)
        )
    exact = (log_p.exp() * (log_p - log_p0)).sum().item() / 3
    assert 0 <= floor <= exact + 1e-12


def test_the_floor_is_finite_where_success_was_next_to_impossible():
    """As at a very low temperature: probabilities underflow to 0."""
    right = torch.tensor([False, False])
    start = Grades(right, torch.tensor([0.0, 0.0]).double())
    never, sometimes = (Grades(right, torch.tensor([0.0, p]).double()) for p in (0.0, 0.5))
    assert kl_floor(never, start) == 0
    assert 100 < kl_floor(sometimes, start) < 400
