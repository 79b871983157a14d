"""SFT: its loss by an independent formula, and what it does to a policy."""

import numpy as np
import plain
import pytest
import torch
from helpers import CPU, SMALL, sft_settings

from rlvr.config.methods.sft import SftJob
from rlvr.config.settings.teachers import TeacherSettings
from rlvr.errors import UserError
from rlvr.methods.sft import sft_loss, train
from rlvr.task.addition import Additions, digits


def job(**changes):
    sft = {"learning_rate": 3e-3, "steps": 40, "batch_size": 64} | changes
    return SftJob(
        **CPU,
        policy=SMALL,
        teacher=TeacherSettings(truth_probability=0.3),
        sft=sft_settings(**sft),
    )


def test_loss_is_the_mean_over_answer_tokens_only(small_policy):
    a, b = np.array([3, 47]), np.array([99, 5])
    prompts, answers = Additions(a, b).prompts(), digits(a + b)
    sequences = torch.from_numpy(np.concatenate([prompts, answers], axis=1))
    logits = plain.module_of(small_policy)(sequences).detach().numpy()
    losses = [
        np.log(np.exp(logits[row, 6 + i]).sum()) - logits[row, 6 + i, answers[row, i]]
        for row in range(2)
        for i in range(3)
    ]
    loss, slopes = sft_loss(small_policy.log_probs(prompts, answers))
    assert loss == pytest.approx(np.mean(losses))
    assert (slopes == -1 / 6).all()


def test_training_lowers_the_loss_and_ends_with_the_accuracies():
    policy, rows = train(job(), seed=1)
    losses = [row["loss"] for row in rows]
    assert [row["step"] for row in rows] == list(range(1, 41))
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3
    assert "accuracy" not in rows[0]
    assert {"accuracy", "accuracy_carry", "success_probability"} <= rows[-1].keys()
    assert np.isfinite(policy.values).all()


@pytest.mark.parametrize("steps", [1, 3, 99])
def test_a_loss_that_is_not_finite_is_an_error_at_any_step(monkeypatch, steps):
    """Also at one that is not looked at on the way."""
    calls = iter(range(1, 1000))
    monkeypatch.setattr(
        "rlvr.methods.sft.sft_loss",
        lambda log_probs: (float("nan") if next(calls) == steps else 1.0, 0 * log_probs),
    )
    with pytest.raises(UserError, match=f"the loss is not finite at step {steps}: .* smaller sft"):
        train(job(steps=99), 1)


def test_the_seed_decides_everything():
    (one, rows), (again, _), (other, _) = train(job(), 1), train(job(), 1), train(job(), 2)
    assert np.array_equal(one.values, again.values)
    assert not np.array_equal(one.values, other.values)
    # More steps only add steps: the stream of each step is its own.
    assert train(job(steps=50), 1)[1][:39] == rows[:39]
