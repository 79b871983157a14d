"""Reward models: the Bradley-Terry loss, scores and their gradients against plain PyTorch."""

import math

import numpy as np
import plain
import pytest
import torch
from helpers import FULL_SIZE, LEARNED, grpo_job, pairs_of, reward_model_job, small_policy
from hypothesis import given
from hypothesis import strategies as st

from rlvr.config.runs import RewardModelRun, Run
from rlvr.errors import UserError
from rlvr.methods.learned_reward import read_reward
from rlvr.methods.pairs import Pairs
from rlvr.methods.preference_losses import log_sigmoid_loss
from rlvr.methods.reward_model import margins, train
from rlvr.methods.rewards import prepare_reward
from rlvr.methods.run_stage import Start
from rlvr.policy.checkpoints import save_policy
from rlvr.policy.engines.compiled import CompiledPolicy
from rlvr.policy.engines.torch import TorchPolicy
from rlvr.policy.scores import SCORE_HEAD, ScoreModel
from rlvr.task.addition import Additions
from rlvr.task.splits import split_prompts
from rlvr.task.streams import stream


@pytest.fixture
def model() -> ScoreModel:
    policy = small_policy(1)
    return ScoreModel(policy, np.cos(np.arange(policy.settings.width)))


def plain_scores(module, head, pairs: Pairs) -> torch.Tensor:
    """Each sequence as a whole; the head on the last token's state."""
    sequences = np.concatenate([pairs.prompts(), pairs.completions()], axis=1)
    return module.hidden_states(torch.from_numpy(sequences))[:, -1] @ head


def plain_loss(module, head, pairs: Pairs) -> torch.Tensor:
    chosen, rejected = plain_scores(module, head, pairs).chunk(2)
    return -torch.nn.functional.logsigmoid(chosen - rejected).mean()


def test_the_loss_of_two_pairs_by_hand():
    loss, slopes = log_sigmoid_loss(np.array([math.log(3), 0.0]))  # sigmoid: 3/4 and 1/2
    assert loss == pytest.approx((math.log(4 / 3) + math.log(2)) / 2, rel=1e-15)
    np.testing.assert_allclose(slopes, [-1 / 8, -1 / 4], rtol=1e-15)


def test_pairs_of_equal_worth_lose_ln_2_exactly():
    loss, slopes = log_sigmoid_loss(np.zeros(3))
    assert loss == math.log(2)
    assert slopes.tolist() == [-1 / 6] * 3


@given(st.lists(st.floats(-800, 800), min_size=1, max_size=9))
def test_the_loss_and_its_slopes_are_those_of_pytorch(values):
    tensor = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    truth = -torch.nn.functional.logsigmoid(tensor).mean()
    truth.backward()
    loss, slopes = log_sigmoid_loss(np.array(values))
    assert loss == pytest.approx(truth.item(), rel=1e-13, abs=1e-300)
    np.testing.assert_allclose(slopes, tensor.grad, rtol=1e-12, atol=1e-300)


def test_scores_and_gradients_are_those_of_the_plain_pass(model):
    pairs = pairs_of(40)
    module = plain.module_of(model.transformer)
    head = torch.from_numpy(model.head.copy()).requires_grad_(True)
    truth = plain_scores(module, head, pairs)
    scores = model.score(pairs.prompts(), pairs.completions())
    np.testing.assert_allclose(scores, truth.detach(), rtol=1e-11, atol=1e-12)

    plain_loss(module, head, pairs).backward()
    _, slopes = log_sigmoid_loss(margins(model, pairs))
    model.backward(np.concatenate([slopes, -slopes])[:, np.newaxis])
    np.testing.assert_allclose(model.head_gradient, head.grad, rtol=1e-10, atol=1e-13)
    expected = [
        np.zeros(p.shape).ravel() if p.grad is None else p.grad.numpy().ravel()
        for p in module.parameters()
    ]
    np.testing.assert_allclose(
        model.transformer.gradient, np.concatenate(expected), rtol=1e-8, atol=1e-12
    )


