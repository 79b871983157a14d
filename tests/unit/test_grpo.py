"""GRPO: advantages, the clipped loss and its gradient, by hand, by formula and by enumeration."""

import copy

import numpy as np
import pytest
import torch
from helpers import FULL_SIZE, SMALL, grpo_settings
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlvr.adam import FlatAdam
from rlvr.addition import encode_prompt, verify
from rlvr.grpo import (
    Batch,
    clipped_surrogate_loss,
    collect,
    group_advantages,
    is_clipped,
    train,
    update,
)
from rlvr.policy import initial_policy
from rlvr.rollout import rollout
from rlvr.settings import EvaluationSettings, GrpoJob
from rlvr.streams import stream


def job(every=2, **changes):
    return GrpoJob(
        device="cpu",
        policy=SMALL,
        grpo=grpo_settings(**changes),
        evaluation=EvaluationSettings(every=every),
    )


@pytest.fixture
def lucky_policy():
    """A small float64 policy that answers 00+00 with 000 about half the time."""
    policy = initial_policy(SMALL, seed=0).double()
    with torch.no_grad():
        policy.head.weight *= 0.1
        policy.head.bias[0] += 3.9
    return policy


# --- Advantages -----------------------------------------------------------------------------------


def test_advantages_by_hand():
    rewards = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]).double()
    advantages = group_advantages(rewards, 1e-4)
    # std with N - 1: sqrt((0.75^2 + 3 * 0.25^2) / 3) = 0.5, and sqrt(4 * 0.5^2 / 3) = 0.57735
    one, two = 0.5 + 1e-4, np.sqrt(1 / 3) + 1e-4
    expected = [
        [0.75 / one, -0.25 / one, -0.25 / one, -0.25 / one],
        [0.5 / two, 0.5 / two, -0.5 / two, -0.5 / two],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    np.testing.assert_allclose(advantages, expected, rtol=1e-12)
    assert (advantages[2:] == 0).all()


@given(st.integers(2, 32), st.data())
def test_equal_rewards_give_exactly_zero_and_others_sum_to_zero(group_size, data):
    right = data.draw(st.integers(0, group_size))
    rewards = torch.tensor([[1.0] * right + [0.0] * (group_size - right)])
    advantages = group_advantages(rewards, 1e-4)
    if right in (0, group_size):
        assert (advantages == 0).all()
    else:
        assert advantages.sum().item() == pytest.approx(0, abs=1e-5)
        assert (advantages[0, :right] > 0).all()
        assert (advantages[0, right:] < 0).all()


# --- The clipped loss -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.1, 2.0, -2.2, -2.0),
        (1.5, 2.0, -2.4, 0.0),  # clipped at 1.2
        (0.5, 2.0, -1.0, -2.0),  # too low for a good completion: not clipped
        (0.5, -1.0, 0.8, 0.0),  # clipped at 0.8
        (1.5, -1.0, 1.5, 1.0),  # too high for a bad completion: not clipped
        (1.5, 0.0, 0.0, 0.0),
    ],
)
def test_clipping_by_hand(ratio, advantage, loss, gradient):
    ratio = torch.tensor([ratio], dtype=torch.float64, requires_grad=True)
    advantage = torch.tensor([advantage], dtype=torch.float64)
    value = clipped_surrogate_loss(ratio, advantage, 0.2)
    value.backward()
    assert value.item() == pytest.approx(loss)
    assert ratio.grad.item() == pytest.approx(gradient)
    clipped = is_clipped(ratio, advantage, 0.2).item()
    assert clipped == (gradient == 0 and advantage != 0)


@given(st.lists(st.tuples(st.floats(0.01, 4), st.floats(-3, 3)), min_size=1, max_size=20))
def test_loss_equals_an_independent_formula(pairs):
    ratios, advantages = map(np.array, zip(*pairs, strict=True))
    # A good completion's ratio counts up to 1 + epsilon, a bad one's from 1 - epsilon.
    objective = [
        a * (min(r, 1.2) if a > 0 else max(r, 0.8)) for r, a in zip(ratios, advantages, strict=True)
    ]
    loss = clipped_surrogate_loss(torch.tensor(ratios), torch.tensor(advantages), 0.2)
    assert loss.item() == pytest.approx(-np.mean(objective), rel=1e-12, abs=1e-12)


# --- Gradients ------------------------------------------------------------------------------------


def gradient_of(policy, loss):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(policy.parameters()))])


def batch_loss(policy, prompts, completions, log_probs_old, advantages):
    ratio = (policy.log_probs(prompts, completions).sum(dim=1) - log_probs_old).exp()
    return clipped_surrogate_loss(ratio, advantages, 0.2)


