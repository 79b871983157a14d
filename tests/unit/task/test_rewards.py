"""What completions earn, by enumeration of all 10,000 prompts."""

import math
import re

import numpy as np
import pytest
from helpers import ROOT

from rlvr.config.settings.names import REWARDS
from rlvr.errors import UserError
from rlvr.task.addition import Additions, all_additions, digits
from rlvr.task.rewards import exact, rewards_by
from rlvr.task.rewards.exact import reward


def test_exact_agrees_with_integer_addition_on_every_prompt():
    asked = all_additions()
    # Every fourth completion is the sum, every fourth the no-carry one, the others anything.
    completions = digits(np.random.default_rng(0).integers(1000, size=10_000))
    completions[::4] = asked.solutions()[::4]
    completions[1::4] = asked.no_carry_completions()[1::4]
    said = ["".join(map(str, tokens)) for tokens in completions.tolist()]
    sums = [f"{x + y:03d}" for x, y in zip(*(o.tolist() for o in asked), strict=True)]
    rewards = reward(asked, completions)
    assert rewards.tolist() == [float(d == s) for d, s in zip(said, sums, strict=True)]
    assert 2500 < rewards.sum() < 10000


def test_exact_rejects_tokens_that_are_no_digits():
    asked = Additions(np.array([1]), np.array([1]))
    for wrong in ([0, 0, 12], [11, 0, 2], [0, 10, 2], [2, 0, 0]):
        assert reward(asked, np.array([wrong])).item() == 0.0
    assert reward(asked, np.array([[0, 0, 2]])).item() == 1.0


@pytest.mark.parametrize("name", REWARDS)
def test_every_reward_gives_a_number_from_0_to_1_for_each_completion(name):
    asked = all_additions()
    for completions in (asked.solutions(), np.full((10_000, 3), 12)):
        assert rewards_by(name, asked, completions).shape == (10_000,)


@pytest.mark.parametrize(
    ("rewards", "said"),
    [
        (np.array([0.0, 1.5]), r"\(2,\) numbers from 0 to 1\.5"),
        (np.array([-1.0, 0.0]), "numbers from -1 to 0"),
        (np.array([0.0, math.nan]), "nan"),
        (np.array([[0.0], [1.0]]), r"To 2 of them it gave \(2, 1\) numbers"),
        (np.array(1.0), r"gave \(\) numbers"),
    ],
)
def test_a_reward_that_gives_anything_else_is_refused(monkeypatch, rewards, said):
    monkeypatch.setattr(exact, "reward", lambda *_: rewards)
    asked = Additions(np.array([1, 2]), np.array([3, 4]))
    with pytest.raises(UserError, match=f"the reward exact must give one number.*{said}"):
        rewards_by("exact", asked, asked.solutions())


def test_rewards_are_the_modules_of_their_folder():
    folder = ROOT / "src/rlvr/task/rewards"
    assert {*REWARDS, "__init__"} == {path.stem for path in folder.glob("*.py")}
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in REWARDS)