def test_training_is_adamw_on_bradley_terry():
    """Step by step that of PyTorch's own optimiser, in double precision."""
    policy, pairs = small_policy(1), pairs_of(64)
    module = plain.module_of(policy)
    head = torch.zeros(policy.settings.width, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.AdamW([*module.parameters(), head], lr=1e-3, weight_decay=0.01)
    losses = []
    for step in range(1, 13):
        drawn = stream(5, "reward_model_batch", step).integers(64, size=16)
        loss = plain_loss(module, head, pairs.taken(drawn))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    trained, rows = train(reward_model_job(), policy, pairs, pairs_of(30, seed=1), seed=5)
    np.testing.assert_allclose([row["loss"] for row in rows], losses, rtol=1e-7)
    assert rows[0]["loss"] == math.log(2)  # the head begins with zeros
    np.testing.assert_allclose(trained.head, head.detach(), rtol=0, atol=1e-8)
    near = np.abs(trained.transformer.values - plain.values_of(module)) < 1e-8
    # Adam divides by the gradient's own size: of weights that hardly have one rounding is seen.
    # PyTorch's also leaves out, and does not shrink, what no gradient reaches: its own head.
    unused = policy.settings.width * 13 + 13
    assert near[:-unused].mean() > 0.99
    assert [row["step"] for row in rows if "accuracy_fresh" in row] == [5, 10, 12]


def test_both_engines_train_alike():
    policy = small_policy(1)
    runs = [
        train(reward_model_job(), start, pairs_of(64), pairs_of(30, seed=1), seed=5)
        for start in (policy, TorchPolicy(policy.settings, policy.values))
    ]
    losses = [[row["loss"] for row in rows] for _, rows in runs]
    np.testing.assert_allclose(*losses, rtol=1e-7)
    np.testing.assert_allclose(*(model.head for model, _ in runs), rtol=0, atol=1e-8)


def test_it_learns_what_it_is_shown(half_trained):
    job = reward_model_job(steps=60)
    _, rows = train(job, half_trained, pairs_of(64), pairs_of(200, seed=1), seed=1)
    assert rows[-1]["accuracy"] > 0.95
    assert rows[-1]["accuracy_fresh"] > 0.6
    assert rows[-1]["loss"] < rows[0]["loss"] / 2


# --- As a reward ----------------------------------------------------------------------------------

RUN = Run(method="grpo", recipe="base", teacher="weak", beta=0, seed=1)
MODEL_RUN = RewardModelRun(reward="mine", teacher="weak", seed=1)


def learned_job():
    job = grpo_job(reward="mine")
    return job.model_copy(update={"reward": LEARNED})


def saved(tmp_path, policy, run=MODEL_RUN, **heads):
    path = tmp_path / "model.safetensors"
    save_policy(policy, path, {"run": run.model_dump(), "settings": {}}, **heads)
    return path


def test_a_learned_reward_is_the_score_of_the_file(tmp_path, half_trained):
    head = np.sin(np.arange(FULL_SIZE.width, dtype=np.float32))
    path = saved(tmp_path, half_trained, **{SCORE_HEAD: head})
    start = Start(half_trained, split_prompts(None), {})
    source = prepare_reward(learned_job(), start, RUN, path)
    asked = Additions(np.array([47, 3]), np.array([85, 4]))
    expected = ScoreModel(half_trained, head).score(asked.prompts(), asked.solutions())
    assert np.array_equal(source.reward(asked, asked.solutions(), stream(0, "x")), expected)
    assert source.made_by["reward_model"]["run"] == MODEL_RUN.model_dump()


@pytest.mark.parametrize("change", [{"teacher": "cold"}, {"seed": 2}, {"reward": "other"}])
def test_the_model_of_another_run_is_refused(tmp_path, half_trained, change):
    head = np.zeros(FULL_SIZE.width, dtype=np.float32)
    other = MODEL_RUN.model_copy(update=change)
    path = saved(tmp_path, half_trained, other, **{SCORE_HEAD: head})
    with pytest.raises(UserError, match=r"holds the reward model .* learns from"):
        read_reward(path, learned_job(), Start(half_trained, split_prompts(None), {}), RUN)


def test_a_model_of_another_architecture_is_refused(tmp_path, half_trained):
    narrow = small_policy()
    small = CompiledPolicy(narrow.settings, narrow.values.astype(np.float32))
    head = np.zeros(narrow.settings.width, dtype=np.float32)
    path = saved(tmp_path, small, **{SCORE_HEAD: head})
    with pytest.raises(UserError, match=r"is a reward model of .*width=16.* is one of .*width=64"):
        read_reward(path, learned_job(), Start(half_trained, split_prompts(None), {}), RUN)


def test_a_policy_is_no_reward_model(tmp_path, half_trained):
    path = saved(tmp_path, half_trained)
    with pytest.raises(UserError, match=r"1 of 29 tensors differ.*score\.weight"):
        read_reward(path, learned_job(), Start(half_trained, split_prompts(None), {}), RUN)


def test_a_learned_reward_needs_its_model_and_a_rule_takes_none(tmp_path, half_trained):
    start = Start(half_trained, split_prompts(None), {})
    with pytest.raises(UserError, match="the reward mine is learned: it needs --reward-model"):
        prepare_reward(learned_job(), start, RUN, None)
    with pytest.raises(UserError, match="the reward exact is a rule: it takes no --reward-model"):
        prepare_reward(grpo_job(), start, RUN, tmp_path / "model.safetensors")
