"""What training computes fast, against the plain implementation, in float64."""

import numpy as np
import plain
import pytest
import torch
from helpers import FULL_SIZE, SMALL, grpo_settings, small_policy
from hypothesis import given
from hypothesis import strategies as st

from rlvr.config.settings.policy import PolicySettings
from rlvr.methods.grpo import Batch, reward_advantages, update
from rlvr.methods.sft import sft_loss
from rlvr.policy.engines.compiled import CompiledPolicy
from rlvr.policy.engines.torch import TorchPolicy
from rlvr.policy.sampling import rollout
from rlvr.task.addition import Additions, draw_additions
from rlvr.task.streams import stream

DOCUMENT_A = grpo_settings(
    prompts_per_iteration=32, group_size=8, minibatch_size=64, learning_rate=1e-4
)


def in_float64(policy):
    return CompiledPolicy(policy.settings, policy.values.astype(np.float64))


@pytest.fixture(params=["random", "trained"])
def policy(request, half_trained):
    """A full-size policy in float64."""
    if request.param == "trained":
        return in_float64(half_trained)
    return small_policy(seed=7, settings=FULL_SIZE)


def gradient(module, loss):
    """By every parameter, from autograd."""
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])


def relative(x, y):
    x, y = (np.asarray(torch.as_tensor(z).detach()) for z in (x, y))
    return np.linalg.norm(x - y) / np.linalg.norm(y)


def prompts_of(n, seed=0):
    return draw_additions(n, np.random.default_rng(seed)).prompts()


def completions_of(prompts, seed):
    completions = np.random.default_rng(seed).integers(10, size=(len(prompts), 3))
    completions[:, 0] %= 2
    return completions


def check_log_probs_and_gradient(policy, prompts, completions, temperature=1.0):
    """Of the engine, against autograd, by every parameter on its own."""
    module = plain.module_of(policy)
    tokens = (torch.from_numpy(array) for array in (prompts, completions))
    truth = plain.log_probs(module, *tokens, temperature)
    slopes = np.linspace(-1, 2, completions.size).reshape(completions.shape)
    fast = policy.log_probs(prompts, completions, temperature)
    assert relative(fast, truth) < 1e-12
    policy.backward(slopes)
    expected = torch.autograd.grad((truth * torch.from_numpy(slopes)).sum(), module.parameters())
    ends = np.cumsum([g.numel() for g in expected])
    names = [name for name, _ in module.named_parameters()]
    parts = np.split(policy.gradient, ends[:-1])
    whole = np.linalg.norm(policy.gradient)
    for name, part, of_autograd in zip(names, parts, expected, strict=True):
        error = np.linalg.norm(part - of_autograd.flatten().numpy())
        assert error < 1e-12 * whole, name


@pytest.mark.parametrize(("n", "temperature"), [(1, 1), (2, 1), (64, 1), (256, 1), (64, 0.7)])
def test_log_probs_and_gradients(policy, n, temperature):
    prompts = prompts_of(n, seed=n)
    check_log_probs_and_gradient(policy, prompts, completions_of(prompts, n), temperature)


SHAPES = [
    {"layers": 1},
    {"layers": 3},
    {"width": 8, "heads": 1, "feed_forward": 8},
    {"width": 24, "heads": 3, "feed_forward": 8, "layers": 1},
    {"width": 48, "heads": 2, "feed_forward": 40},
    {"width": 128, "heads": 16, "feed_forward": 264},
]


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_other_shapes_of_network(changes):
    settings = SMALL.model_copy(update=changes)
    policy, prompts = small_policy(1, settings), prompts_of(40)
    policy.values += 0.1 * np.sin(np.arange(len(policy.values)))  # biases are not 0 then
    check_log_probs_and_gradient(policy, prompts, completions_of(prompts, 0))


def test_sums_of_more_rows_than_a_block(policy):
    """A gradient by a weight is a sum over all nodes, in blocks of 256."""
    prompts = prompts_of(700)
    check_log_probs_and_gradient(policy, prompts, completions_of(prompts, 3))


