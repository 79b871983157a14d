"""Streams depend on (seed, purpose, iteration) and on nothing else."""

import itertools

import torch

from rlvr.task.streams import stream


def test_same_key_same_numbers():
    assert torch.equal(
        torch.rand(5, generator=stream(1, "grpo_prompts", 2)),
        torch.rand(5, generator=stream(1, "grpo_prompts", 2)),
    )


def test_each_seed_purpose_and_iteration_has_its_own():
    keys = itertools.product((1, 2), ("grpo_prompts", "grpo_completions"), (1, 2))
    draws = {tuple(torch.rand(3, generator=stream(*key)).tolist()) for key in keys}
    assert len(draws) == 8


def test_global_generator_is_left_alone():
    before = torch.get_rng_state()
    torch.rand(3, generator=stream(1, "sft_batch", 1))
    assert torch.equal(before, torch.get_rng_state())
