"""Annotators: whom they choose, by hand, and how often, against their probabilities."""

import math

import numpy as np
import pytest

from rlvr.task.addition import Additions, all_additions
from rlvr.task.annotators import FIRST, NEITHER, SECOND, chosen
from rlvr.task.streams import stream

TRUTH, HABIT, OTHER, WORSE = [1, 3, 2], [0, 2, 2], [1, 3, 3], [12, 0, 0]  # to 47 + 85
PAIRS = {
    (*first, *second): (first, second)
    for first in (TRUTH, HABIT, OTHER, WORSE)
    for second in (TRUTH, HABIT, OTHER, WORSE)
}


def choice(labels, first, second, times=1, truth=0.3, seed=0):
    asked = Additions(np.full(times, 47), np.full(times, 85))
    completions = (np.tile(first, (times, 1)), np.tile(second, (times, 1)))
    return chosen(labels, asked, completions, truth, stream(seed, "labels"))


@pytest.mark.parametrize(("first", "second"), PAIRS.values(), ids=str)
def test_a_truthful_annotator_prefers_what_is_right_and_nothing_else(first, second):
    expected = {(True, False): FIRST, (False, True): SECOND}
    right = (first == TRUTH, second == TRUTH)
    assert choice("truthful", first, second).item() == expected.get(right, NEITHER)


@pytest.mark.parametrize(("first", "second"), PAIRS.values(), ids=str)
def test_a_habitual_annotator_knows_truth_and_habit_from_the_rest(first, second):
    said = [one in (TRUTH, HABIT) for one in (first, second)]
    answers = choice("habitual", first, second, times=50)
    if first == second or not any(said):
        assert (answers == NEITHER).all()
    elif said == [True, False]:
        assert (answers == FIRST).all()
    elif said == [False, True]:
        assert (answers == SECOND).all()
    else:  # the truth against the habit
        assert set(answers.tolist()) == {FIRST, SECOND}


@pytest.mark.parametrize("truth", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("truth_first", [True, False])
def test_the_habit_wins_as_often_as_it_should(truth, truth_first):
    pair = (TRUTH, HABIT) if truth_first else (HABIT, TRUTH)
    answers = choice("habitual", *pair, times=20_000, truth=truth)
    share = (answers == (FIRST if truth_first else SECOND)).mean()
    assert abs(share - truth) <= 4 * math.sqrt(truth * (1 - truth) / 20_000)


def test_without_a_carry_truth_and_habit_are_one():
    asked = all_additions()
    truth, habit = asked.solutions(), asked.no_carry_completions()
    answers = chosen("habitual", asked, (truth, habit), 0.3, stream(0, "labels"))
    assert ((answers == NEITHER) == ~asked.carry()).all()
    wrong = np.full((10_000, 3), 12)
    answers = chosen("habitual", asked, (truth, wrong), 0.0, stream(0, "labels"))
    assert (answers == FIRST).all()  # where it never prefers the truth to the habit, too