def test_zero_signal_groups_give_exactly_zero_gradient(small_policy):
    prompts = encode_prompt(torch.arange(8), torch.arange(8))
    sampled = rollout(small_policy, prompts, stream(0, "grpo_completions", 1))
    # A policy a little way off, so that ratios differ from 1.
    moved = copy.deepcopy(small_policy)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter += 0.01
    advantages = group_advantages(torch.ones(2, 4, dtype=torch.float64), 1e-4).flatten()
    old = sampled.log_probs.sum(dim=1)
    assert not gradient_of(
        moved, batch_loss(moved, prompts, sampled.completions, old, advantages)
    ).any()


def test_zero_advantages_only_count_in_the_denominator(small_policy):
    prompts = encode_prompt(torch.arange(8), torch.arange(8))
    sampled = rollout(small_policy, prompts, stream(0, "grpo_completions", 1))
    old = sampled.log_probs.sum(dim=1) - 0.05
    advantages = torch.tensor([1.0, 0, -1, 0, 0, 0, 2, 0]).double()
    live = advantages != 0
    whole = gradient_of(
        small_policy, batch_loss(small_policy, prompts, sampled.completions, old, advantages)
    )
    part = gradient_of(
        small_policy,
        batch_loss(
            small_policy, prompts[live], sampled.completions[live], old[live], advantages[live]
        ),
    )
    torch.testing.assert_close(whole, part * 3 / 8, rtol=1e-10, atol=1e-14)


def test_sampled_gradient_equals_the_enumerated_one_in_expectation(lucky_policy):
    """On one prompt, G = 3: average sampled gradients against the sum over all 2,197 answers."""
    group_size, groups, batches = 3, 400, 60
    zero = torch.zeros(1, dtype=torch.long)
    prompt = encode_prompt(zero, zero)
    answers = torch.cartesian_prod(*[torch.arange(13)] * 3)
    log_probs = lucky_policy.log_probs(prompt.expand(len(answers), -1), answers).sum(dim=1)
    probs = log_probs.exp().detach()
    right = verify(zero.expand(len(answers)), zero.expand(len(answers)), answers)
    p = (probs * right).sum().item()
    assert 0.2 < p < 0.8

    # The expected advantage of a right or wrong completion, over what the G - 1 others are.
    def expected_advantage(mine):
        total = 0.0
        for others in range(group_size):
            rewards = [mine] + [1.0] * others + [0.0] * (group_size - 1 - others)
            advantage = (mine - np.mean(rewards)) / (np.std(rewards, ddof=1) + 1e-4)
            total += stats.binom.pmf(others, group_size - 1, p) * advantage
        return total

    weights = torch.where(right.bool(), expected_advantage(1.0), expected_advantage(0.0))
    enumerated = gradient_of(lucky_policy, -(probs * weights * log_probs).sum())

    n = groups * group_size
    prompts = prompt.expand(n, -1)
    sampled_gradients = []
    for i in range(batches):
        sampled = rollout(lucky_policy, prompts, stream(0, "grpo_completions", i))
        rewards = verify(zero.expand(n), zero.expand(n), sampled.completions)
        advantages = group_advantages(rewards.view(groups, group_size).double(), 1e-4).flatten()
        loss = batch_loss(
            lucky_policy, prompts, sampled.completions, sampled.log_probs.sum(dim=1), advantages
        )
        sampled_gradients.append(gradient_of(lucky_policy, loss))
    sampled_gradients = torch.stack(sampled_gradients)
    mean, error = sampled_gradients.mean(0), sampled_gradients.std(0) / batches**0.5
    assert (mean - enumerated).norm() < 0.05 * enumerated.norm()
    moving = error > 1e-12
    z = (mean - enumerated)[moving] / error[moving]
    # Errors of sampling alone give a mean square near 1 (they are correlated, hence the room).
    assert 0.2 < z.square().mean() < 3


# --- An iteration, a run --------------------------------------------------------------------------


def test_batch_metrics_agree_with_the_batch(lucky_policy):
    reference = initial_policy(SMALL, seed=0).double()
    batch, metrics = collect(lucky_policy, reference, grpo_settings(), 0.0, seed=3, iteration=1)
    counts = np.array(metrics["reward_counts"])
    assert counts.sum() == 8
    assert len(counts) == 5
    assert metrics["reward_mean"] == pytest.approx((counts * np.arange(5)).sum() / 32)
    assert metrics["all_wrong_fraction"] == counts[0] / 8
    assert metrics["all_right_fraction"] == counts[4] / 8
    assert metrics["zero_signal_fraction"] == (counts[0] + counts[4]) / 8
    with torch.no_grad():
        log_ratio = sum(
            sign * policy.log_probs(batch.prompts, batch.completions).sum(dim=1)
            for sign, policy in ((1, lucky_policy), (-1, reference))
        )
    assert metrics["kl"] == pytest.approx(log_ratio.mean().item())
    # Prompts come in groups.
    assert (batch.prompts.view(8, 4, 7) == batch.prompts.view(8, 4, 7)[:, :1]).all()


