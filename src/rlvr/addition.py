"""The task: two-digit addition as tokens, what the teachers answer, and the rule that checks it.

There are only 10,000 prompts, so that whatever is said of the task can be checked on all of them.
"""

import torch
from torch import Tensor

from rlvr.values import PROMPTS

PLUS, EQUALS, BOS = 10, 11, 12
OUTPUT_CLASSES = 13  # digits 0-9, PLUS, EQUALS, BOS
VOCABULARY = 14  # rows of the embedding table; document A has one more than it uses
PROMPT_LENGTH = 6  # a_tens a_units + b_tens b_units =
ANSWER_LENGTH = 3  # the sum with leading zeros, 000 to 198
POSITIONS = 1 + PROMPT_LENGTH + ANSWER_LENGTH  # BOS, prompt, answer


def operands(index: Tensor) -> tuple[Tensor, Tensor]:
    """Operands a and b of prompts, given their indices 100 a + b."""
    return index // 100, index % 100


def draw_prompts(
    count: int, generator: torch.Generator, among: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Operands a and b, each of shape (count,), uniform over the prompts `among` (all if None)."""
    if among is not None:
        return operands(among[torch.randint(len(among), (count,), generator=generator)])
    drawn = torch.randint(100, (2, count), generator=generator)
    return drawn[0], drawn[1]


def all_prompts() -> tuple[Tensor, Tensor]:
    """Operands a and b of all 10,000 prompts, each of shape (10000,), in lexical order."""
    return operands(torch.arange(PROMPTS))


def encode_prompt(a: Tensor, b: Tensor) -> Tensor:
    """BOS and the six prompt tokens, shape (n, 7), of operands of shape (n,)."""
    plus, equals, bos = (torch.full_like(a, token) for token in (PLUS, EQUALS, BOS))
    return torch.stack([bos, a // 10, a % 10, plus, b // 10, b % 10, equals], dim=1)


def encode_answer(answer: Tensor) -> Tensor:
    """Three digits with leading zeros, shape (n, 3), of numbers 0..999 of shape (n,)."""
    return torch.stack([answer // 100, answer // 10 % 10, answer % 10], dim=1)


def no_carry_answer(a: Tensor, b: Tensor) -> Tensor:
    """Each column added on its own, modulo 10, and the hundreds digit 0."""
    return 10 * ((a // 10 + b // 10) % 10) + (a % 10 + b % 10) % 10


def is_carry(a: Tensor, b: Tensor) -> Tensor:
    """Whether the no-carry answer is wrong: true for exactly 69.75 % of all prompts."""
    return no_carry_answer(a, b) != a + b


def teacher_answer(
    a: Tensor, b: Tensor, truth_probability: float, generator: torch.Generator
) -> Tensor:
    """The true sum with probability `truth_probability`, else the no-carry answer; shape (n,)."""
    truthful = torch.rand(a.shape, generator=generator) < truth_probability
    return torch.where(truthful, a + b, no_carry_answer(a, b))


def verify(a: Tensor, b: Tensor, completions: Tensor) -> Tensor:
    """The reward: 1.0 where all three tokens (n, 3) equal the zero-padded sum, else 0.0; (n,)."""
    return (completions == encode_answer(a + b)).all(dim=1).float()