def test_sft_loss_and_gradient(policy):
    prompts = prompts_of(256)
    completions = completions_of(prompts, 0)
    module = plain.module_of(policy)
    truth = plain.sft_loss(module, *map(torch.from_numpy, (prompts, completions)))
    loss, slopes = sft_loss(policy.log_probs(prompts, completions))
    assert loss == pytest.approx(truth.item(), rel=1e-13)
    policy.backward(slopes)
    assert relative(policy.gradient, gradient(module, truth)) < 1e-12


tokens = st.integers(0, 12)


@given(st.data(), st.integers(1, 60), st.integers(1, 10), st.integers(1, 40))
def test_hidden_states_of_any_sequences(data, n, length, distinct):
    """Few or many distinct sequences of any tokens and length, in any order, at any position."""
    policy = small_policy(seed=1)
    pool = data.draw(
        st.lists(st.lists(tokens, min_size=length, max_size=length), min_size=1, max_size=distinct)
    )
    rows = data.draw(st.lists(st.integers(0, len(pool) - 1), min_size=n, max_size=n))
    first = data.draw(st.integers(0, length - 1))
    sequences = np.array(pool)[rows]
    module = plain.module_of(policy)
    hidden = policy.hidden_states(sequences, first)
    truth = module.hidden_states(torch.from_numpy(sequences))[:, first:]
    np.testing.assert_allclose(hidden, truth.detach(), rtol=1e-10, atol=1e-12)
    slopes = np.cos(np.arange(hidden.size)).reshape(hidden.shape)
    policy.backward(slopes)
    (truth * torch.from_numpy(slopes)).sum().backward()
    expected = torch.cat(
        [
            torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten()
            for p in module.parameters()
        ]
    )
    np.testing.assert_allclose(policy.gradient, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_rollout(policy, temperature):
    prompts = prompts_of(32).repeat(8, axis=0)
    fast = rollout(policy, prompts, stream(0, "grpo_completions", 1), temperature)
    uniforms = stream(0, "grpo_completions", 1).random((3, 256))
    module = plain.module_of(policy)
    truth = plain.rollout(
        module, torch.from_numpy(prompts), torch.from_numpy(uniforms), temperature
    )
    assert np.array_equal(fast.completions, truth[0])
    assert relative(fast.log_probs, truth[1]) < 1e-12
    assert relative(fast.entropy, truth[2]) < 1e-12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_probs_of_sampling_are_those_of_the_training_pass_bit_by_bit(half_trained, dtype):
    """So that the first ratios of an iteration are exactly 1; also of parts of a large rollout."""
    policy = CompiledPolicy(FULL_SIZE, half_trained.values.astype(dtype))
    prompts = prompts_of(700).repeat(5, axis=0)
    sampled = rollout(policy, prompts, stream(0, "grpo_completions", 1), 0.7)
    assert np.array_equal(policy.log_probs(prompts, sampled.completions, 0.7), sampled.log_probs)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_both_engines_agree(half_trained, weight_decay):
    """The engine of PyTorch, which is plain, does the same to a policy, to rounding."""
    compiled = in_float64(half_trained)
    torched = TorchPolicy(FULL_SIZE, compiled.values)
    prompts = prompts_of(50)
    uniforms = np.random.default_rng(3).random((3, 50))
    for one, other in zip(
        *(p.rollout(prompts, uniforms, 0.7) for p in (compiled, torched)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    solutions = Additions(*np.random.default_rng(0).integers(100, size=(2, 50))).solutions()
    for one, other in zip(
        *(p.grade(prompts, solutions, 0.7) for p in (compiled, torched)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
    optimizers = [p.adam(1e-3, weight_decay) for p in (compiled, torched)]
    for step in range(3):
        for one in (compiled, torched):
            if step < 2:
                one.backward(0.1 * np.exp(one.log_probs(prompts, solutions)))
            else:
                one.hidden_states(prompts, 6)
                one.backward(np.ones((50, 1, FULL_SIZE.width)))
        np.testing.assert_allclose(compiled.gradient, torched.gradient, rtol=1e-7, atol=1e-9)
        norm, same = (optimizer.step(0.5) for optimizer in optimizers)
        assert norm == pytest.approx(same, rel=1e-10)
        np.testing.assert_allclose(compiled.values, torched.values, rtol=0, atol=1e-9)


# --- A whole iteration ----------------------------------------------------------------------------


def rewards_of(with_signal):
    """32 groups of 8, of which so many have signal; of the others, every second is all right."""
    right = np.zeros((32, 8))
    right[:with_signal, :3] = 1
    right[with_signal::2] = 1
    return right


def batch_of(policy, settings, beta, with_signal=9):
    """Completions of `policy` as `collect` would return them, but with these rewards."""
    prompts = prompts_of(32, seed=1).repeat(8, axis=0)
    temperature = settings.temperature
    sampled = rollout(policy, prompts, stream(0, "grpo_completions", 1), temperature)
    reference = small_policy(seed=9, settings=FULL_SIZE)
    log_probs_ref = reference.log_probs(prompts, sampled.completions, temperature)
    advantages = reward_advantages(rewards_of(with_signal), settings).ravel()
    if settings.kl_placement == "advantage":
        advantages = advantages - beta * (sampled.log_probs - log_probs_ref).sum(axis=1)
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

    module = plain.module_of(policy)
    fast_adam = policy.adam(settings.learning_rate)
    slow_adam = torch.optim.Adam(module.parameters(), lr=settings.learning_rate)
    for iteration in (1, 2):
        metrics, expected = (
            one(model, optimizer, batch, settings, beta, stream(0, "grpo_minibatches", iteration))
            for one, model, optimizer in (
                (update, policy, fast_adam),
                (plain.update, module, slow_adam),
            )
        )
        assert metrics["gradient_norm"] == pytest.approx(
            expected["gradient_norm"], rel=1e-9, abs=1e-12
        )
        assert metrics["clip_fraction"] == pytest.approx(expected["clip_fraction"], rel=1e-12)
        if iteration == 1:  # in the second, all may be clipped already
            assert live <= 8 or expected["clip_fraction"] > 0.01
            assert with_signal < 32 or expected["gradient_norm"] > settings.max_gradient_norm
        # Most agree to 1e-12; but Adam divides a gradient by its own size, also where rounding is
        # all that it has.
        distance = np.abs(policy.values - plain.values_of(module))
        assert np.quantile(distance, 0.99) < 1e-10
        assert distance.max() < 1e-9


@pytest.mark.parametrize("kl_estimator", ["k1", "k2", "k3"])
def test_kl_in_the_loss_moves_completions_without_advantage(policy, kl_estimator):
    """The work that is saved without a KL must be done with it."""
    settings = DOCUMENT_A.model_copy(update=KL_IN_LOSS | {"kl_estimator": kl_estimator})
    batch = batch_of(policy, settings, beta=0.04, with_signal=0)
    assert not batch.advantages.any()
    for beta, moves in ((0.04, True), (0.0, False)):
        model = policy.copy()
        order = stream(0, "grpo_minibatches", 1)
        optimizer = model.adam(settings.learning_rate)
        metrics = update(model, optimizer, batch, settings, beta, order)
        assert (metrics["gradient_norm"] > 1e-4) is moves
        assert np.array_equal(model.values, policy.values) is not moves


def test_adam_goes_on_moving_on_zero_gradients_as_the_plain_one_does():
    policy = small_policy(seed=1)
    start, twin = policy.values.copy(), torch.from_numpy(policy.values.copy()).requires_grad_(True)
    ours, theirs = policy.adam(0.01), torch.optim.Adam([twin], lr=0.01)
    for step in range(6):
        policy.gradient[:] = 2 * policy.values * (step < 2)
        norm = ours.step(max_gradient_norm=0.5)
        theirs.zero_grad()
        ((twin**2).sum() * (step < 2)).backward()
        assert norm == pytest.approx(torch.nn.utils.clip_grad_norm_([twin], 0.5).item())
        theirs.step()
    np.testing.assert_allclose(policy.values, twin.detach(), rtol=1e-12, atol=1e-12)
    assert not np.array_equal(policy.values, start)


def test_settings_of_shapes_are_those_that_the_engine_takes():
    for changes in SHAPES:
        assert PolicySettings(**SMALL.model_dump() | changes).whole_vectors()
