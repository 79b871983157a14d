"""GRPO: advantages, KL, the clipped loss and its gradient, by hand, by formula, by enumeration."""

import contextlib
import itertools

import numpy as np
import plain
import pytest
import torch
from helpers import EXACT, grpo_job, grpo_settings, small_policy, weights_of
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlvr.errors import UserError
from rlvr.jobs.records import write_parquet
from rlvr.methods.columns import METRICS
from rlvr.methods.grpo import (
    Batch,
    Losses,
    collect,
    completion_losses,
    kl_estimate,
    minibatches,
    reward_advantages,
    train,
    update,
)
from rlvr.policy.checkpoints import save_policy
from rlvr.policy.exam import averages, grade, prepare_exam
from rlvr.policy.sampling import rollout
from rlvr.task.addition import Additions
from rlvr.task.rewards.exact import reward
from rlvr.task.splits import split_prompts
from rlvr.task.streams import stream

EVERYTHING = split_prompts(None)


@pytest.fixture
def lucky_policy():
    """A small float64 policy that answers 00+00 with 000 about half the time."""
    policy = small_policy()
    weights = weights_of(policy)
    weights["head.weight"][:] *= 0.1
    weights["head.bias"][0] += 3.9
    return policy


@pytest.fixture
def reference():
    """A small float64 policy that is no other fixture's."""
    return small_policy(seed=5)


# --- Advantages -----------------------------------------------------------------------------------


def advantages_of(rewards, kind):
    rewards = np.asarray(rewards, dtype=np.float64)
    changes = {"advantages": kind, "group_size": rewards.shape[1]}
    return reward_advantages(rewards, grpo_settings(**changes))


# Standard deviations with N - 1: of one right in four sqrt((0.75^2 + 3 * 0.25^2) / 3) = 0.5, of two
# in four sqrt(4 * 0.5^2 / 3), of seven in sixteen sqrt(7 * 9 / 16 / 15).
ONE, TWO, SEVEN = 0.5 + 1e-4, np.sqrt(1 / 3) + 1e-4, np.sqrt(63 / 240) + 1e-4


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "group_std",
            [
                [0.75 / ONE, -0.25 / ONE, -0.25 / ONE, -0.25 / ONE],
                [0.5 / TWO, 0.5 / TWO, -0.5 / TWO, -0.5 / TWO],
                [0, 0, 0, 0],
                [0, 0, 0, 0],
            ],
        ),
        (
            "group_mean",
            [[0.75, -0.25, -0.25, -0.25], [0.5, 0.5, -0.5, -0.5], [0, 0, 0, 0], [0, 0, 0, 0]],
        ),
        (
            "rloo",  # 1 minus none of three; 0 minus one of three; ...
            [
                [1, -1 / 3, -1 / 3, -1 / 3],
                [2 / 3, 2 / 3, -2 / 3, -2 / 3],
                [0, 0, 0, 0],
                [0, 0, 0, 0],
            ],
        ),
        (
            "batch",  # 7 of 16 are right
            np.array([[9, -7, -7, -7], [9, 9, -7, -7], [9, 9, 9, 9], [-7, -7, -7, -7]])
            / 16
            / SEVEN,
        ),
    ],
)
def test_advantages_by_hand(kind, expected):
    rewards = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    np.testing.assert_allclose(advantages_of(rewards, kind), expected, rtol=1e-12)


@given(st.integers(2, 32), st.sampled_from(["group_std", "group_mean", "rloo"]), st.data())
def test_equal_rewards_give_exactly_zero_and_others_sum_to_zero(group_size, kind, data):
    right = data.draw(st.integers(0, group_size))
    advantages = advantages_of([[1.0] * right + [0.0] * (group_size - right)], kind)
    if right in (0, group_size):
        assert (advantages == 0).all()
    else:
        assert advantages.sum().item() == pytest.approx(0, abs=1e-9)
        assert (advantages[0, :right] > 0).all()
        assert (advantages[0, right:] < 0).all()


@given(
    st.integers(2, 9),
    st.integers(1, 4),
    st.floats(-50, 50),
    st.sampled_from(["group_std", "group_mean", "rloo", "batch"]),
)
def test_equal_scores_give_exactly_zero_whatever_rounding_does_to_their_mean(n, m, score, kind):
    assert not advantages_of([[score] * n] * m, kind).any()


