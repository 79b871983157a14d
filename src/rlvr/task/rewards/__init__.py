"""What a completion earns: a module per reward, which `grpo.reward` in the config names.

Its function `reward` takes the additions asked, n of them, and their completions (n, 3), and gives
what each earns (n,). A run depends on the module of its own reward, and on no other.
"""

from collections.abc import Callable
from importlib import import_module

from torch import Tensor

from rlvr.task.addition import Additions

Reward = Callable[[Additions, Tensor], Tensor]


def reward_named(name: str) -> Reward:
    """The reward of this name."""
    return import_module(f"{__name__}.{name}").reward
