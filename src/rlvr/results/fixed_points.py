"""Where GRPO with a KL penalty comes to rest, on a prompt that SFT answers rightly with q.

In the two-mode picture of `rlvr.results.theory`, success has probability p = sigmoid(x). The policy
gradient of standardised rewards pushes x with the force `signal`; the KL pulls it back towards q.
"""

from collections.abc import Callable

import numpy as np

from rlvr.elementary import exp, log, root

EDGE = 1e-9  # p is looked for between q and 1, this far from both


def signal(p: float, group_size: int, advantage_epsilon: float) -> float:
    """Expected force of the rewards: E over k ~ Binomial(G, p) of m (1 - m) / (s + epsilon).

    m = k / G is a group's mean reward, s its standard deviation with Bessel's correction.
    """
    k = np.arange(group_size + 1)
    m = k / group_size
    s = np.sqrt(m * (1 - m) * group_size / (group_size - 1))
    ways = np.concatenate([[0.0], log((group_size - k[:-1]) / k[1:]).cumsum()])  # ln of G over k
    weights = exp(ways + k * log(p) + (group_size - k) * log(1 - p))
    return float((weights * m * (1 - m) / (s + advantage_epsilon)).sum())


def _logit(p: float) -> float:
    return float(log(p / (1 - p)))


def rest_advantage(q: float, beta: float, group_size: int, advantage_epsilon: float) -> float:
    """p where beta times the log-ratio is taken off the advantage: the force of KL(policy || SFT).

    signal(p) = beta p (1 - p) (logit p - logit q).
    """
    if not beta:
        return 1.0
    return _crossing(
        lambda p: (
            signal(p, group_size, advantage_epsilon) - beta * p * (1 - p) * (_logit(p) - _logit(q))
        ),
        q,
    )


def rest_loss_k3(q: float, beta: float, group_size: int, advantage_epsilon: float) -> float:
    """p where beta times the k3 estimate is in the loss: the force of KL(SFT || policy).

    signal(p) = beta (p - q).
    """
    if not beta:
        return 1.0
    return _crossing(lambda p: signal(p, group_size, advantage_epsilon) - beta * (p - q), q)


def _crossing(force: Callable[[float], float], q: float) -> float:
    """Where a force turns negative above q: q where it is so at once, 1 where it never is."""
    low, high = q + EDGE, 1 - EDGE
    if low >= high or force(low) <= 0:
        return q
    return root(force, low, high) if force(high) < 0 else 1.0
