"""What training computes fast, against the plain implementation, in float64."""

import copy

import plain
import pytest
import torch
from helpers import FULL_SIZE, SMALL, grpo_settings
from hypothesis import given
from hypothesis import strategies as st

from rlvr.methods.adam import FlatAdam
from rlvr.methods.grpo import Batch, completion_losses, reward_advantages, update
from rlvr.methods.sft import sft_loss
from rlvr.policy.linear import FEWEST_ROWS
from rlvr.policy.prefix_tree import FEW_SHAPES, prefix_tree
from rlvr.policy.sampling import rollout
from rlvr.policy.transformer import initial_policy
from rlvr.task.addition import draw_additions
from rlvr.task.streams import stream

DOCUMENT_A = grpo_settings(
    prompts_per_iteration=32, group_size=8, minibatch_size=64, learning_rate=1e-4
)


@pytest.fixture(params=["random", "trained"])
def policy(request, half_trained):
    """A full-size policy in float64."""
    chosen = half_trained if request.param == "trained" else initial_policy(FULL_SIZE, seed=7)
    return copy.deepcopy(chosen).double().requires_grad_(True)


def gradient(policy, loss):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(policy.parameters()))])


def relative(x, y):
    return ((x - y).norm() / y.norm()).item()


def completions_of(prompts, seed):
    answers = torch.randint(10, (len(prompts), 3), generator=torch.Generator().manual_seed(seed))
    answers[:, 0] %= 2
    return answers


@pytest.mark.parametrize(("n", "temperature"), [(1, 1), (2, 1), (64, 1), (256, 1), (64, 0.7)])
def test_log_probs_and_gradients(policy, n, temperature):
    prompts = draw_additions(n, torch.Generator().manual_seed(n)).prompts()
    answers = completions_of(prompts, n)
    fast = policy.log_probs(prompts, answers, temperature)
    truth = plain.log_probs(policy, prompts, answers, temperature)
    assert relative(fast, truth) < 1e-12
    weights = torch.linspace(-1, 2, 3 * n, dtype=torch.float64).view(n, 3)
    assert (
        relative(
            gradient(policy, (fast * weights).sum()), gradient(policy, (truth * weights).sum())
        )
        < 1e-12
    )


def test_sft_loss_and_gradient(policy):
    prompts = draw_additions(256, torch.Generator().manual_seed(0)).prompts()
    answers = completions_of(prompts, 0)
    fast, truth = sft_loss(policy, prompts, answers), plain.sft_loss(policy, prompts, answers)
    assert fast.item() == pytest.approx(truth.item(), rel=1e-13)
    assert relative(gradient(policy, fast), gradient(policy, truth)) < 1e-12


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_any_number_of_layers(layers):
    policy = initial_policy(SMALL.model_copy(update={"layers": layers}), seed=1).double()
    prompts = draw_additions(40, torch.Generator().manual_seed(0)).prompts()
    answers = completions_of(prompts, 0)
    assert (
        relative(policy.log_probs(prompts, answers), plain.log_probs(policy, prompts, answers))
        < 1e-12
    )


tokens = st.integers(0, 12)


