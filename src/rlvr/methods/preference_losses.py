"""The loss of preferences, which reward models and DPO share: -log sigmoid of a margin."""

import numpy as np

from rlvr.elementary import exp, log1p


def log_sigmoid_loss(margins: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean of -log sigmoid(margin) over n pairs, nats per pair, and its slope by each margin (n,).

    The margin is by how much more the chosen completion is worth than the rejected one: ln 2 is
    lost on a pair that is worth the same (Bradley and Terry 1952).
    """
    # -log sigmoid(m) = max(-m, 0) + log(1 + e^-|m|), in which nothing overflows.
    tail = exp(-np.abs(margins))
    losses = np.maximum(-margins, 0) + log1p(tail)
    rejected = np.where(margins >= 0, tail, 1.0) / (1 + tail)  # sigmoid(-margin)
    return losses.mean().item(), -rejected / len(margins)
