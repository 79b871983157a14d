"""DPO: its loss and gradient by hand and against PyTorch."""

import math

import numpy as np
import plain
import pytest
import torch
from helpers import dpo_job, pairs_of, small_policy
from hypothesis import given
from hypothesis import strategies as st

from rlvr.errors import UserError
from rlvr.methods.columns import METRICS
from rlvr.methods.dpo import dpo_loss, log_probs_of, train
from rlvr.policy.engines.torch import TorchPolicy
from rlvr.policy.exam import averages, grade, prepare_exam
from rlvr.task.splits import split_prompts
from rlvr.task.streams import stream

EVERYTHING = split_prompts(None)


def test_the_loss_of_two_pairs_by_hand():
    # Margins beta (chosen - rejected): 0.5 (ln 3 - -ln 3) = ln 3 and 0.5 (-1 - -1) = 0.
    log_ratios = np.array([[math.log(3), -1.0], [-math.log(3), -1.0]])
    loss, slopes = dpo_loss(log_ratios, 0.5)
    assert loss == pytest.approx((math.log(4 / 3) + math.log(2)) / 2, rel=1e-15)
    np.testing.assert_allclose(slopes, [[-1 / 16, -1 / 8], [1 / 16, 1 / 8]], rtol=1e-15)


@pytest.mark.parametrize("beta", [0.1, 0.5, 7.0])
def test_a_policy_that_is_its_reference_loses_ln_2_exactly(half_trained, beta):
    """Also where the reference's log-probabilities were computed with other pairs."""
    pairs = pairs_of(200)
    reference = log_probs_of(half_trained, pairs)
    drawn = stream(1, "dpo_batch", 1).integers(200, size=64)
    log_ratios = log_probs_of(half_trained.copy(), pairs.taken(drawn)) - reference[:, drawn]
    assert not log_ratios.any()
    assert dpo_loss(log_ratios, beta)[0] == math.log(2)


numbers = st.floats(-60, 60)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8), st.sampled_from([0.1, 0.5]))
def test_loss_and_slopes_are_those_of_an_independent_formula(values, beta):
    tensor = torch.tensor(values, dtype=torch.float64).T.requires_grad_(True)
    truth = -torch.nn.functional.logsigmoid(beta * (tensor[0] - tensor[1])).mean()
    truth.backward()
    loss, slopes = dpo_loss(np.array(values).T, beta)
    assert loss == pytest.approx(truth.item(), rel=1e-12, abs=1e-300)
    np.testing.assert_allclose(slopes, tensor.grad, rtol=1e-10, atol=1e-300)


def plain_loss(module, reference, pairs, beta):
    """Rafailov et al. 2023, equation 7, from whole sequences."""

    def log_prob(network, completions):
        tokens = map(torch.from_numpy, (pairs.asked.prompts(), completions))
        return plain.log_probs(network, *tokens).sum(dim=1)

    chosen, rejected = (
        log_prob(module, one) - log_prob(reference, one).detach()
        for one in (pairs.chosen, pairs.rejected)
    )
    return -torch.nn.functional.logsigmoid(beta * (chosen - rejected)).mean()


def test_training_is_adam_on_the_loss():
    """Step by step that of PyTorch's own optimiser, in double precision."""
    policy, pairs = small_policy(1), pairs_of(64)
    module, reference = plain.module_of(policy), plain.module_of(policy)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    losses = []
    for step in range(1, 7):
        drawn = stream(3, "dpo_batch", step).integers(64, size=16)
        loss = plain_loss(module, reference, pairs.taken(drawn), 0.5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    fresh = pairs_of(30, seed=1)
    trained, rows = train(dpo_job(learning_rate=1e-3), policy, EVERYTHING, pairs, fresh, 0.5, 3)
    assert rows[1]["loss"] == math.log(2)
    np.testing.assert_allclose([row["loss"] for row in rows[1:]], losses, rtol=1e-8)
    np.testing.assert_allclose(trained.values, plain.values_of(module), rtol=0, atol=1e-8)


def test_both_engines_train_alike():
    policy, pairs = small_policy(1), pairs_of(64)
    runs = [
        train(dpo_job(learning_rate=1e-3), start, EVERYTHING, pairs, pairs, 0.5, 3)
        for start in (policy, TorchPolicy(policy.settings, policy.values))
    ]
    losses = [[row["loss"] for row in rows[1:]] for _, rows in runs]
    np.testing.assert_allclose(*losses, rtol=1e-8)
    np.testing.assert_allclose(*(trained.values for trained, _ in runs), rtol=0, atol=1e-8)


def test_what_is_logged_is_of_the_policy_and_its_reference(half_trained):
    fresh, start = pairs_of(40, seed=1), half_trained.values.copy()
    policy, rows = train(dpo_job(), half_trained, EVERYTHING, pairs_of(64), fresh, 0.5, 1)
    assert np.array_equal(half_trained.values, start)
    assert [row["iteration"] for row in rows] == list(range(7))
    assert {*rows[0], *rows[-1]} <= set(METRICS.names)
    evaluated = [row["iteration"] for row in rows if "kl" in row]
    assert evaluated == [0, 3, 6]
    chosen, rejected = log_probs_of(policy, fresh) - log_probs_of(half_trained, fresh)
    assert rows[-1]["log_ratio_chosen"] == pytest.approx(chosen.mean())
    assert rows[-1]["log_ratio_rejected"] == pytest.approx(rejected.mean())
    assert rows[-1]["preference_accuracy"] == (chosen > rejected).mean()
    exam = prepare_exam(EVERYTHING.exam)
    expected = averages(grade(policy, exam), exam)
    assert {key: rows[-1][key] for key in expected} == expected
    first = rows[0]
    assert (first["kl"], first["kl_floor"], first["log_ratio_chosen"]) == (0, 0, 0)


def test_evaluating_more_often_changes_nothing_else(half_trained):
    parts = (half_trained, EVERYTHING, pairs_of(64), pairs_of(30, seed=1), 0.5, 1)
    seldom, _ = train(dpo_job(evaluate_every=6), *parts)
    often, _ = train(dpo_job(evaluate_every=1), *parts)
    assert np.array_equal(seldom.values, often.values)


def test_training_that_diverges_is_told(half_trained):
    parts = (half_trained, EVERYTHING, pairs_of(64), pairs_of(30, seed=1), 0.5, 1)
    with pytest.raises(UserError, match=r"not finite at step 2.*smaller dpo.learning_rate"):
        train(dpo_job(learning_rate=1e30), *parts)
