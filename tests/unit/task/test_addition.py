"""The task, by enumeration of all 10,000 prompts."""

import numpy as np
import pytest

from rlvr.config.settings.teachers import TeacherSettings
from rlvr.results import theory
from rlvr.task.addition import Additions, all_additions, digits, draw_additions
from rlvr.task.streams import stream
from rlvr.task.teachers import demonstrations


def test_carry_share_is_exact():
    assert all_additions().carry().sum().item() == 6975
    assert pytest.approx(0.6975, abs=1e-15) == theory.CARRY_SHARE


def test_carry_prompts_are_those_where_a_column_carries():
    for a, b, carry in zip(*all_additions(), all_additions().carry(), strict=True):
        units = a % 10 + b % 10 >= 10
        tens = a // 10 + b // 10 + units >= 10
        assert carry == (units or tens)


@pytest.mark.parametrize(
    ("a", "b", "number"),
    [(0, 0, 0), (12, 34, 46), (15, 17, 22), (99, 99, 88), (50, 50, 0), (95, 5, 90), (9, 1, 0)],
)
def test_no_carry_completions_by_hand(a, b, number):
    asked = Additions(np.array([a]), np.array([b]))
    assert np.array_equal(asked.no_carry_completions(), digits(np.array([number])))


def test_prompts_are_spelt_out():
    asked = Additions(np.array([7]), np.array([98]))
    assert asked.prompts().tolist() == [[12, 0, 7, 10, 9, 8, 11]]
    assert asked.solutions().tolist() == [[1, 0, 5]]
    assert digits(np.array([0, 7, 98, 198])).tolist() == [
        [0, 0, 0],
        [0, 0, 7],
        [0, 9, 8],
        [1, 9, 8],
    ]


def test_copies_stand_together():
    asked = Additions(np.array([1, 2]), np.array([3, 4])).repeated(3)
    assert [operand.tolist() for operand in asked] == [[1, 1, 1, 2, 2, 2], [3, 3, 3, 4, 4, 4]]


@pytest.mark.parametrize(("q", "truthful"), [(0.0, False), (1.0, True)])
def test_teacher_of_certain_habits(q, truthful):
    asked = all_additions()
    shown = demonstrations(TeacherSettings(truth_probability=q), asked, stream(0, "sft_batch"))
    assert np.array_equal(shown, asked.solutions() if truthful else asked.no_carry_completions())


def test_weak_teacher_tells_the_truth_with_probability_q():
    asked = all_additions()
    teacher = TeacherSettings(truth_probability=0.3)
    shown = demonstrations(teacher, asked, stream(0, "sft_batch"))
    truthful, carry = (shown == asked.solutions()).all(axis=1), asked.carry()
    assert truthful[~carry].all()
    assert np.array_equal(shown[~truthful], asked.no_carry_completions()[~truthful])
    assert truthful[carry].mean().item() == pytest.approx(0.3, abs=4 * (0.21 / 6975) ** 0.5)


def test_prompts_are_uniform():
    for operand in draw_additions(100_000, stream(0, "grpo_prompts", 1)):
        counts = np.bincount(operand, minlength=100)
        assert len(counts) == 100
        assert ((counts - 1000) ** 2 / 1000).sum() < 149  # chi-square, 99 dof, p = 0.001
