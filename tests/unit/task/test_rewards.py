"""What completions earn, by enumeration of all 10,000 prompts."""

import re

import pytest
import torch
from helpers import ROOT

from rlvr.config.settings.names import REWARDS
from rlvr.task.addition import Additions, all_additions, digits
from rlvr.task.rewards import reward_named
from rlvr.task.rewards.exact import reward


def test_exact_agrees_with_integer_addition_on_every_prompt():
    asked = all_additions()
    # Every fourth completion is the sum, every fourth the no-carry one, the others anything.
    completions = digits(torch.randint(1000, (10_000,), generator=torch.Generator().manual_seed(0)))
    completions[::4] = asked.solutions()[::4]
    completions[1::4] = asked.no_carry_completions()[1::4]
    said = ["".join(map(str, tokens)) for tokens in completions.tolist()]
    sums = [f"{x + y:03d}" for x, y in zip(*(o.tolist() for o in asked), strict=True)]
    rewards = reward(asked, completions)
    assert rewards.tolist() == [float(d == s) for d, s in zip(said, sums, strict=True)]
    assert 2500 < rewards.sum() < 10000


def test_exact_rejects_tokens_that_are_no_digits():
    asked = Additions(torch.tensor([1]), torch.tensor([1]))
    for wrong in ([0, 0, 12], [11, 0, 2], [0, 10, 2], [2, 0, 0]):
        assert reward(asked, torch.tensor([wrong])).item() == 0.0
    assert reward(asked, torch.tensor([[0, 0, 2]])).item() == 1.0


@pytest.mark.parametrize("name", REWARDS)
def test_every_reward_gives_a_finite_number_for_each_completion(name):
    asked = all_additions()
    for completions in (asked.solutions(), torch.full((10_000, 3), 12)):
        earned = reward_named(name)(asked, completions)
        assert earned.shape == (10_000,), f"rlvr.task.rewards.{name}: one reward per completion"
        assert earned.dtype == torch.float32, f"rlvr.task.rewards.{name}: rewards are float32"
        assert earned.isfinite().all()


def test_rewards_are_the_modules_of_their_folder():
    folder = ROOT / "src/rlvr/task/rewards"
    assert {*REWARDS, "__init__"} == {path.stem for path in folder.glob("*.py")}
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in REWARDS)
