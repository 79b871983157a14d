"""What training computes fast, against the plain implementation, in float64."""

import copy

import plain
import pytest
import torch
from helpers import FULL_SIZE, SMALL, grpo_settings
from hypothesis import given
from hypothesis import strategies as st

from rlvr.adam import FlatAdam
from rlvr.addition import draw_prompts, encode_prompt
from rlvr.grpo import Batch, group_advantages, update
from rlvr.policy import initial_policy
from rlvr.prefix_tree import prefix_tree
from rlvr.rollout import rollout
from rlvr.sft import sft_loss
from rlvr.streams import stream

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


@pytest.mark.parametrize("n", [1, 2, 64, 256])
def test_log_probs_and_gradients(policy, n):
    prompts = encode_prompt(*draw_prompts(n, torch.Generator().manual_seed(n)))
    answers = completions_of(prompts, n)
    fast, truth = policy.log_probs(prompts, answers), plain.log_probs(policy, prompts, answers)
    assert relative(fast, truth) < 1e-12
    weights = torch.linspace(-1, 2, 3 * n, dtype=torch.float64).view(n, 3)
    assert (
        relative(
            gradient(policy, (fast * weights).sum()), gradient(policy, (truth * weights).sum())
        )
        < 1e-12
    )


def test_sft_loss_and_gradient(policy):
    prompts = encode_prompt(*draw_prompts(256, torch.Generator().manual_seed(0)))
    answers = completions_of(prompts, 0)
    fast, truth = sft_loss(policy, prompts, answers), plain.sft_loss(policy, prompts, answers)
    assert fast.item() == pytest.approx(truth.item(), rel=1e-13)
    assert relative(gradient(policy, fast), gradient(policy, truth)) < 1e-12


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_any_number_of_layers(layers):
    policy = initial_policy(SMALL.model_copy(update={"layers": layers}), seed=1).double()
    prompts = encode_prompt(*draw_prompts(40, torch.Generator().manual_seed(0)))
    answers = completions_of(prompts, 0)
    assert (
        relative(policy.log_probs(prompts, answers), plain.log_probs(policy, prompts, answers))
        < 1e-12
    )


tokens = st.integers(0, 12)


def filled_up(count):
    """Counts from 256 on are rounded up to a multiple of 64."""
    return count if count < 256 else -(-count // 64) * 64


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


def test_rollout(policy):
    prompts = encode_prompt(*draw_prompts(32, torch.Generator().manual_seed(0)))
    prompts = prompts.repeat_interleave(8, dim=0)
    fast = rollout(policy, prompts, stream(0, "grpo_completions", 1))
    truth = plain.rollout(policy, prompts, stream(0, "grpo_completions", 1))
    assert torch.equal(fast.completions, truth.completions)
    assert relative(fast.log_probs, truth.log_probs) < 1e-12
    assert relative(fast.entropy, truth.entropy) < 1e-12


def advantages_of(kind, log_ratio):
    """32 groups of 8: all with signal, some, one, or none; or penalised by beta times log ratio."""
    right = torch.zeros(32, 8, dtype=torch.float64)
    with_signal = {"all": 32, "some": 9, "one": 1, "none": 0}.get(kind, 9)
    right[:with_signal, :3] = 1
    right[with_signal::2] = 1  # of the others, every second is all right
    advantages = group_advantages(right, 1e-4).flatten()
    return advantages - 0.04 * log_ratio if kind == "beta" else advantages


@pytest.mark.parametrize("kind", ["all", "some", "one", "none", "beta"])
def test_a_whole_iteration_of_clipped_adam_steps(policy, kind):
    """Eight steps that clip gradients and ratios end at the same parameters, twice in a row."""
    # A step size that moves far enough to clip ratios, and a norm that clips gradients.
    changes = {"learning_rate": 3e-3, "max_gradient_norm": 0.1}
    settings = DOCUMENT_A.model_copy(update=changes)
    prompts = encode_prompt(*draw_prompts(32, torch.Generator().manual_seed(1)))
    prompts = prompts.repeat_interleave(8, dim=0)
    sampled = rollout(policy, prompts, stream(0, "grpo_completions", 1))
    old = sampled.log_probs.sum(dim=1)
    reference = initial_policy(FULL_SIZE, seed=9).double()
    log_ratio = old - plain.log_probs(reference, prompts, sampled.completions).sum(dim=1)
    batch = Batch(prompts, sampled.completions, old, advantages_of(kind, log_ratio.detach()))
    assert (batch.advantages != 0).sum() == {"all": 256, "some": 72, "one": 8, "none": 0}.get(
        kind, 256
    )

    slow = copy.deepcopy(policy)
    fast_adam = FlatAdam(policy, settings.learning_rate)
    slow_adam = torch.optim.Adam(slow.parameters(), lr=settings.learning_rate)
    for iteration in (1, 2):
        metrics, expected = (
            one(model, optimizer, batch, settings, stream(0, "grpo_minibatches", iteration))
            for one, model, optimizer in (
                (update, policy, fast_adam),
                (plain.update, slow, slow_adam),
            )
        )
        assert metrics == pytest.approx(expected, rel=1e-9, abs=1e-12)
        for ours, theirs in zip(policy.parameters(), slow.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    if kind in ("all", "some", "beta"):
        assert expected["clip_fraction"] > 0.01
    if kind == "all":
        assert expected["gradient_norm"] > 0.1


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
