"""The task: two-digit addition as tokens, what is right and what forgets to carry.

There are only 10,000 prompts, so that whatever is said of the task can be checked on all of them.
"""

from typing import NamedTuple

import numpy as np

from rlvr.config.values import PROMPTS

PLUS, EQUALS, BOS = 10, 11, 12
OUTPUT_CLASSES = 13  # digits 0-9, PLUS, EQUALS, BOS
VOCABULARY = 14  # rows of the embedding table; document A has one more than it uses
PROMPT_LENGTH = 6  # a_tens a_units + b_tens b_units =
COMPLETION_LENGTH = 3  # the sum with leading zeros, 000 to 198
POSITIONS = 1 + PROMPT_LENGTH + COMPLETION_LENGTH  # BOS, prompt, completion


class Additions(NamedTuple):
    """Prompts a + b, n of them, and what there is to say to each."""

    a: np.ndarray
    """First operands, 0..99 (n,)."""
    b: np.ndarray
    """Second operands, 0..99 (n,)."""

    def prompts(self) -> np.ndarray:
        """BOS and the six prompt tokens (n, 7)."""
        a, b = self
        plus, equals, bos = (np.full_like(a, token) for token in (PLUS, EQUALS, BOS))
        return np.stack([bos, a // 10, a % 10, plus, b // 10, b % 10, equals], axis=1)

    def solutions(self) -> np.ndarray:
        """The right completion of each (n, 3)."""
        return digits(self.a + self.b)

    def no_carry_completions(self) -> np.ndarray:
        """Each column added on its own, modulo 10, and the hundreds digit 0; (n, 3)."""
        a, b = self
        return digits(10 * ((a // 10 + b // 10) % 10) + (a % 10 + b % 10) % 10)

    def carry(self) -> np.ndarray:
        """Which are carry prompts, whose no-carry completion is wrong (n,): 69.75 % of all."""
        return (self.solutions() != self.no_carry_completions()).any(axis=1)

    def repeated(self, times: int) -> "Additions":
        """Each of them `times` times, copies together."""
        return Additions(*(operands.repeat(times) for operands in self))


def digits(numbers: np.ndarray) -> np.ndarray:
    """Three digits with leading zeros (n, 3) of numbers 0..999 (n,)."""
    return np.stack([numbers // 100, numbers // 10 % 10, numbers % 10], axis=1)


def are_digits(completions: np.ndarray) -> np.ndarray:
    """Whether all three tokens of each completion (n, 3) are digits (n,)."""
    return (completions <= 9).all(axis=1)


def numbers(completions: np.ndarray) -> np.ndarray:
    """The numbers (n,) that completions (n, 3) of digits write."""
    return (completions * [100, 10, 1]).sum(axis=1)


def additions(indices: np.ndarray) -> Additions:
    """Those of the indices 100 a + b (n,)."""
    return Additions(indices // 100, indices % 100)


def all_additions() -> Additions:
    """All 10,000 of them, in lexical order."""
    return additions(np.arange(PROMPTS))


def draw_additions(
    count: int, generator: np.random.Generator, among: np.ndarray | None = None
) -> Additions:
    """So many, uniform over those of the indices `among` (all if None)."""
    if among is not None:
        return additions(among[generator.integers(len(among), size=count)])
    return Additions(*generator.integers(100, size=(2, count)))
