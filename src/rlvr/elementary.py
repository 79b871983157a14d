"""exp, log and roots that are the same bytes on every machine, in double precision.

NumPy's and the C library's differ in their last bits between processors. These are made of single
additions, products and divisions of arrays alone, which IEEE 754 rounds alike everywhere.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440054690583e-4  # an exponent times the first is exact
LEAST, MOST = -700.0, 700.0  # e to the power of less, or more, is taken for e to that
# Coefficients of P, the highest first: with c = r - r^2 P(r^2), e^r - 1 = r + r c / (2 - c), to
# within 2^-59 for |r| <= ln(2) / 2. They are those of FreeBSD's e_exp.c (Sun Microsystems 1993).
EXP = (4.13813679705723846039e-08, -1.65339022054652515390e-06, 6.61375632143793436117e-05,
       -2.77777777770155933842e-03, 1.66666666666666019037e-01)  # fmt: skip


def exp(x: ArrayLike) -> np.ndarray:
    """e^x, within two units in the last place."""
    power, tail = _power_and_tail(x)
    return power * tail + power


def expm1(x: ArrayLike) -> np.ndarray:
    """e^x - 1, also where that is next to 0."""
    power, tail = _power_and_tail(x)
    return power * tail + (power - 1)


def log(x: ArrayLike) -> np.ndarray:
    """ln x of x >= 0; -inf of 0.

    x = 2^k m with m in [1/sqrt 2, sqrt 2), and ln m = 2 artanh((m - 1) / (m + 1)) as a series.
    """
    x = np.asarray(x, dtype=np.float64)
    m, k = np.frexp(x)
    small = m < 0.70710678118654752440
    m, k = np.where(small, 2 * m, m), k - small
    s = (m - 1) / (m + 1)
    square, series = s * s, np.zeros_like(m)
    for n in range(21, 1, -2):
        series = (series + 1 / n) * square
    low = k * LN2_LOW + (2 * s * series + 2 * s)
    return np.where(x == 0, -np.inf, k * LN2_HIGH + low)


def log1p(x: ArrayLike) -> np.ndarray:
    """ln (1 + x) of x >= 0, also where that is next to 0.

    The quotient makes good what rounding 1 + x loses (Goldberg 1991, theorem 4).
    """
    x = np.asarray(x, dtype=np.float64)
    rounded = 1 + x
    lost = rounded == 1
    return np.where(lost, x, log(rounded) * x / np.where(lost, 1, rounded - 1))


def xlogy(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """x ln y, and 0 where x is 0, whatever y."""
    return np.where(np.equal(x, 0), 0.0, x * log(np.where(np.equal(x, 0), 1.0, y)))


def root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function is 0 between two numbers, to the last bit, by halving."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low


def _power_and_tail(x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """2^k and e^r - 1, with x = k ln 2 + r and |r| <= ln(2) / 2."""
    x = np.minimum(np.maximum(np.asarray(x, dtype=np.float64), LEAST), MOST)
    k = np.rint(x * 1.44269504088896340736)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    z = r * r
    series = EXP[0] * z
    for coefficient in EXP[1:]:
        series = (series + coefficient) * z
    rest = r - series
    with np.errstate(invalid="ignore"):  # of nan, whose tail is nan
        return np.ldexp(1.0, k.astype(np.int32)), r + r * rest / (2 - rest)
