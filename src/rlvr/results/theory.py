"""Closed forms of the two-mode picture, to draw beside the measurements and to test against.

On a carry prompt the SFT policy says the truth with probability q, else the no-carry answer; on
every other prompt the two agree.
"""

from math import prod

from rlvr.elementary import log

CARRY_SHARE = 1 - 0.55**2
"""Share of prompts on which the no-carry answer is wrong: 0.6975, by counting digit pairs."""


def base_accuracy() -> float:
    """Greedy accuracy of a policy that prefers the no-carry answer (q < 0.5): 0.3025."""
    return 1 - CARRY_SHARE


def sampled_accuracy(q: float) -> float:
    """Probability that a sampled answer is right."""
    return 1 - CARRY_SHARE + CARRY_SHARE * q


def zero_signal_fraction(q: float, group_size: int) -> float:
    """Expected share of groups in which all `group_size` rewards are equal."""
    return 1 - CARRY_SHARE + CARRY_SHARE * (_power(q, group_size) + _power(1 - q, group_size))


def kl_floor(q: float, p: float = 1.0) -> float:
    """Least KL(policy || SFT policy), nats per sequence, of being right on carry prompts with p.

    For p = 1 it is -CARRY_SHARE ln q. Infinite if q is 0 and p is not.
    """

    def term(new: float, old: float) -> float:
        if new == 0:
            return 0.0
        return new * float(log(new / old)) if old else float("inf")

    return CARRY_SHARE * (term(p, q) + term(1 - p, 1 - q))


def _power(base: float, exponent: int) -> float:
    """By products, which every machine rounds alike."""
    return prod([base] * exponent)
