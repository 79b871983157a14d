"""exp, log and roots: accurate, and the same bytes everywhere."""

import hashlib

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr import elementary

ULP = np.finfo(np.float64).eps


def close(ours, truth):
    return abs(mpmath.mpf(float(ours)) - truth) <= 2 * ULP * abs(truth)


@given(st.floats(-699, 699))
def test_exp(x):
    with mpmath.workdps(40):
        assert close(elementary.exp(x), mpmath.exp(x))


@given(st.floats(-30, 30, allow_subnormal=False))
def test_expm1(x):
    with mpmath.workdps(40):
        assert close(elementary.expm1(x), mpmath.expm1(x))


@given(st.floats(1e-300, 1e300) | st.floats(0.9, 1.1))
def test_log(x):
    with mpmath.workdps(40):
        assert close(elementary.log(x), mpmath.log(x))


@given(st.floats(0, 1e300) | st.floats(0, 1e-10))
def test_log1p(x):
    with mpmath.workdps(40):
        assert close(elementary.log1p(x), mpmath.log1p(x))


def test_ends():
    assert elementary.log(0.0) == -np.inf
    assert elementary.xlogy(0.0, 0.0) == 0
    assert elementary.xlogy(2.0, 1.0) == 0
    assert elementary.exp(-1e9) == elementary.exp(-700)
    assert np.isnan(elementary.exp(np.nan))
    assert elementary.exp(0.0) == 1
    assert elementary.expm1(0.0) == 0


def test_root_to_the_last_bit():
    assert elementary.root(lambda x: 2 - x * x, 0.0, 2.0) == pytest.approx(2**0.5, rel=ULP)


def test_the_same_bytes_everywhere():
    x = np.linspace(-20, 20, 4001)
    numbers = [elementary.exp(x), elementary.expm1(x), elementary.log(np.abs(x) + 0.25)]
    numbers.append(elementary.log1p(np.abs(x)))
    assert (
        hashlib.sha256(b"".join(n.tobytes() for n in numbers)).hexdigest()[:16]
        == "2bdcfd4ada8b8e67"
    )