def test_a_learned_reward_that_is_constant_gives_exactly_no_gradient(half_trained):
    """0.1 six times does not add up to 0.6."""

    def constant(additions, completions, generator):
        return np.full(len(completions), 0.1)

    settings = grpo_settings(group_size=6, prompts_per_iteration=5)
    batch, metrics = collect(half_trained, half_trained, constant, settings, 0.0, 3, 1)
    assert not batch.advantages.any()
    assert (metrics["zero_signal_fraction"], metrics["reward_mean"]) == (1.0, pytest.approx(0.1))
    policy = half_trained.copy()
    order = stream(0, "grpo_minibatches", 1)
    norms = update(policy, policy.adam(1e-3), batch, settings, 0.0, order)
    assert norms["gradient_norm"] == 0
    assert np.array_equal(policy.values, half_trained.values)


def test_the_truth_is_measured_beside_whatever_training_sees(half_trained):
    def contrary(additions, completions, generator):
        return 3.0 - 5 * reward(additions, completions)

    settings = grpo_settings(group_size=6, prompts_per_iteration=50)
    seen, proxy = collect(half_trained, half_trained, contrary, settings, 0.0, 3, 1)
    same, truth = collect(half_trained, half_trained, EXACT, settings, 0.0, 3, 1)
    assert np.array_equal(seen.completions, same.completions)
    assert np.array_equal(seen.advantages > 0, same.advantages < 0)
    assert proxy["reward_mean"] == pytest.approx(3 - 5 * truth["reward_mean"])
    of_truth = ("success_fraction", "reward_counts", "all_wrong_fraction", "all_right_fraction")
    assert {key: proxy[key] for key in of_truth} == {key: truth[key] for key in of_truth}
    assert truth["success_fraction"] == truth["reward_mean"]


groups = st.integers(2, 9).flatmap(
    lambda size: st.lists(
        st.lists(st.floats(-2, 2), min_size=size, max_size=size), min_size=1, max_size=4
    )
)


@given(groups)
def test_rloo_is_the_reward_minus_the_mean_of_the_others(rewards):
    expected = [
        [r - np.mean(group[:i] + group[i + 1 :]) for i, r in enumerate(group)] for group in rewards
    ]
    rloo = advantages_of(rewards, "rloo")
    np.testing.assert_allclose(rloo, expected, rtol=1e-12, atol=1e-12)
    size = len(rewards[0])
    centred = advantages_of(rewards, "group_mean")
    np.testing.assert_allclose(rloo, size / (size - 1) * centred, rtol=1e-12, atol=1e-12)


def test_one_baseline_for_the_batch_gives_zero_signal_groups_an_advantage():
    advantages = advantages_of([[1, 0, 0], [1, 1, 1], [0, 0, 0]], "batch")
    assert (advantages[1] > 0).all()
    assert (advantages[2] < 0).all()
    assert (advantages_of([[1, 1], [1, 1]], "batch") == 0).all()  # but not if all are equal


# --- KL estimators --------------------------------------------------------------------------------

KL_IN_LOSS = {"kl_placement": "loss"}
ESTIMATORS = ["k1", "k2", "k3"]
LN2 = np.log(2)


@pytest.mark.parametrize(
    ("kl_estimator", "above", "below"),
    [
        ("k1", LN2, -LN2),
        ("k2", LN2**2 / 2, LN2**2 / 2),
        ("k3", 1 / 2 - 1 + LN2, 2 - 1 - LN2),
    ],
)
def test_kl_estimates_by_hand(kl_estimator, above, below):
    """Of a token that is twice as likely as under the reference, half as likely, as likely."""
    new, ref = np.log([0.5, 0.25, 0.5]), np.log([0.25, 0.5, 0.5])
    estimates, _ = kl_estimate(new, ref, kl_estimator)
    np.testing.assert_allclose(estimates, [above, below, 0], rtol=1e-12)