def filled_up(count):
    """Large counts are rounded up to a multiple."""
    return count if count < FEWEST_ROWS else -(-count // FEW_SHAPES) * FEW_SHAPES


@given(st.data(), st.integers(1, 60), st.integers(2, 9), st.integers(1, 40))
def test_any_sequences(data, n, length, distinct):
    """Few or many distinct sequences of any tokens and length, in any order, at any position."""
    policy = initial_policy(SMALL, seed=1).double()
    pool = data.draw(
        st.lists(st.lists(tokens, min_size=length, max_size=length), min_size=1, max_size=distinct)
    )
    rows = data.draw(st.lists(st.integers(0, len(pool) - 1), min_size=n, max_size=n))
    first = data.draw(st.integers(0, length - 1))
    sequences = torch.tensor(pool)[rows]
    tree = prefix_tree(sequences, first, like=policy.head.weight)
    logits = policy.logits_on(tree)
    torch.testing.assert_close(
        logits[tree.result_of], policy(sequences)[:, first:], rtol=1e-10, atol=1e-12
    )
    distinct_prefixes = {tuple(s[: i + 1]) for s in sequences.tolist() for i in range(length)}
    asked = sum(len(prefix) > first for prefix in distinct_prefixes)
    assert len(tree.inner.rows) == filled_up(len(distinct_prefixes))
    assert len(logits) == filled_up(asked)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_rollout(policy, temperature):
    prompts = draw_additions(32, torch.Generator().manual_seed(0)).prompts()
    prompts = prompts.repeat_interleave(8, dim=0)
    fast, truth = (
        one(policy, prompts, stream(0, "grpo_completions", 1), temperature)
        for one in (rollout, plain.rollout)
    )
    assert torch.equal(fast.completions, truth.completions)
    assert relative(fast.log_probs, truth.log_probs) < 1e-12
    assert relative(fast.entropy, truth.entropy) < 1e-12


# --- A whole iteration ----------------------------------------------------------------------------


def rewards_of(with_signal):
    """32 groups of 8, of which so many have signal; of the others, every second is all right."""
    right = torch.zeros(32, 8, dtype=torch.float64)
    right[:with_signal, :3] = 1
    right[with_signal::2] = 1
    return right


def batch_of(policy, settings, beta, with_signal=9):
    """Completions of `policy` as `collect` would return them, but with these rewards."""
    prompts = draw_additions(32, torch.Generator().manual_seed(1)).prompts()
    prompts = prompts.repeat_interleave(8, dim=0)
    temperature = settings.temperature
    sampled = rollout(policy, prompts, stream(0, "grpo_completions", 1), temperature)
    reference = initial_policy(FULL_SIZE, seed=9).double().requires_grad_(False)
    log_probs_ref = plain.log_probs(reference, prompts, sampled.completions, temperature)
    advantages = reward_advantages(rewards_of(with_signal), settings).flatten()
    if settings.kl_placement == "advantage":
        advantages = advantages - beta * (sampled.log_probs - log_probs_ref).sum(dim=1)
    return Batch(
        prompts, sampled.completions, sampled.log_probs, log_probs_ref, advantages, advantages
    )


KL_IN_LOSS = {"kl_placement": "loss"}


@pytest.mark.parametrize(
    ("beta", "with_signal", "live", "changes"),
    [
        (0.0, 32, 256, {}),
        (0.0, 9, 72, {}),
        (0.0, 1, 8, {}),
        (0.0, 0, 0, {}),
        (0.04, 9, 256, {}),
        (0.04, 9, 72, KL_IN_LOSS | {"kl_estimator": "k1"}),
        (0.04, 9, 72, KL_IN_LOSS | {"kl_estimator": "k2"}),
        (0.04, 9, 72, KL_IN_LOSS | {"kl_estimator": "k3"}),
        (0.0, 9, 72, KL_IN_LOSS | {"ratio": "token"}),
        (0.04, 9, 72, KL_IN_LOSS | {"ratio": "token", "clip_epsilon_high": 0.28}),
        (0.04, 9, 256, {"ratio": "token"}),
        (0.0, 9, 72, {"temperature": 0.7}),
        (0.04, 9, 72, KL_IN_LOSS | {"temperature": 0.7, "ratio": "token"}),
        (0.0, 9, 256, {"advantages": "batch"}),
        (0.0, 9, 72, {"advantages": "rloo"}),
        (0.0, 32, 256, {"minibatch_size": 85}),  # four steps of 64
    ],
)
def test_a_whole_iteration_of_clipped_adam_steps(policy, beta, with_signal, live, changes):
    """Eight steps that clip gradients and ratios end at the same parameters, twice in a row."""
    # A step size that moves far enough to clip ratios, and a norm that clips gradients.
    far = {"learning_rate": 3e-3, "max_gradient_norm": 0.1}
    settings = DOCUMENT_A.model_copy(update=far | changes)
    batch = batch_of(policy, settings, beta, with_signal)
    assert (batch.advantages != 0).sum() == live

    slow = copy.deepcopy(policy)
    fast_adam = FlatAdam(policy, settings.learning_rate)
    slow_adam = torch.optim.Adam(slow.parameters(), lr=settings.learning_rate)
    for iteration in (1, 2):
        metrics, expected = (
            one(model, optimizer, batch, settings, beta, stream(0, "grpo_minibatches", iteration))
            for one, model, optimizer in (
                (update, policy, fast_adam),
                (plain.update, slow, slow_adam),
            )
        )
        assert metrics["gradient_norm"] == pytest.approx(
            expected["gradient_norm"], rel=1e-9, abs=1e-12
        )
        # Shares are counted in float32.
        assert metrics["clip_fraction"] == pytest.approx(expected["clip_fraction"], rel=1e-6)
        if iteration == 1:  # in the second, all may be clipped already
            assert live <= 8 or expected["clip_fraction"] > 0.01
            assert with_signal < 32 or expected["gradient_norm"] > settings.max_gradient_norm
        # Most agree to 1e-12; but Adam divides a gradient by its own size, also where rounding is
        # all that it has.
        for ours, theirs in zip(policy.parameters(), slow.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kl_estimator", ["k1", "k2", "k3"])
def test_kl_in_the_loss_moves_completions_without_advantage(policy, kl_estimator):
    """The work that is saved without a KL must be done with it."""
    settings = DOCUMENT_A.model_copy(update=KL_IN_LOSS | {"kl_estimator": kl_estimator})
    batch = batch_of(policy, settings, beta=0.04, with_signal=0)
    assert not batch.advantages.any()
    log_probs_new = plain.log_probs(policy, batch.prompts, batch.completions)
    loss = completion_losses(log_probs_new, batch, settings, 0.04).loss.mean()
    assert gradient(policy, loss).norm() > 1e-4
    for beta, moves in ((0.04, True), (0.0, False)):
        model = copy.deepcopy(policy)
        optimizer = FlatAdam(model, settings.learning_rate)
        order = stream(0, "grpo_minibatches", 1)
        metrics = update(model, optimizer, batch, settings, beta, order)
        assert (metrics["gradient_norm"] > 1e-4) is moves
        assert torch.equal(model.head.weight, policy.head.weight) is not moves


def test_adam_goes_on_moving_on_zero_gradients_as_the_plain_one_does():
    module, twin = (initial_policy(SMALL, seed=1).double() for _ in range(2))
    ours, theirs = FlatAdam(module, 0.01), torch.optim.Adam(twin.parameters(), lr=0.01)
    for step in range(6):
        loss = sum((p**2).sum() for p in module.parameters()) if step < 2 else None
        ours.step(loss, max_gradient_norm=0.5)
        theirs.zero_grad()
        (sum((p**2).sum() for p in twin.parameters()) * (step < 2)).backward()
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
        theirs.step()
    for x, y in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)
    assert not torch.equal(module.head.weight, initial_policy(SMALL, seed=1).head.weight.double())
