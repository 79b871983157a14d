"""The task: two-digit addition as tokens, what is right and what forgets to carry.

There are only 10,000 prompts, so that whatever is said of the task can be checked on all of them.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rlvr.config.values import PROMPTS

PLUS, EQUALS, BOS = 10, 11, 12
OUTPUT_CLASSES = 13  # digits 0-9, PLUS, EQUALS, BOS
VOCABULARY = 14  # rows of the embedding table; document A has one more than it uses
PROMPT_LENGTH = 6  # a_tens a_units + b_tens b_units =
COMPLETION_LENGTH = 3  # the sum with leading zeros, 000 to 198
POSITIONS = 1 + PROMPT_LENGTH + COMPLETION_LENGTH  # BOS, prompt, completion


class Additions(NamedTuple):
    """Prompts a + b, n of them, and what there is to say to each."""

    a: Tensor
    """First operands, 0..99 (n,)."""
    b: Tensor
    """Second operands, 0..99 (n,)."""

    def prompts(self) -> Tensor:
        """BOS and the six prompt tokens (n, 7)."""
        a, b = self
        plus, equals, bos = (torch.full_like(a, token) for token in (PLUS, EQUALS, BOS))
        return torch.stack([bos, a // 10, a % 10, plus, b // 10, b % 10, equals], dim=1)

    def solutions(self) -> Tensor:
        """The right completion of each (n, 3)."""
        return digits(self.a + self.b)

    def no_carry_completions(self) -> Tensor:
        """Each column added on its own, modulo 10, and the hundreds digit 0; (n, 3)."""
        a, b = self
        return digits(10 * ((a // 10 + b // 10) % 10) + (a % 10 + b % 10) % 10)

    def carry(self) -> Tensor:
        """Which are carry prompts, whose no-carry completion is wrong (n,): 69.75 % of all."""
        return (self.solutions() != self.no_carry_completions()).any(dim=1)

    def repeated(self, times: int) -> "Additions":
        """Each of them `times` times, copies together."""
        return Additions(*(operands.repeat_interleave(times) for operands in self))


def digits(numbers: Tensor) -> Tensor:
    """Three digits with leading zeros (n, 3) of numbers 0..999 (n,)."""
    return torch.stack([numbers // 100, numbers // 10 % 10, numbers % 10], dim=1)


def additions(indices: Tensor) -> Additions:
    """Those of the indices 100 a + b (n,)."""
    return Additions(indices // 100, indices % 100)


def all_additions() -> Additions:
    """All 10,000 of them, in lexical order."""
    return additions(torch.arange(PROMPTS))


def draw_additions(
    count: int, generator: torch.Generator, among: Tensor | None = None
) -> Additions:
    """So many, uniform over those of the indices `among` (all if None)."""
    if among is not None:
        return additions(among[torch.randint(len(among), (count,), generator=generator)])
    return Additions(*torch.randint(100, (2, count), generator=generator))