@given(st.lists(st.tuples(st.floats(-5, 0), st.floats(-5, 0)), min_size=1, max_size=9))
@pytest.mark.parametrize("kl_estimator", ESTIMATORS)
def test_kl_estimates_and_slopes_equal_the_plain_ones(kl_estimator, pairs):
    new, ref = torch.tensor(pairs, dtype=torch.float64).T
    new = new.clone().requires_grad_(True)
    expected = plain.kl_estimate(new, ref, kl_estimator)
    expected.sum().backward()
    estimates, slopes = kl_estimate(new.detach().numpy(), ref.numpy(), kl_estimator)
    np.testing.assert_allclose(estimates, expected.detach(), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(slopes, new.grad, rtol=1e-12, atol=1e-15)


@pytest.fixture(params=range(5))
def two_distributions(request):
    """Logits of a policy, and log-probabilities of a reference, over five tokens."""
    logits = 1.5 * torch.randn(2, 5, generator=torch.Generator().manual_seed(request.param))
    policy, reference = logits.double()
    return policy.requires_grad_(True), reference.log_softmax(dim=0)


def estimate(log_p, log_ref, kl_estimator):
    return torch.from_numpy(kl_estimate(log_p.detach().numpy(), log_ref.numpy(), kl_estimator)[0])


def kl(log_p, log_q):
    return (log_p.exp() * (log_p - log_q)).sum()


@pytest.mark.parametrize("kl_estimator", ["k1", "k3"])
def test_k1_and_k3_are_unbiased(two_distributions, kl_estimator):
    log_p, log_ref = two_distributions[0].log_softmax(dim=0), two_distributions[1]
    expectation = (log_p.exp() * estimate(log_p, log_ref, kl_estimator)).sum()
    assert expectation.item() == pytest.approx(kl(log_p, log_ref).item(), rel=1e-12)
    k2 = (log_p.exp() * estimate(log_p, log_ref, "k2")).sum()
    assert k2.item() != pytest.approx(kl(log_p, log_ref).item(), rel=1e-3)


@pytest.mark.parametrize(
    ("kl_estimator", "whose_gradient"),
    [
        ("k1", lambda log_p, log_ref: 0 * log_p.sum()),
        ("k2", kl),
        ("k3", lambda log_p, log_ref: kl(log_ref, log_p)),
    ],
)
def test_what_an_estimator_minimises_as_a_loss(two_distributions, kl_estimator, whose_gradient):
    """The expected gradient of samples that stay what they are, by enumeration."""
    logits, log_ref = two_distributions
    log_p = logits.log_softmax(dim=0)
    _, slopes = kl_estimate(log_p.detach().numpy(), log_ref.numpy(), kl_estimator)
    loss = (log_p.exp().detach() * torch.from_numpy(slopes) * log_p).sum()
    (gradient,) = torch.autograd.grad(loss, logits, retain_graph=True)
    (expected,) = torch.autograd.grad(whose_gradient(log_p, log_ref), logits)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-14)


# --- The clipped loss -----------------------------------------------------------------------------


def batch_with(advantages, log_probs_old=None, log_probs_ref=None):
    """A batch of which only advantages and log-probabilities (0 if None) are looked at."""
    advantages = np.asarray(advantages, dtype=np.float64)
    nothing = np.zeros((len(advantages), 3))
    old = nothing if log_probs_old is None else log_probs_old
    ref = nothing if log_probs_ref is None else log_probs_ref
    return Batch(nothing, nothing, old, ref, advantages, advantages)


BY_HAND = [
    (1.0, 2.0, -2.0, -2.0),
    (1.1, 2.0, -2.2, -2.0),
    (0.5, 2.0, -1.0, -2.0),  # too low for a good completion: not clipped
    (0.5, -1.0, 0.8, 0.0),  # clipped at 0.8
    (0.9, -1.0, 0.9, 1.0),
    (1.7, -1.0, 1.7, 1.0),  # too high for a bad completion: not clipped
    (1.7, 0.0, 0.0, 0.0),
]


