"""Exact evaluation against decoding token by token, on all 10,000 prompts, and the KL floor."""

import math

import numpy as np
import plain
import pytest
import torch
from helpers import FULL_SIZE, small_policy, weights_of
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.config.values import PROMPTS
from rlvr.policy.engines.compiled import CompiledPolicy
from rlvr.policy.exam import averages, grade, kl_floor, prepare_exam
from rlvr.policy.policy import Grades
from rlvr.task.addition import additions, all_additions
from rlvr.task.rewards.exact import reward

ALL = np.arange(PROMPTS)
COMPLETIONS = torch.cartesian_prod(*[torch.arange(13)] * 3)


def grade_all(policy, temperature=1.0):
    return grade(policy, prepare_exam(ALL), temperature)


def in_float64(policy):
    return CompiledPolicy(policy.settings, policy.values.astype(np.float64))


def decoded(policy, asked):
    """What plain decoding earns, token by token."""
    prompts = torch.from_numpy(asked.prompts())
    return reward(asked, plain.greedy(plain.module_of(policy), prompts).numpy())


def test_equals_greedy_decoding_token_by_token(half_trained):
    policy = in_float64(half_trained)
    right = decoded(policy, all_additions())
    assert 0.1 < right.mean() < 0.9
    for temperature in (1.0, 0.7):  # which changes nothing here
        assert np.array_equal(grade_all(policy, temperature).correct, right)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_success_probability_is_that_of_the_right_answer(half_trained, temperature):
    policy = in_float64(half_trained)
    asked = all_additions()
    grades = grade_all(policy, temperature)
    prompts, truth = (torch.from_numpy(x) for x in (asked.prompts(), asked.solutions()))
    with torch.no_grad():
        log_probs = plain.log_probs(plain.module_of(policy), prompts, truth, temperature)
    expected = log_probs.sum(dim=1).exp()
    np.testing.assert_allclose(grades.success_probability, expected, rtol=1e-11, atol=1e-15)


def test_any_prompts_in_any_order(half_trained):
    """The grades on some prompts are those on all prompts, picked."""
    chosen = np.random.default_rng(0).permutation(PROMPTS)[:777]
    grades = grade(half_trained, prepare_exam(chosen))
    for some, everything in zip(grades, grade_all(half_trained), strict=True):
        assert np.array_equal(some, everything[chosen])


def test_means_are_over_all_and_over_carry_prompts(half_trained):
    exam = prepare_exam(ALL)
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
    policy = small_policy(settings=FULL_SIZE)
    weights = weights_of(policy)
    weights["head.weight"][:] = weights["head.bias"][:] = 0
    asked = all_additions()
    right, probability = grade_all(policy)
    assert np.flatnonzero(right).tolist() == [0]
    assert np.array_equal(right, decoded(policy, asked))
    assert probability[0].item() == pytest.approx(13**-3)
    weights["head.bias"][[0, 7]] = 1.0  # a tie of two
    assert np.array_equal(grade_all(policy).correct, decoded(policy, asked))


# --- The least KL ---------------------------------------------------------------------------------


def succeeding(*probabilities):
    probabilities = np.array(probabilities)
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
    policy, start = (small_policy(seed=s) for s in (seed, other_seed))
    weights_of(policy)["head.weight"][:] *= sharpness
    chosen = np.array([0, 1234, 9999])
    exam = prepare_exam(chosen)
    floor = kl_floor(*(grade(one, exam, temperature) for one in (policy, start)))
    prompts = torch.from_numpy(additions(chosen).prompts().repeat(len(COMPLETIONS), axis=0))
    with torch.no_grad():
        log_p, log_p0 = (
            plain.log_probs(
                plain.module_of(one), prompts, COMPLETIONS.repeat(3, 1), temperature
            ).sum(dim=1)
            for one in (policy, start)
        )
    exact = (log_p.exp() * (log_p - log_p0)).sum().item() / 3
    assert 0 <= floor <= exact + 1e-12


def test_the_floor_is_finite_where_success_was_next_to_impossible():
    """As at a very low temperature: probabilities underflow to 0."""
    start, never, sometimes = succeeding(0.0, 0.0), succeeding(0.0, 0.0), succeeding(0.0, 0.5)
    assert kl_floor(never, start) == 0
    assert 100 < kl_floor(sometimes, start) < 400
