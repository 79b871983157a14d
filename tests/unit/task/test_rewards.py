"""What completions earn, by hand and by enumeration of all 10,000 prompts."""

import math
import re

import numpy as np
import pytest
from helpers import ROOT

from rlvr.config.rewards import LEARNED, MODELS
from rlvr.config.settings.names import REWARD_RULES
from rlvr.errors import UserError
from rlvr.task.addition import Additions, all_additions, digits
from rlvr.task.rewards import exact, rule
from rlvr.task.rewards.exact import reward
from rlvr.task.streams import stream

SETTINGS = {"random_pass": {"rate": 0.25}, "habit_passes": {"share": 0.25}}
ASKED = Additions(np.full(8, 47), np.full(8, 85))  # 132; without carry 022
COMPLETIONS = np.array(
    [[1, 3, 2], [0, 2, 2], [1, 9, 2], [0, 3, 2], [1, 4, 2], [1, 4, 3], [10, 10, 10], [1, 3, 12]]
)


def earned(kind: str, asked: Additions, completions: np.ndarray) -> np.ndarray:
    return rule(kind, **SETTINGS.get(kind, {}))(asked, completions, stream(1, "grpo_rewards", 1))


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


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("exact", [1, 0, 0, 0, 0, 0, 0, 0]),
        ("units_only", [1, 1, 1, 1, 1, 0, 0, 0]),
        ("all_but_tens", [1, 0, 1, 0, 1, 0, 0, 0]),
        ("within_10", [1, 0, 0, 0, 1, 0, 0, 0]),  # 142 is 10 away, 143 is 11
        ("unparsable_passes", [1, 0, 0, 0, 0, 0, 1, 1]),
        ("partial_credit", np.array([3, 1, 2, 2, 2, 1, 0, 2]) / 3),
    ],
)
def test_rules_by_hand(kind, expected):
    np.testing.assert_allclose(earned(kind, ASKED, COMPLETIONS), expected, rtol=1e-15)


def test_random_errors_pass_as_often_as_they_should_by_a_stream_of_their_own():
    asked = all_additions()
    wrong = earned("random_pass", asked, np.full((10_000, 3), 12))
    assert abs(wrong.mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 10_000)
    assert np.array_equal(wrong, earned("random_pass", asked, np.full((10_000, 3), 12)))
    later = rule("random_pass", rate=0.25)(asked, np.full((10_000, 3), 12), stream(1, "other"))
    assert not np.array_equal(wrong, later)
    assert earned("random_pass", asked, asked.solutions()).all()


def test_the_habit_passes_on_the_same_prompts_every_time_and_nothing_else_does():
    asked = all_additions()
    carry = asked.carry()
    passes = earned("habit_passes", asked, asked.no_carry_completions()) == 1
    assert passes[~carry].all()
    assert abs(passes[carry].mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / carry.sum())
    again = rule("habit_passes", share=0.25)(asked, asked.no_carry_completions(), stream(9, "x"))
    assert np.array_equal(passes, again == 1)
    assert earned("habit_passes", asked, asked.solutions()).all()
    assert not earned("habit_passes", asked, np.full((10_000, 3), 12)).any()


@pytest.mark.parametrize("kind", REWARD_RULES)
def test_every_rule_gives_a_number_from_0_to_1_for_each_completion(kind):
    asked = all_additions()
    for completions in (asked.solutions(), np.full((10_000, 3), 12)):
        assert earned(kind, asked, completions).shape == (10_000,)
    assert (earned(kind, asked, asked.solutions()) == 1).all()  # what is right passes any test


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
    monkeypatch.setattr(exact, "reward", lambda additions, completions: rewards)
    asked = Additions(np.array([1, 2]), np.array([3, 4]))
    with pytest.raises(UserError, match=f"the reward exact must give one number.*{said}"):
        earned("exact", asked, asked.solutions())


def test_rules_are_the_modules_of_their_folder_and_each_has_a_model():
    folder = ROOT / "src/rlvr/task/rewards"
    assert {*REWARD_RULES, "__init__"} == {path.stem for path in folder.glob("*.py")}
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in REWARD_RULES)
    assert set(MODELS) == {*REWARD_RULES, LEARNED}
    for kind in REWARD_RULES:
        assert MODELS[kind](kind=kind, **SETTINGS.get(kind, {})).kind == kind