@pytest.mark.parametrize(
    ("high", "ratio", "advantage", "loss", "gradient"),
    [
        *((0.2, *case) for case in BY_HAND),
        *((0.5, *case) for case in BY_HAND),
        (0.2, 1.4, 2.0, -2.4, 0.0),  # clipped at 1.2
        (0.5, 1.4, 2.0, -2.8, -2.0),
        (0.5, 1.7, 2.0, -3.0, 0.0),  # clipped at 1.5
    ],
)
def test_clipping_by_hand(high, ratio, advantage, loss, gradient):
    """One ratio per completion, clipped to 0.8 and to 1 + high."""
    settings = grpo_settings(clip_epsilon_high=high)
    # It is the ratio of whole completions, however it spreads over the tokens.
    log_probs_new = (np.log(ratio) * np.array([0.7, -0.1, 0.4]))[np.newaxis]
    value = completion_losses(log_probs_new, batch_with([advantage]), settings, 0.0)
    assert value.loss.tolist() == pytest.approx([loss])
    assert value.slopes.tolist() == [pytest.approx([gradient * ratio] * 3)]  # d ratio = ratio d log
    assert value.clipped.item() == (gradient == 0 and advantage != 0)


@pytest.mark.parametrize(
    ("advantage", "loss", "clipped"),
    [
        (2.0, -2 * (1.2 + 1.0 + 0.5) / 3, 1 / 3),  # the first token is clipped
        (-2.0, 2 * (1.5 + 1.0 + 0.8) / 3, 1 / 3),  # the last
        (0.0, 0.0, 0.0),
    ],
)
def test_clipping_of_each_token_by_hand(advantage, loss, clipped):
    log_probs_new = np.log([[1.5, 1.0, 0.5]])
    settings = grpo_settings(ratio="token")
    value = completion_losses(log_probs_new, batch_with([advantage]), settings, 0.0)
    assert value.loss.tolist() == pytest.approx([loss])
    assert value.clipped.tolist() == pytest.approx([clipped])


@given(
    st.lists(st.tuples(st.floats(0.01, 4), st.floats(-3, 3)), min_size=1, max_size=20),
    st.floats(0.01, 1),
    st.floats(0.01, 2),
)
def test_loss_equals_an_independent_formula(pairs, low, high):
    ratios, advantages = map(np.array, zip(*pairs, strict=True))
    # A good completion's ratio counts up to 1 + high, a bad one's from 1 - low.
    objective = [
        a * (min(r, 1 + high) if a > 0 else max(r, 1 - low))
        for r, a in zip(ratios, advantages, strict=True)
    ]
    settings = grpo_settings(clip_epsilon_low=low, clip_epsilon_high=high)
    log_probs_new = np.log(ratios)[:, np.newaxis] / 3 * np.ones(3)
    losses = completion_losses(log_probs_new, batch_with(advantages), settings, 0.0).loss
    assert losses.mean().item() == pytest.approx(-np.mean(objective), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kl_estimator", ESTIMATORS)
@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_kl_in_the_loss_is_summed_over_tokens_and_independent_of_the_ratio(ratio, kl_estimator):
    new, old, ref = -np.random.default_rng(0).random((3, 6, 3))
    settings = grpo_settings(ratio=ratio, kl_estimator=kl_estimator, **KL_IN_LOSS)
    batch = batch_with(np.linspace(-1, 1, 6), old, ref)
    without, some, double = (
        completion_losses(new, batch, settings, beta).loss for beta in (0.0, 0.1, 0.2)
    )
    expected = 0.1 * kl_estimate(new, ref, kl_estimator)[0].sum(axis=1)
    np.testing.assert_allclose(some - without, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(double - without, 2 * expected, rtol=1e-12, atol=1e-14)
    # Taken off the advantage, it is in the batch already.
    off_advantage = settings.model_copy(update={"kl_placement": "advantage"})
    assert np.array_equal(completion_losses(new, batch, off_advantage, 0.1).loss, without)


def loss_of_trl(new, old, ref, advantages, epsilon_low, epsilon_high, beta):
    """TRL's GRPO loss with loops, after its formula."""
    sequences = []
    for i, advantage in enumerate(advantages):
        tokens = []
        for t in range(3):
            ratio = np.exp(new[i, t] - old[i, t])
            clipped = min(max(ratio, 1 - epsilon_low), 1 + epsilon_high)
            kl = np.exp(ref[i, t] - new[i, t]) - (ref[i, t] - new[i, t]) - 1
            tokens.append(-min(ratio * advantage, clipped * advantage) + beta * kl)
        sequences.append(sum(tokens) / len(tokens))
    return sum(sequences) / len(sequences)


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.2, 0.28), (0.1, 0.5)])
@pytest.mark.parametrize("beta", [0.0, 0.04, 1.0])
def test_loss_equals_that_of_trl(low, high, beta):
    """TRL's formula was derived again here, not imported: it is a heavy dependency.

    It is that of trl.GRPOTrainer with loss_type="grpo", importance_sampling_level="token". TRL's KL
    is a mean over the tokens, ours a sum over the three: so its beta is three times ours.
    """
    generator = np.random.default_rng(0)
    new, old, ref = -2 * generator.random((3, 40, 3))
    advantages = generator.standard_normal(40)
    advantages[:5] = 0
    settings = grpo_settings(
        **{"ratio": "token", "kl_placement": "loss", "kl_estimator": "k3"},
        **{"clip_epsilon_low": low, "clip_epsilon_high": high},
    )
    losses = completion_losses(new, batch_with(advantages, old, ref), settings, beta)
    assert losses.loss.mean().item() == pytest.approx(
        loss_of_trl(new, old, ref, advantages, low, high, 3 * beta), rel=1e-12
    )
    assert losses.clipped.mean() > 0.1


