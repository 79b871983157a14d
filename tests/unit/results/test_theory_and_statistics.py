"""Closed forms against the spec's numbers and simulation; bounds by hand."""

from math import inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.results import fixed_points, theory
from rlvr.results.statistics import failure_rate_bound


def test_numbers_of_the_spec():
    assert theory.base_accuracy() == pytest.approx(0.3025)
    assert theory.sampled_accuracy(0.3) == pytest.approx(0.51175)
    assert theory.zero_signal_fraction(0.3, 8) == pytest.approx(0.3428, abs=5e-5)
    assert theory.kl_floor(0.3) == pytest.approx(-0.6975 * log(0.3))
    assert theory.kl_floor(0.3) == pytest.approx(0.840, abs=5e-4)


def test_cold_start_has_no_signal_and_no_finite_way_out():
    assert theory.zero_signal_fraction(0, 8) == pytest.approx(1)
    assert theory.kl_floor(0, 0) == 0
    assert theory.kl_floor(0, 0.5) == inf


@given(st.floats(0.01, 0.99), st.floats(0, 1))
def test_kl_floor_is_a_divergence(q, p):
    assert theory.kl_floor(q, p) >= -1e-12
    assert theory.kl_floor(q, q) == pytest.approx(0, abs=1e-12)


def test_zero_signal_fraction_by_simulation():
    rng = np.random.default_rng(0)
    carry = rng.random(100_000) < theory.CARRY_SHARE
    right = rng.binomial(8, np.where(carry, 0.3, 1.0))
    equal = ((right == 0) | (right == 8)).mean()
    assert equal == pytest.approx(theory.zero_signal_fraction(0.3, 8), abs=0.005)


def test_bound_of_a_rate_that_never_showed():
    # No failure in n: the rate r with (1 - r)^n = 0.05.
    assert failure_rate_bound(0, 3, 0.95) == pytest.approx(1 - 0.05 ** (1 / 3))
    assert failure_rate_bound(0, 20, 0.95) == pytest.approx(0.1391, abs=1e-4)
    assert failure_rate_bound(3, 3, 0.95) == 1
    # One in five: P(at most 1 failure | r) = 0.05.
    r = failure_rate_bound(1, 5, 0.95)
    assert (1 - r) ** 5 + 5 * r * (1 - r) ** 4 == pytest.approx(0.05)


def test_signal_by_enumeration_and_by_hand():
    """Two completions: mixed with 2 p (1 - p), then m (1 - m) = 1/4 and s = sqrt(1/2)."""
    p = 0.3
    by_hand = 2 * p * (1 - p) * 0.25 / (sqrt(0.5) + 1e-4)
    assert fixed_points.signal(p, 2, 1e-4) == pytest.approx(by_hand)
    rng = np.random.default_rng(0)
    rewards = rng.random((200_000, 8)) < p
    advantages = rewards - rewards.mean(axis=1, keepdims=True)
    advantages = advantages / (rewards.std(axis=1, ddof=1, keepdims=True) + 1e-4)
    # The policy gradient in x, p = sigmoid(x): the mean of A times d log pi / dx.
    force = (advantages * (rewards - p)).mean()
    assert fixed_points.signal(p, 8, 1e-4) == pytest.approx(force, rel=0.01)


@pytest.mark.parametrize("rest", [fixed_points.rest_advantage, fixed_points.rest_loss_k3])
def test_resting_points_fall_from_1_to_q_as_beta_grows(rest):
    points = [rest(0.3, beta, 8, 1e-4) for beta in (0, 0.01, 0.04, 0.1, 0.3, 1, 10, 1000)]
    assert points[0] == 1
    assert points == sorted(points, reverse=True)
    assert points[-1] == pytest.approx(0.3, abs=0.01)


@given(
    st.floats(1e-12, 1 - 1e-12),
    st.floats(1e-9, 1000),
    st.integers(2, 64),
    st.floats(-30, 30).map(lambda power: 10**power),
)
def test_a_resting_point_is_there_for_whatever_settings_allow(q, beta, group_size, epsilon):
    for rest in (fixed_points.rest_advantage, fixed_points.rest_loss_k3):
        assert q <= rest(q, beta, group_size, epsilon) <= 1


def test_at_rest_the_forces_cancel():
    """Against the two KL divergences, differentiated numerically in x, p = sigmoid(x)."""
    q, beta = 0.3, 0.5

    def divergence(p, q):
        return p * log(p / q) + (1 - p) * log((1 - p) / (1 - q))

    def slope(function, p, h=1e-5):
        x = log(p / (1 - p))
        return (function(1 / (1 + np.exp(-x - h))) - function(1 / (1 + np.exp(-x + h)))) / (2 * h)

    p = fixed_points.rest_advantage(q, beta, 8, 1e-4)
    reverse = slope(lambda p: divergence(p, q), p)
    assert fixed_points.signal(p, 8, 1e-4) == pytest.approx(beta * reverse, rel=1e-5)
    p = fixed_points.rest_loss_k3(q, beta, 8, 1e-4)
    forward = slope(lambda p: divergence(q, p), p)
    assert fixed_points.signal(p, 8, 1e-4) == pytest.approx(beta * forward, rel=1e-5)
