"""The reward that cannot be hacked: 1 if all three digits are right, else 0."""

from torch import Tensor

from rlvr.task.addition import Additions


def reward(additions: Additions, completions: Tensor) -> Tensor:
    """1.0 where all three tokens (n, 3) are those of the solution, else 0.0; (n,)."""
    return (completions == additions.solutions()).all(dim=1).float()
