"""The task, by enumeration of all 10,000 prompts."""

import pytest
import torch

from rlvr.results import theory
from rlvr.task.addition import (
    all_prompts,
    draw_prompts,
    encode_answer,
    encode_prompt,
    is_carry,
    no_carry_answer,
    teacher_answer,
    verify,
)
from rlvr.task.streams import stream


def test_carry_share_is_exact():
    assert is_carry(*all_prompts()).sum().item() == 6975
    assert pytest.approx(0.6975, abs=1e-15) == theory.CARRY_SHARE


def test_carry_prompts_are_those_where_a_column_carries():
    for a, b, carry in zip(*all_prompts(), is_carry(*all_prompts()), strict=True):
        units = a % 10 + b % 10 >= 10
        tens = a // 10 + b // 10 + units >= 10
        assert carry == (units or tens)


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [(0, 0, 0), (12, 34, 46), (15, 17, 22), (99, 99, 88), (50, 50, 0), (95, 5, 90), (9, 1, 0)],
)
def test_no_carry_answers_by_hand(a, b, answer):
    assert no_carry_answer(torch.tensor(a), torch.tensor(b)).item() == answer


def test_prompts_are_spelt_out():
    prompt = encode_prompt(torch.tensor([7]), torch.tensor([98]))
    assert prompt.tolist() == [[12, 0, 7, 10, 9, 8, 11]]
    assert encode_answer(torch.tensor([0, 7, 98, 198])).tolist() == [
        [0, 0, 0],
        [0, 0, 7],
        [0, 9, 8],
        [1, 9, 8],
    ]


def test_verifier_agrees_with_integer_addition_on_every_prompt():
    a, b = all_prompts()
    generator = torch.Generator().manual_seed(0)
    # Every fourth answer is the sum, every fourth the no-carry answer, the others anything.
    answers = torch.randint(1000, a.shape, generator=generator)
    answers[::4] = (a + b)[::4]
    answers[1::4] = no_carry_answer(a, b)[1::4]
    rewards = verify(a, b, encode_answer(answers))
    digits = [f"{answer:03d}" for answer in answers.tolist()]
    sums = [f"{x + y:03d}" for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert rewards.tolist() == [float(d == s) for d, s in zip(digits, sums, strict=True)]
    assert 2500 < rewards.sum() < 10000


def test_verifier_rejects_tokens_that_are_no_digits():
    a, b = torch.tensor([1]), torch.tensor([1])
    for wrong in ([0, 0, 12], [11, 0, 2], [0, 10, 2], [2, 0, 0]):
        assert verify(a, b, torch.tensor([wrong])).item() == 0.0
    assert verify(a, b, torch.tensor([[0, 0, 2]])).item() == 1.0


@pytest.mark.parametrize(("q", "expected"), [(0.0, 0), (1.0, 1)])
def test_teacher_of_certain_habits(q, expected):
    a, b = all_prompts()
    truthful = teacher_answer(a, b, q, stream(0, "sft_batch")) == a + b
    assert (truthful == (torch.ones_like(truthful) if expected else ~is_carry(a, b))).all()


def test_weak_teacher_tells_the_truth_with_probability_q():
    a, b = all_prompts()
    carry = is_carry(a, b)
    truthful = teacher_answer(a, b, 0.3, stream(0, "sft_batch")) == a + b
    assert truthful[~carry].all()
    assert truthful[carry].double().mean().item() == pytest.approx(
        0.3, abs=4 * (0.21 / 6975) ** 0.5
    )


def test_prompts_are_uniform():
    a, b = draw_prompts(100_000, stream(0, "grpo_prompts", 1))
    for operand in (a, b):
        counts = operand.bincount(minlength=100)
        assert len(counts) == 100
        assert ((counts - 1000).double() ** 2 / 1000).sum() < 149  # chi-square, 99 dof, p = 0.001