def test_beta_is_subtracted_from_standardised_advantages(lucky_policy):
    reference = initial_policy(SMALL, seed=0).double()
    without, _ = collect(lucky_policy, reference, grpo_settings(), 0.0, seed=3, iteration=1)
    with_kl, _ = collect(lucky_policy, reference, grpo_settings(), 0.5, seed=3, iteration=1)
    assert torch.equal(without.completions, with_kl.completions)
    with torch.no_grad():
        log_probs_ref = reference.log_probs(without.prompts, without.completions).sum(dim=1)
    penalty = 0.5 * (without.log_probs_old - log_probs_ref)
    torch.testing.assert_close(with_kl.advantages, without.advantages - penalty)
    assert penalty.abs().max() > 0.1


def test_update_is_adam_on_clipped_gradients(small_policy):
    """One epoch of one minibatch, against Adam's first step written out."""
    prompts = encode_prompt(torch.arange(16), torch.arange(16))
    sampled = rollout(small_policy, prompts, stream(0, "grpo_completions", 1))
    advantages = torch.linspace(-20, 20, 16).double()
    old = sampled.log_probs.sum(dim=1)
    batch = Batch(prompts, sampled.completions, old, advantages)
    loss = batch_loss(small_policy, prompts, sampled.completions, old, advantages)
    gradient = gradient_of(small_policy, loss)
    norm = gradient.norm()
    assert norm > 1  # so that there is something to clip
    before = torch.cat([p.detach().flatten() for p in small_policy.parameters()])
    optimizer = FlatAdam(small_policy, 1e-3)
    one_step = grpo_settings(epochs=1, minibatch_size=16)
    metrics = update(small_policy, optimizer, batch, one_step, stream(0, "grpo_minibatches", 1))
    clipped = gradient / norm
    expected = before - 1e-3 * clipped / (clipped.abs() + 1e-8)  # step 1: m / sqrt(v) = g / |g|
    after = torch.cat([p.detach().flatten() for p in small_policy.parameters()])
    moving = clipped.abs() > 1e-7
    torch.testing.assert_close(after[moving], expected[moving], rtol=1e-6, atol=1e-7)
    assert metrics["gradient_norm"] == pytest.approx(norm.item())
    assert metrics["clip_fraction"] == 0


def test_every_completion_is_used_once_per_epoch(small_policy, monkeypatch):
    prompts = encode_prompt(torch.arange(10), torch.arange(10))
    sampled = rollout(small_policy, prompts, stream(0, "grpo_completions", 1))
    batch = Batch(
        prompts, sampled.completions, sampled.log_probs.sum(1), torch.arange(1, 11).double()
    )
    seen = []
    monkeypatch.setattr(
        "rlvr.grpo.clipped_surrogate_loss",
        lambda ratio, advantages, clip: seen.append(advantages) or (ratio * advantages).mean(),
    )
    optimizer = FlatAdam(small_policy, 1e-3)
    update(
        small_policy,
        optimizer,
        batch,
        grpo_settings(epochs=2, minibatch_size=4),
        stream(0, "grpo_minibatches", 1),
    )
    assert [len(part) for part in seen] == [4, 4, 2, 4, 4, 2]
    for epoch in (seen[:3], seen[3:]):
        assert sorted(torch.cat(epoch).tolist()) == list(range(1, 11))


def test_run_starts_from_the_sft_policy_and_logs_every_iteration():
    sft_policy = initial_policy(SMALL, seed=0)
    _, rows = train(job(), sft_policy, beta=0.0, seed=1)
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3, 4]
    assert "reward_mean" not in rows[0]
    assert ["accuracy" in row for row in rows] == [True, False, True, False, True]
    assert rows[1]["kl"] == pytest.approx(0, abs=1e-5)  # the first batch is the SFT policy's own


def test_evaluating_more_often_changes_nothing_else(lucky_policy):
    seldom, rarely = train(job(every=4), lucky_policy.float(), 0.0, 1)
    often, rows = train(job(every=1), lucky_policy.float(), 0.0, 1)
    assert torch.equal(seldom.head.weight, often.head.weight)
    assert [row["reward_mean"] for row in rows[1:]] == [row["reward_mean"] for row in rarely[1:]]


def test_rewarded_policy_improves(half_trained):
    changes = {
        "iterations": 20,
        "prompts_per_iteration": 32,
        "group_size": 8,
        "learning_rate": 3e-4,
    }
    learning = GrpoJob(
        device="cpu",
        policy=FULL_SIZE,
        grpo=grpo_settings(minibatch_size=64, **changes),
        evaluation=EvaluationSettings(every=20),
    )
    _, rows = train(learning, copy.deepcopy(half_trained), beta=0.0, seed=1)
    assert rows[-1]["success_probability"] > rows[0]["success_probability"] + 0.05
