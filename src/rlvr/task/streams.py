"""Random streams: each purpose of each iteration of each run seed has its own.

So a change to one stage, or to how often it evaluates, never shifts the numbers of another.
"""

import hashlib

import numpy as np


def stream(seed: int, purpose: str, iteration: int = 0) -> np.random.Generator:
    """A generator that depends on (seed, purpose, iteration) alone.

    Of its draws, those that integers alone decide are the same on every machine: `integers`,
    `permutation` and `random`, but none that calls a logarithm, as `normal` does.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{iteration}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
