"""Random streams: each purpose of each iteration of each run seed has its own.

So a change to one stage, or to how often it evaluates, never shifts the numbers of another.
"""

import hashlib

import torch


def stream(seed: int, purpose: str, iteration: int = 0) -> torch.Generator:
    """A generator on the CPU that depends on (seed, purpose, iteration) alone.

    It stays on the CPU when training does not, so that every device sees the same draws.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{iteration}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))