@given(
    st.integers(1, 12),
    st.integers(0, 10**6),
    st.sampled_from(["sequence", "token"]),
    st.sampled_from(["advantage", "loss"]),
    st.sampled_from(ESTIMATORS),
    st.sampled_from([0.0, 0.04, 1.0]),
)
def test_losses_and_slopes_equal_the_plain_ones(n, seed, ratio, placement, estimator, beta):
    """The loss is stated once, with its slopes; here it is stated again, for autograd."""
    generator = np.random.default_rng(seed)
    new, old, ref = -2 * generator.random((3, n, 3))
    batch = batch_with(generator.standard_normal(n) * generator.integers(2, size=n), old, ref)
    settings = grpo_settings(ratio=ratio, kl_placement=placement, kl_estimator=estimator)
    ours = completion_losses(new, batch, settings, beta)
    leaf = torch.from_numpy(new).requires_grad_(True)
    loss, clipped = plain.completion_losses(leaf, batch, settings, beta)
    loss.sum().backward()
    np.testing.assert_allclose(ours.loss, loss.detach(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours.slopes, leaf.grad, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(ours.clipped, clipped)


# --- Gradients ------------------------------------------------------------------------------------


def gradient_of(policy, slopes):
    """By the log-probabilities that were computed last."""
    policy.backward(slopes)
    return policy.gradient.copy()


def batch_gradient(policy, batch, beta=0.0, **changes):
    """Of the mean loss of a batch."""
    settings = grpo_settings(**changes)
    log_probs_new = policy.log_probs(batch.prompts, batch.completions, settings.temperature)
    slopes = completion_losses(log_probs_new, batch, settings, beta).slopes
    return gradient_of(policy, slopes / len(slopes))


def batch_of(policy, prompts, advantages, iteration=1):
    """Sampled completions, the policy being its own reference."""
    sampled = rollout(policy, prompts, stream(0, "grpo_completions", iteration))
    log_probs = sampled.log_probs
    return Batch(prompts, sampled.completions, log_probs, log_probs, advantages, advantages)


def moved(policy):
    """A policy a little way off, so that ratios differ from 1."""
    other = policy.copy()
    other.values += 0.01 * np.sin(np.arange(len(other.values)))
    return other


@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_zero_signal_groups_give_exactly_zero_gradient(small_policy, ratio):
    prompts = Additions(np.arange(8), np.arange(8)).prompts()
    advantages = advantages_of(np.ones((2, 4)), "group_std").ravel()
    batch, other = batch_of(small_policy, prompts, advantages), moved(small_policy)
    assert not batch_gradient(other, batch, ratio=ratio).any()


@pytest.mark.parametrize("ratio", ["sequence", "token"])
def test_zero_advantages_only_count_in_the_denominator(small_policy, ratio):
    prompts = Additions(np.arange(8), np.arange(8)).prompts()
    advantages = np.array([1.0, 0, -1, 0, 0, 0, 2, 0])
    batch, other = batch_of(small_policy, prompts, advantages), moved(small_policy)
    live = Batch(*(tensor[advantages != 0] for tensor in batch))
    whole, part = (batch_gradient(other, b, ratio=ratio) for b in (batch, live))
    np.testing.assert_allclose(whole, part * 3 / 8, rtol=1e-9, atol=1e-14)


def test_sampled_gradient_equals_the_enumerated_one_in_expectation(lucky_policy):
    """On one prompt, G = 3: average sampled gradients against the sum over all 2,197 answers."""
    group_size, groups, batches = 3, 400, 60

    def zeros(count):
        return Additions(*np.zeros((2, count), dtype=np.int64))

    answers = np.array(list(itertools.product(range(13), repeat=3)))
    asked = zeros(len(answers))
    probs = np.exp(lucky_policy.log_probs(asked.prompts(), answers).sum(axis=1))
    right = reward(asked, answers)
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

    weights = np.where(right == 1, expected_advantage(1.0), expected_advantage(0.0))
    slopes = -(probs * weights)[:, np.newaxis] * np.ones(3)
    enumerated = gradient_of(lucky_policy, slopes)

    asked, sampled_gradients = zeros(groups * group_size), []
    for i in range(batches):
        batch = batch_of(lucky_policy, asked.prompts(), None, iteration=i)
        rewards = reward(asked, batch.completions)
        advantages = advantages_of(rewards.reshape(groups, group_size), "group_std").ravel()
        batch = batch._replace(advantages=advantages)
        sampled_gradients.append(batch_gradient(lucky_policy, batch))
    mean = np.mean(sampled_gradients, axis=0)
    error = np.std(sampled_gradients, axis=0, ddof=1) / batches**0.5
    assert np.linalg.norm(mean - enumerated) < 0.05 * np.linalg.norm(enumerated)
    moving = error > 1e-12
    z = (mean - enumerated)[moving] / error[moving]
    # Errors of sampling alone give a mean square near 1 (they are correlated, hence the room).
    assert 0.2 < (z * z).mean() < 3


# --- An iteration, a run --------------------------------------------------------------------------


def collected(policy, reference, beta=0.0, **changes):
    return collect(policy, reference, EXACT, grpo_settings(**changes), beta, seed=3, iteration=1)


def test_batch_metrics_agree_with_the_batch(lucky_policy, reference):
    batch, metrics = collected(lucky_policy, reference)
    counts = np.array(metrics["reward_counts"])
    assert counts.sum() == 8
    assert len(counts) == 5
    assert metrics["reward_mean"] == pytest.approx((counts * np.arange(5)).sum() / 32)
    assert metrics["all_wrong_fraction"] == counts[0] / 8
    assert metrics["all_right_fraction"] == counts[4] / 8
    assert metrics["zero_signal_fraction"] == (counts[0] + counts[4]) / 8
    log_ratio = sum(
        sign * policy.log_probs(batch.prompts, batch.completions).sum(axis=1)
        for sign, policy in ((1, lucky_policy), (-1, reference))
    )
    assert metrics["kl"] == pytest.approx(log_ratio.mean().item())
    # Prompts come in groups.
    groups = batch.prompts.reshape(8, 4, 7)
    assert (groups == groups[:, :1]).all()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_all_log_probs_are_those_of_the_sampling_temperature(lucky_policy, reference, temperature):
    batch, metrics = collected(lucky_policy, reference, temperature=temperature)
    expected = [
        policy.log_probs(batch.prompts, batch.completions, temperature)
        for policy in (lucky_policy, reference)
    ]
    np.testing.assert_allclose(batch.log_probs_old, expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(batch.log_probs_ref, expected[1], rtol=1e-12, atol=1e-12)
    log_ratio = (expected[0] - expected[1]).sum(axis=1)
    assert metrics["kl"] == pytest.approx(log_ratio.mean().item())
    # So ratios are 1 on the first step, when the policy is what it was.
    one_step = grpo_settings(temperature=temperature, epochs=1, minibatch_size=32)
    order = stream(0, "grpo_minibatches", 1)
    batch = batch._replace(advantages=np.linspace(-1, 1, 32))
    expected = batch_gradient(lucky_policy, batch, temperature=temperature)
    metrics = update(lucky_policy, lucky_policy.adam(1e-3), batch, one_step, 0.0, order)
    assert metrics["clip_fraction"] == 0
    assert metrics["gradient_norm"] == pytest.approx(np.linalg.norm(expected))


def test_beta_is_subtracted_from_standardised_advantages(lucky_policy, reference):
    without, _ = collected(lucky_policy, reference)
    with_kl, _ = collected(lucky_policy, reference, beta=0.5)
    assert np.array_equal(without.completions, with_kl.completions)
    log_probs_ref = reference.log_probs(without.prompts, without.completions).sum(axis=1)
    penalty = 0.5 * (without.log_probs_old.sum(axis=1) - log_probs_ref)
    np.testing.assert_allclose(with_kl.advantages, without.advantages - penalty, atol=1e-12)
    assert np.abs(penalty).max() > 0.1
    in_loss, _ = collected(lucky_policy, reference, beta=0.5, **KL_IN_LOSS)
    assert np.array_equal(in_loss.advantages, without.advantages)


@pytest.mark.parametrize("beta", [0.01, 0.1, 1.0])
def test_beta_keeps_its_unit_only_after_the_standardisation(small_policy, reference, beta):
    """Before it, the KL of a zero-signal group would have standard deviation 1 whatever beta is."""
    batch, metrics = collected(small_policy, reference, beta=beta)
    assert metrics["zero_signal_fraction"] == 1
    log_ratio = (batch.log_probs_old - batch.log_probs_ref).sum(axis=1).reshape(8, 4)
    before = advantages_of(0 - beta * log_ratio, "group_std")
    std = beta * log_ratio.std(axis=1, ddof=1)
    np.testing.assert_allclose(before.std(axis=1, ddof=1), std / (std + 1e-4))
    assert (before.std(axis=1, ddof=1) > 0.5).all()
    after = batch.advantages.reshape(8, 4)
    np.testing.assert_allclose(after.std(axis=1, ddof=1), std)


def test_update_is_adam_on_clipped_gradients(small_policy):
    """One epoch of one minibatch, against Adam's first step written out."""
    prompts = Additions(np.arange(16), np.arange(16)).prompts()
    batch = batch_of(small_policy, prompts, np.linspace(-20, 20, 16))
    gradient = batch_gradient(small_policy, batch)
    norm = np.linalg.norm(gradient)
    assert norm > 1  # so that there is something to clip
    before = small_policy.values.copy()
    optimizer = small_policy.adam(1e-3)
    one_step = grpo_settings(epochs=1, minibatch_size=16)
    order = stream(0, "grpo_minibatches", 1)
    metrics = update(small_policy, optimizer, batch, one_step, 0.0, order)
    clipped = gradient / norm
    expected = before - 1e-3 * clipped / (np.abs(clipped) + 1e-8)  # step 1: m / sqrt(v) = g / |g|
    moving = np.abs(clipped) > 1e-7
    after = small_policy.values
    np.testing.assert_allclose(after[moving], expected[moving], rtol=1e-6, atol=1e-7)
    assert metrics["gradient_norm"] == pytest.approx(norm)
    assert metrics["clip_fraction"] == 0


def test_every_completion_is_used_once_per_epoch(small_policy, monkeypatch):
    prompts = Additions(np.arange(10), np.arange(10)).prompts()
    batch = batch_of(small_policy, prompts, np.arange(1.0, 11))
    seen = []

    def losses(log_probs_new, part, settings, beta):
        seen.append(part.advantages)
        nothing = np.zeros(len(log_probs_new))
        return Losses(nothing, np.ones_like(log_probs_new), nothing)

    monkeypatch.setattr("rlvr.methods.grpo.completion_losses", losses)
    settings, order = grpo_settings(epochs=2, minibatch_size=4), stream(0, "grpo_minibatches", 1)
    update(small_policy, small_policy.adam(1e-3), batch, settings, 0.0, order)
    assert [len(part) for part in seen] == [4, 3, 3, 4, 3, 3]
    for epoch in (seen[:3], seen[3:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(1, 11))


@given(st.integers(1, 400), st.integers(1, 300))
def test_minibatches_are_even(n, most):
    """85 of 256 leave no step to a single completion."""
    parts = minibatches(np.arange(n), most)
    sizes = [len(part) for part in parts]
    assert np.concatenate(parts).tolist() == list(range(n))
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert len(parts) == -(-n // most)


def test_run_starts_from_the_sft_policy_and_logs_every_iteration():
    sft_policy = small_policy()
    _, rows = train(grpo_job(), sft_policy, EVERYTHING, EXACT, beta=0.0, seed=1)
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3, 4]
    assert "reward_mean" not in rows[0]
    assert ["accuracy" in row for row in rows] == [True, False, True, False, True]
    assert rows[1]["kl"] == pytest.approx(0, abs=1e-5)  # the first batch is the SFT policy's own
    assert rows[0]["kl_floor"] == 0


EXTREMES = [
    {"temperature": 0.01},
    {"temperature": 100.0},
    {"learning_rate": 1e-30},
    {"learning_rate": 1e30},
    {"max_gradient_norm": 1e-30},
    {"max_gradient_norm": 1e30, "learning_rate": 10.0},
    {"advantage_epsilon": 1e-30},
    {"advantage_epsilon": 1e30},
    {"advantages": "batch", "advantage_epsilon": 1e-30},
    {"clip_epsilon_low": 1.0, "clip_epsilon_high": 1e30, "learning_rate": 1.0},
    {"kl_placement": "loss", "learning_rate": 1.0},
]


@pytest.mark.parametrize("beta", [0.0, 1000.0])
@pytest.mark.parametrize("changes", EXTREMES, ids=str)
def test_a_run_ends_with_finite_numbers_or_with_an_error(half_trained, tmp_path, changes, beta):
    """Whatever the settings allow: none ends as a success with a number that is not one."""
    extreme = grpo_job(iterations=2, prompts_per_iteration=4, **changes)
    with contextlib.suppress(UserError):
        policy, rows = train(extreme, half_trained, EVERYTHING, EXACT, beta, seed=1)
        save_policy(policy, tmp_path / "policy.safetensors", {})
        write_parquet(tmp_path / "metrics.parquet", rows, METRICS, {})
        for row in rows:
            assert all(np.isfinite(value).all() for value in row.values())
        return
    assert not (tmp_path / "metrics.parquet").exists()


def test_evaluating_more_often_changes_nothing_else(lucky_policy):
    seldom, rarely = train(grpo_job(evaluate_every=4), lucky_policy, EVERYTHING, EXACT, 0.0, 1)
    often, rows = train(grpo_job(evaluate_every=1), lucky_policy, EVERYTHING, EXACT, 0.0, 1)
    assert np.array_equal(seldom.values, often.values)
    assert [row["reward_mean"] for row in rows[1:]] == [row["reward_mean"] for row in rarely[1:]]


def test_rewarded_policy_improves(half_trained):
    changes = {
        "iterations": 20,
        "prompts_per_iteration": 32,
        "group_size": 8,
        "learning_rate": 3e-4,
    }
    learning = grpo_job(minibatch_size=64, evaluate_every=20, **changes)
    _, rows = train(learning, half_trained, EVERYTHING, EXACT, beta=0.0, seed=1)
    assert rows[-1]["success_probability"] > rows[0]["success_probability"] + 0.05
    assert rows[-1]["kl_floor"] > 0.001


def test_success_is_reported_at_the_sampling_temperature(half_trained):
    cool = grpo_job(iterations=1, temperature=0.7)
    _, rows = train(cool, half_trained, EVERYTHING, EXACT, beta=0.0, seed=1)
    exam = prepare_exam(EVERYTHING.exam)
    expected = averages(grade(half_trained, exam, 0.7), exam)
    assert {key: rows[0][key] for key in expected} == expected
    assert rows[0]["kl_floor"] == 0
    assert expected != averages(grade(half_trained, exam), exam)


def test_a_strong_kl_in_the_loss_holds_the_policy_at_its_start(half_trained):
    """By k2 or k3; the gradient of k1 holds nothing, and is noise that carries the policy off."""

    def mean_kl(beta, kl_estimator="k3"):
        changes = {"group_size": 8, "minibatch_size": 32, "learning_rate": 3e-4}
        strong = grpo_job(iterations=8, kl_estimator=kl_estimator, **changes, **KL_IN_LOSS)
        _, rows = train(strong, half_trained, EVERYTHING, EXACT, beta, seed=1)
        return np.mean([row["kl"] for row in rows[1:]])

    free = mean_kl(0.0)
    assert mean_kl(10.0, "k3") < free / 2
    assert mean_kl(10.0, "k2") < free / 2
    assert mean_kl(10.0, "k1") > 1.5 * free
