"""Streams depend on (seed, purpose, iteration) and on nothing else."""

import itertools

import numpy as np

from rlvr.task.streams import stream


def test_same_key_same_numbers():
    one, same = (stream(1, "grpo_prompts", 2).random(5) for _ in range(2))
    assert np.array_equal(one, same)


def test_each_seed_purpose_and_iteration_has_its_own():
    keys = itertools.product((1, 2), ("grpo_prompts", "grpo_completions"), (1, 2))
    draws = {tuple(stream(*key).random(3).tolist()) for key in keys}
    assert len(draws) == 8


def test_global_generator_is_left_alone():
    before = np.random.get_state()[1].tolist()
    stream(1, "sft_batch", 1).random(3)
    assert np.random.get_state()[1].tolist() == before


def test_draws_are_the_same_numbers_everywhere():
    """As constants: a generator or a NumPy that draws otherwise changes every result."""
    draws = stream(42, "grpo_prompts", 7)
    assert draws.integers(100, size=6).tolist() == [59, 75, 3, 71, 99, 8]
    assert draws.permutation(6).tolist() == [0, 2, 1, 4, 3, 5]
    assert [x.hex() for x in draws.random(2)] == ["0x1.da3221019f85dp-1", "0x1.f60a03c170db0p-5"]
